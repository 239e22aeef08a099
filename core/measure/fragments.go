package measure

import "github.com/tangram-dev/tangram/core/pack"

// Unusable returns the free amount of all nodes and the part of it that no request of the
// given classes can use where it is, in thousandths of a device: for want of CPU, memory,
// the model, enough unused devices or enough of one device. That a request uses what
// another needs is not fragmentation. Without classes nothing is unusable. Cost: nodes
// times classes.
func Unusable(nodes []pack.Shape, classes []pack.Class) (free, unusable int64) {
	for i := range nodes {
		n := &nodes[i]
		idle := n.Idle()
		free += idle
		if idle > 0 && len(classes) > 0 {
			unusable += idle - usable(n, classes)
		}
	}
	return free, unusable
}

// usable is how much of a node's free devices some class can use.
func usable(n *pack.Shape, classes []pack.Class) int64 {
	least := uint16(pack.Whole + 1) // the smallest part that fits, so far
	for i := range classes {
		if c := &classes[i]; c.GPUs > 0 && c.Milli < least && n.Fits(c) {
			least = c.Milli
		}
	}
	var sum int64
	for _, free := range n.Free[:n.GPUs] {
		if free >= least {
			sum += int64(free)
		}
	}
	return sum
}
