package records

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tangram-dev/tangram/api/record"
	"github.com/tangram-dev/tangram/internal/agent/device"
)

// choice is the devices that kubelet offers for one container, with what is known of
// each.
type choice struct {
	inv    *device.Inventory
	items  map[string]item
	sorted []string // by device, start and turn
	free   map[string]int
	// others are what pods have, or were promised and have not got: by pod.
	others map[types.UID][]use
	held   []use
	// spread: turns of the GPU with most left go first.
	spread bool
}

// item is one offered device ID.
type item struct {
	id     ID
	device record.Device
	use    use
}

func (b *Book) newChoice(listing Listing, resource string, available []string) *choice {
	c := &choice{inv: b.o.Inventory(), items: map[string]item{}, free: map[string]int{}, others: map[types.UID][]use{}, spread: b.o.Distributed}
	for _, s := range available {
		d, told, err := ReadID(resource, s, c.inv)
		if err != nil || !told {
			continue
		}
		id, _ := ParseID(s)
		u := useOf(d, c.inv)
		c.items[s] = item{id, d, u}
		c.free[u.gpu]++
		c.sorted = append(c.sorted, s)
	}
	slices.SortFunc(c.sorted, func(s, t string) int {
		x, y := c.items[s], c.items[t]
		return cmp.Or(cmp.Compare(x.device.Index, y.device.Index), cmp.Compare(x.device.Start, y.device.Start), cmp.Compare(x.id.Turn, y.id.Turn), cmp.Compare(s, t))
	})
	served := map[types.UID]bool{}
	for _, h := range b.holdings(listing) {
		c.held = append(c.held, h.uses...)
		served[h.uid()] = true
	}
	for _, claimed := range b.o.Claimed() {
		for _, d := range claimed.Devices {
			c.held = append(c.held, useOf(d, c.inv))
		}
	}
	for _, pod := range b.o.Pods.List() {
		if r, _ := readRecord(pod, b.o.Node); r != nil && live(pod) && !served[pod.UID] {
			c.others[pod.UID] = usesOf(r, c.inv)
		}
	}
	return c
}

// known are the IDs of a list that were offered.
func (c *choice) known(ids []string) (out []string) {
	for _, id := range ids {
		if _, ok := c.items[id]; ok && !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
}

// pack adds devices one by one until there are enough: none that another use excludes
// and none that was promised to another pod, as long as there are others; near to those
// chosen already; of GPUs that have the least left. A container's turns go to different
// GPUs: two on one would be no more than one, and no record could name them.
func (c *choice) pack(chosen []string, size int) []string {
	if len(chosen) > 0 || size < 2 || len(c.free) > 16 {
		return c.fill(slices.Clone(chosen), size)
	}
	// What is near depends on the first: try each GPU as the first.
	var best []string
	var bestCost [3]int
	tried := map[string]bool{}
	for _, id := range c.sorted {
		gpu := c.items[id].use.gpu
		if tried[gpu] {
			continue
		}
		tried[gpu] = true
		got := c.fill([]string{id}, size)
		if cost := c.cost(got); best == nil || slices.Compare(cost[:], bestCost[:]) < 0 {
			best, bestCost = got, cost
		}
	}
	return best
}

// cost is how bad a set is: excluded or promised devices, then distance, then what is
// left on its GPUs.
func (c *choice) cost(ids []string) (out [3]int) {
	for i, id := range ids {
		k := c.key(c.items[id], ids[:i])
		out[0] += k[0]*8 + k[1]*4 + k[2]
		out[1] += k[3]
		out[2] += k[4]
	}
	return out
}

func (c *choice) fill(chosen []string, size int) []string {
	for len(chosen) < size {
		best, bestKey := "", [5]int{}
		for _, id := range c.sorted {
			if slices.Contains(chosen, id) {
				continue
			}
			if k := c.key(c.items[id], chosen); best == "" || slices.Compare(k[:], bestKey[:]) < 0 {
				best, bestKey = id, k
			}
		}
		if best == "" {
			break
		}
		chosen = append(chosen, best)
	}
	return chosen
}

// key orders items: excluded by what is held or chosen, promised to others, on a GPU of
// which a turn is chosen, far from those chosen, on a GPU with much left (turns that are
// to be spread: with little left).
func (c *choice) key(x item, chosen []string) (out [5]int) {
	out[0] = flag(x.use.excludesAny(c.held))
	for _, promised := range c.others {
		out[1] |= flag(x.use.excludesAny(promised))
	}
	if out[4] = c.free[x.use.gpu]; c.spread && x.id.Kind == Turn {
		out[4] = -out[4]
	}
	for _, id := range chosen {
		y := c.items[id]
		if x.use.excludes(y.use) {
			out[0] = 1
		}
		if y.use.gpu == x.use.gpu {
			out[2] |= flag(!x.use.slice)
			continue
		}
		out[3] += c.distance(x.use.gpu, y.use.gpu)
	}
	return out
}

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}

// distances of links, best first; a pair without a link is as far as SYS.
var distances = map[string]int{"NVSwitch": 0, "NVLink": 1, "PIX": 2, "PXB": 3, "PHB": 4, "NODE": 5, "SYS": 8}

func (c *choice) distance(a, b string) int {
	x, y, out := c.inv.Find(a), c.inv.Find(b), distances["SYS"]
	if x == nil || y == nil {
		return out
	}
	if x.NUMA >= 0 && x.NUMA == y.NUMA {
		out = distances["NODE"]
	}
	for _, l := range c.inv.Links {
		if d, ok := distances[l.Class]; ok && slices.Contains(l.Between, x.Index) && slices.Contains(l.Between, y.Index) {
			out = min(out, d)
		}
	}
	return out
}
