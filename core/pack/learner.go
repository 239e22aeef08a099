package pack

import (
	"cmp"
	"slices"
)

// Learner learns the workload from arrivals: how often each class with GPUs is
// asked for, placed or not. Old arrivals count less: from some point on, all
// counts are halved at each rebuild, so that what is learned follows the mix.
//
// The zero value is ready to use.
type Learner struct {
	counts   map[Class]int64 // in arrivals / one
	arrivals int64
	next     int64 // the arrival at which tables are due; 0 before the first
}

const (
	// one arrival, in the unit of counts: an integer that can be halved ten times,
	// after which a class is forgotten.
	one = 1 << 10
	// firstRebuild is early: even 50 arrivals tell more than nothing. Rebuilds
	// then double, so that their number is small, until the period is reached.
	firstRebuild = 50
	// minPeriod is the number of arrivals between rebuilds once the mix is known.
	// Results do not depend on it between 500 and 3,000.
	minPeriod = 2000
	// maxClasses bounds what is remembered. Rare classes beyond it are forgotten
	// first; they weigh nothing.
	maxClasses = 4096
)

// period is the number of arrivals between rebuilds in a fleet of n nodes. A
// rebuild voids every rating of every node, so it may come only once per so many
// arrivals as there are nodes, or its cost per arrival would grow with the fleet.
func period(nodes int) int64 { return max(minPeriod, int64(nodes)*5/3) }

// Observe counts an arrival and says whether tables are due.
func (l *Learner) Observe(c *Class, nodes int) (due bool) {
	if c.GPUs == 0 {
		return false
	}
	if l.counts == nil {
		l.counts, l.next = map[Class]int64{}, firstRebuild
	}
	l.counts[*c] += one
	l.arrivals++
	if len(l.counts) > 2*maxClasses {
		l.forget()
	}
	if l.arrivals < l.next {
		return false
	}
	every := period(nodes)
	if doubled := 2 * l.next; doubled <= every*8/5 {
		l.next = doubled
		return true
	}
	if l.next > every { // the mix is known: from here on, old arrivals fade
		l.halve()
	}
	l.next += every
	return true
}

func (l *Learner) halve() {
	for c, n := range l.counts { // each entry for itself: the order does not matter
		if n >>= 1; n == 0 {
			delete(l.counts, c)
		} else {
			l.counts[c] = n
		}
	}
}

// forget keeps the maxClasses most frequent classes.
func (l *Learner) forget() {
	demands := l.Demands()
	slices.SortStableFunc(demands, func(a, b Demand) int { return cmp.Compare(b.Count, a.Count) })
	for _, d := range demands[maxClasses:] {
		delete(l.counts, d.Class)
	}
}

// Demands is the workload learned so far, by class.
func (l *Learner) Demands() []Demand {
	demands := make([]Demand, 0, len(l.counts))
	for c, n := range l.counts {
		demands = append(demands, Demand{c, float64(n) / one})
	}
	slices.SortFunc(demands, func(a, b Demand) int { return a.Class.Compare(b.Class) })
	return demands
}
