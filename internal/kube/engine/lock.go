package engine

import "sync"

// lock guards the engine. Those who decide and bind take it in turn, and dozens of pods that
// are being bound may be waiting for it. A question goes before them, one at a time: it waits
// for who has the lock and for the first in line, and holds up nobody for more than one
// question between two turns.
type lock struct {
	held sync.Mutex
	// line is held by the first of those that wait for their turn.
	line sync.Mutex
	// ahead is held by the question that goes before them.
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

// LockAhead takes the lock before those that wait for their turn, if no other question does.
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

// TryLock takes the lock if nobody has it.
func (l *lock) TryLock() bool { return l.held.TryLock() }
