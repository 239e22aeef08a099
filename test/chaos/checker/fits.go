package checker

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Unit is what must start together, as the load asked for it.
type Unit struct {
	Name, Queue string
	Minimum     int
	Pods        []Ask
}

// Keep chooses units, in order, that all fit at once wherever each is put: every pod
// of them finds room even if all other pods of the choice were in its way. A share and
// a slice count as a whole device. So whatever a scheduler does, none of them may wait.
func (f Facts) Keep(units []Unit) []Unit {
	var kept []Unit
	for _, u := range units {
		if next := append(slices.Clone(kept), u); f.allFit(next) {
			kept = next
		}
	}
	return kept
}

// allFit is the pigeonhole: to keep a pod of d devices out of a node with n, others
// must hold n-d+1 of them, on every node that could take it.
func (f Facts) allFit(units []Unit) bool {
	total := 0
	queues := map[string]int64{}
	asks := map[Ask]bool{}
	for _, u := range units {
		for _, a := range u.Pods {
			total += a.devices()
			asks[a] = true
			for _, queue := range f.above(u.Queue) {
				queues[queue] += 1000 * int64(a.devices())
			}
		}
	}
	for queue, used := range queues {
		if limit := f.Queues[queue].Capability; limit > 0 && used > limit {
			return false
		}
	}
	for a := range asks {
		if total-a.devices() >= f.toBlock(a) {
			return false
		}
	}
	return true
}

// toBlock is how many devices must be held so that no node can take the ask.
func (f Facts) toBlock(a Ask) int {
	sum := 0
	for _, n := range f.Nodes {
		able := 0
		for _, d := range n.Devices {
			if _, ok := d.part(a); ok || a.Whole > 0 {
				able++
			}
		}
		if !n.Apart && (a.Pool == "" || a.Pool == n.Pool) && able >= a.devices() {
			sum += able - a.devices() + 1
		}
	}
	return sum
}

// Overdue reports units of which fewer pods than their minimum have been bound, and
// pods of them that wait: all must have been bound by now. done says which units have
// ended otherwise.
func (c *Checker) Overdue(now time.Time, units []Unit, done map[string]bool) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var late []string
	for _, u := range units {
		if done[u.Name] {
			continue
		}
		placed, waiting := 0, []string{}
		for _, p := range c.pods {
			switch {
			case p.Unit != u.Name || p.Terminating:
			case p.Node == "" && !p.ended():
				waiting = append(waiting, p.Name)
			default:
				placed++
			}
		}
		if placed >= u.Minimum && len(waiting) == 0 {
			continue
		}
		slices.Sort(waiting)
		late = append(late, fmt.Sprintf("%s: %d of at least %d placed, waiting: %s", u.Name, placed, u.Minimum, strings.Join(waiting, ", ")))
	}
	return late
}

// ReportOverdue makes a breach of each unit that is late.
func (c *Checker) ReportOverdue(now time.Time, late []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, text := range late {
		name, _, _ := strings.Cut(text, ":")
		c.breach(now, Breach{Kind: NotBound, Text: "everything fits, but " + text, Pods: []string{name}})
	}
}
