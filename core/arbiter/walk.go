package arbiter

// setOut begins the walk of a pass, or its second part: first by age over the jobs that are
// over age, where there is aging, then by the queue's policy over the others.
func (b *backlog) setOut() {
	if b.ranked() && !b.aged {
		b.at = cursor{list: &b.byRank}
	} else {
		b.at = cursor{list: &b.byAge}
	}
}

// walk is next for a pass that walks.
func (b *backlog) walk() *entry {
	aging := b.ranked() && b.node.aging() > 0
	for ; ; b.at.move() {
		e := b.at.job()
		if b.aged && (e == nil || e.Submitted > b.overAge) {
			b.aged = false
			b.setOut()
			e = b.at.job()
		}
		switch {
		case e == nil:
			return nil
		case aging && !b.aged && e.Submitted <= b.overAge: // offered before, by age
		case e.bucket.blocked == b.pass.number:
		default:
			e.bucket.head = e
			if !b.blocked(e.bucket) {
				return e
			}
		}
	}
}
