package reserve

import "github.com/tangram-dev/tangram/core/cluster"

// Promises are the first start times that reservations gave gangs, until they have started:
// what people were told.
type Promises struct{ at map[cluster.ID]int64 }

// Of is the first start time that a reservation gave a gang; 0: none.
func (p *Promises) Of(id cluster.ID) int64 { return p.at[id] }

// Keep returns that time and forgets it: the gang has started.
func (p *Promises) Keep(id cluster.ID) int64 {
	at := p.at[id]
	if at != 0 {
		delete(p.at, id)
	}
	return at
}

// Set sets the time of a gang that has none; 0 sets none.
func (p *Promises) Set(id cluster.ID, at int64) {
	if at != 0 && p.at[id] == 0 {
		p.at[id] = at
	}
}
