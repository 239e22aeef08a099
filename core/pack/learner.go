package pack

import (
	"cmp"
	"fmt"
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
func (l *Learner) Demands() []Demand { return demands(l.counts) }

// Saved is what a policy has learned of the workload. It shares no memory with it.
type Saved struct {
	// Arrivals were counted so far; tables are due at arrival Next.
	Arrivals, Next int64
	// Classes are what was asked for, the most frequent first.
	Classes []SavedClass
}

// SavedClass is how often a class was asked for.
type SavedClass struct {
	Class Class
	// Count is of now, Built of when tables were last built, both in arrivals / 1024 and
	// faded: see Learner.
	Count, Built int64
}

// MaxCount bounds what is counted, so that sums do not overflow.
const MaxCount = 1 << 50

// Validate names the field that makes no valid state.
func (s *Saved) Validate() error {
	switch {
	case s.Arrivals < 0 || s.Arrivals > MaxCount:
		return fmt.Errorf("arrivals: %d, must be 0 to %d", s.Arrivals, int64(MaxCount))
	case s.Next < 0 || s.Next > MaxCount:
		return fmt.Errorf("next: %d, must be 0 to %d", s.Next, int64(MaxCount))
	}
	for i, c := range s.Classes {
		if err := c.Class.Validate(); err != nil {
			return fmt.Errorf("classes[%d]: %w", i, err)
		}
		switch {
		case c.Class.GPUs == 0:
			return fmt.Errorf("classes[%d].gpus: 0", i)
		case c.Class.CPU > MaxCount || c.Class.Memory > MaxCount:
			return fmt.Errorf("classes[%d]: CPU or memory is above %d", i, int64(MaxCount))
		case c.Count < 0 || c.Count > MaxCount:
			return fmt.Errorf("classes[%d].count: %d, must be 0 to %d", i, c.Count, int64(MaxCount))
		case c.Built < 0 || c.Built > MaxCount:
			return fmt.Errorf("classes[%d].built: %d, must be 0 to %d", i, c.Built, int64(MaxCount))
		}
	}
	return nil
}

// save returns what was learned, and of what the tables in use were built.
func (l *Learner) save(built map[Class]int64) Saved {
	out := Saved{Arrivals: l.arrivals, Next: l.next}
	for c, n := range l.counts {
		out.Classes = append(out.Classes, SavedClass{c, n, built[c]})
	}
	for c, n := range built {
		if _, there := l.counts[c]; !there {
			out.Classes = append(out.Classes, SavedClass{c, 0, n})
		}
	}
	slices.SortFunc(out.Classes, func(a, b SavedClass) int {
		return cmp.Or(cmp.Compare(max(b.Count, b.Built), max(a.Count, a.Built)), a.Class.Compare(b.Class))
	})
	return out
}

// restore replaces what was learned, and returns of what tables are to be built. Counts of
// a class that is there twice are added up.
func (l *Learner) restore(s Saved) (built map[Class]int64) {
	*l = Learner{arrivals: s.Arrivals, next: s.Next}
	if s.Next == 0 {
		return nil // nothing was learned
	}
	l.counts, built = map[Class]int64{}, map[Class]int64{}
	for _, c := range s.Classes {
		if c.Count > 0 {
			l.counts[c.Class] += c.Count
		}
		if c.Built > 0 {
			built[c.Class] += c.Built
		}
	}
	if len(l.counts) > 2*maxClasses {
		l.forget()
	}
	return built
}

// demands are counts by class.
func demands(counts map[Class]int64) []Demand {
	out := make([]Demand, 0, len(counts))
	for c, n := range counts {
		out = append(out, Demand{c, float64(n) / one})
	}
	slices.SortFunc(out, func(a, b Demand) int { return a.Class.Compare(b.Class) })
	return out
}
