package engine

import "sync"

// lock guards the engine. Steps and scheduling cycles take it in turn, and the cycles of dozens
// of pods may be waiting for it. A question goes before them, one at a time: it waits for the
// step or cycle that has the lock and for the first in line, and between two turns there is
// at most one question.
type lock struct {
	held sync.Mutex
	// line is held by the first step or cycle that waits for its turn.
	line sync.Mutex
	// ahead is held by the question that goes before the line.
	ahead sync.Mutex
}

// Lock takes the lock in turn.
func (l *lock) Lock() {
	l.line.Lock()
	l.held.Lock()
	l.line.Unlock()
}

// Unlock gives it back.
func (l *lock) Unlock() { l.held.Unlock() }

// LockAhead takes the lock before the line, unless another question does so at the moment.
// unlock gives it back.
func (l *lock) LockAhead() (unlock func()) {
	if !l.ahead.TryLock() {
		l.Lock()
		return l.Unlock
	}
	l.held.Lock()
	return func() {
		l.held.Unlock()
		l.ahead.Unlock()
	}
}
