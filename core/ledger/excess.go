package ledger

import "github.com/tangram-dev/tangram/core/model"

// Excess is what claims ask for beyond what their nodes have: pods that were bound by
// hand, devices that vanished. Holders are charged for it, so it is counted for the
// cluster, too, or pods elsewhere would wait for devices that are free.
type Excess struct {
	Devices [model.NumVendors]int
	Host    model.Host
	// Absent counts the changes of claims on nodes that are not there: all of what they
	// ask for is beyond.
	Absent uint64
}

// Excess is the sum over all nodes that are there. Cost: none, it is kept.
func (l *Ledger) Excess() Excess { return l.excess }

// excess is a node's part of the sum.
func (n *node) excess() (x Excess) {
	for i, d := range n.debt {
		x.Devices[i] = int(d)
	}
	x.Host = n.host.Minus(n.inv.Host)
	return x
}

// add adds another excess, or with sign -1 takes it away.
func (x *Excess) add(o Excess, sign int) {
	for i, d := range o.Devices {
		x.Devices[i] += sign * d
	}
	x.Host.CPU += int64(sign) * o.Host.CPU
	x.Host.Memory += model.Bytes(sign) * o.Host.Memory
}
