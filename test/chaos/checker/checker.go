package checker

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// Limits are what is allowed for how long.
type Limits struct {
	// HalfGang is how long a gang may be bound below its minimum while the scheduler
	// is able to work.
	HalfGang time.Duration
	// HandRace is how shortly after a binding by hand the scheduler may still bind to
	// the same device: it cannot know yet.
	HandRace time.Duration
	// Settle is how long after an outage the scheduler counts as unable to work if it
	// binds nothing.
	Settle time.Duration
}

// DefaultLimits are those of an ordinary run.
func DefaultLimits() Limits {
	return Limits{HalfGang: 2 * time.Second, HandRace: time.Second, Settle: 5 * time.Second}
}

// Checker judges a history of pods. See the package.
type Checker struct {
	facts  Facts
	limits Limits

	mu       sync.Mutex
	able     able
	history  history
	pods     map[string]Pod
	holdings map[string]*holding
	byDevice map[deviceKey]map[string]bool
	gangs    map[string]*gang
	// ending are units the load takes away, outside are nodes that were lost: what
	// gangs lose by these is not the scheduler's doing.
	ending       map[string]string
	outside      map[string]time.Time
	faults       []string // that are active
	lastFault    string
	faultChanged time.Time // it began, or ended
	doubles      []*double
	breaches     []*Breach
	binds        []time.Time
	counts
}

// counts are numbers of the report.
type counts struct {
	handConflicts, handRaces, bindings int
	halfStates                         []time.Duration
}

// New returns a checker of a cluster with these nodes and queues.
func New(facts Facts, limits Limits) *Checker {
	return &Checker{
		facts: facts, limits: limits, able: able{settle: limits.Settle},
		pods: map[string]Pod{}, holdings: map[string]*holding{}, byDevice: map[deviceKey]map[string]bool{},
		gangs: map[string]*gang{}, ending: map[string]string{}, outside: map[string]time.Time{},
	}
}

// See takes one pod as the API server delivered it; gone says that it was deleted.
// Pods come in the order of their changes.
func (c *Checker) See(now time.Time, p Pod, gone bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.able.advance(now)
	var before *Pod
	if old, ok := c.pods[p.UID]; ok {
		before = &old
	}
	c.history.pod(now, before, p, gone)
	if gone {
		delete(c.pods, p.UID)
	} else {
		c.pods[p.UID] = p
	}
	c.gangEvent(now, before, p, gone)
	held := c.holdings[p.UID]
	switch {
	case gone || !p.holds():
		c.release(now, p.UID)
	case held == nil:
		if !p.Hand {
			c.bindings++
			c.binds = append(c.binds, now)
			c.able.bound(now)
		}
		c.bind(now, p)
	case held.pod.Record != p.Record:
		c.release(now, p.UID)
		c.bind(now, p)
	default:
		held.pod = p
	}
	c.watchDoubles(p.UID)
}

// Tick judges what time alone makes wrong.
func (c *Checker) Tick(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.able.advance(now)
	for _, name := range sorted(c.gangs) {
		c.judgeGang(now, name, c.gangs[name])
	}
	c.history.complete(now, c.breaches)
}

// Able says whether the scheduler is able to work from now on.
func (c *Checker) Able(now time.Time, can bool, why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.able.set(now, can)
	c.history.note(now, "scheduler", fmt.Sprintf("able=%t: %s", can, why))
}

// Note writes a line of the load into the history.
func (c *Checker) Note(now time.Time, text string, about ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.history.note(now, "load", text, about...)
}

// FaultBegins and FaultEnds tell of a fault; kind is its name in the report.
func (c *Checker) FaultBegins(now time.Time, kind, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults, c.lastFault, c.faultChanged = append(c.faults, kind), kind, now
	c.history.note(now, "fault", kind+" begins: "+text)
}

// FaultEnds ends a fault that began.
func (c *Checker) FaultEnds(now time.Time, kind string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.Index(c.faults, kind); i >= 0 {
		c.faults = slices.Delete(c.faults, i, i+1)
	}
	if kind == c.lastFault {
		c.faultChanged = now
	}
	c.history.note(now, "fault", kind+" ends")
}

// UnitEnds says that the load takes a unit's pods away from now on, or members of it.
func (c *Checker) UnitEnds(now time.Time, unit, why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ending[unit] = why
	c.history.note(now, "load", why, unit)
}

// NodeLost says that a node is gone, with what ran there.
func (c *Checker) NodeLost(now time.Time, node string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.outside[node] = now
	c.history.note(now, "fault", "node "+node+" lost")
}

// Breaches are what was found, in order of time, with the history around each.
func (c *Checker) Breaches(now time.Time) []Breach {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.history.completeAll(c.breaches)
	list := make([]Breach, len(c.breaches))
	for i, b := range c.breaches {
		list[i] = *b
		if b.LastedMillis == 0 && slices.ContainsFunc(c.doubles, func(d *double) bool { return d.breach == b }) {
			list[i].LastedMillis = now.Sub(b.Time).Milliseconds()
		}
	}
	return list
}

// Pods are the pods that exist, by name.
func (c *Checker) Pods() []Pod {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := slices.Collect(maps.Values(c.pods))
	slices.SortFunc(list, func(a, b Pod) int {
		if a.Name != b.Name {
			return compare(a.Name, b.Name)
		}
		return compare(a.UID, b.UID)
	})
	return list
}

// FirstBind is when the scheduler first bound a pod after a moment.
func (c *Checker) FirstBind(after time.Time) (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i, _ := slices.BinarySearchFunc(c.binds, after, time.Time.Compare)
	for ; i < len(c.binds); i++ {
		if c.binds[i].After(after) {
			return c.binds[i], true
		}
	}
	return time.Time{}, false
}

// FreeDevices are the indexes of a node's devices that no bound pod is known to hold,
// HeldDevices those that are held whole.
func (c *Checker) FreeDevices(node string) (free, held []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for index := range c.facts.Nodes[node].Devices {
		key := deviceKey{node, index}
		if len(c.byDevice[key]) == 0 {
			free = append(free, index)
			continue
		}
		for uid := range c.byDevice[key] {
			if c.holdings[uid].claims[key].whole {
				held = append(held, index)
			}
		}
	}
	slices.Sort(free)
	slices.Sort(held)
	return free, slices.Compact(held)
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func compare(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
