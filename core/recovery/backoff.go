package recovery

import "time"

// backoff spaces the tries of one action.
type backoff struct {
	next time.Time
	wait time.Duration
}

func (b *backoff) may(now time.Time) bool { return !now.Before(b.next) }

// ask notes a try: the next may follow after twice as long as the last.
func (b *backoff) ask(now time.Time, first, most time.Duration) {
	b.wait = min(max(2*b.wait, first), most)
	b.next = now.Add(b.wait)
}
