package sim

import (
	"math/bits"

	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/pack"
)

// chooser decides; pack.Index and pack.Random do.
type chooser interface {
	Set(ordinal int, order uint32, empty, now pack.Shape)
	Update(ordinal int, now pack.Shape)
	Arrive(c *pack.Class)
	Best(c *pack.Class) (pack.Choice, bool)
}

// cluster is the state of the fleet: who uses what. It tells a chooser of every
// change, and keeps the measures up to date.
type cluster struct {
	shapes []pack.Shape
	guests [][pack.MaxGPUs + 1]uint16 // by node: how many of each guest bit
	meters []*meter
	idle   int64 // milli
}

// meter keeps a fragmentation measure of the fleet.
type meter struct {
	f     *pack.Fragmentation
	each  []float64
	total float64
}

func newCluster(t *Trace, measures ...*pack.Fragmentation) *cluster {
	c := &cluster{
		shapes: make([]pack.Shape, len(t.Nodes)),
		guests: make([][pack.MaxGPUs + 1]uint16, len(t.Nodes)),
		idle:   t.Capacity(),
	}
	for i := range t.Nodes {
		c.shapes[i] = t.Nodes[i].Empty
	}
	for _, f := range measures {
		m := &meter{f: f, each: make([]float64, len(t.Nodes))}
		for i := range c.shapes {
			m.each[i] = f.Of(&c.shapes[i])
			m.total += m.each[i]
		}
		c.meters = append(c.meters, m)
	}
	return c
}

// take places a request.
func (c *cluster) take(node int, class *pack.Class, devices model.Mask) {
	s := &c.shapes[node]
	s.Take(class, devices)
	if bit := class.GuestBit(); bit != 0 {
		s.Guests |= bit
		c.guests[node][bits.TrailingZeros32(bit)]++
	}
	c.idle -= class.Demand()
	c.measure(node)
}

// give ends one.
func (c *cluster) give(node int, class *pack.Class, devices model.Mask) {
	s := &c.shapes[node]
	s.Give(class, devices)
	if bit := class.GuestBit(); bit != 0 {
		count := &c.guests[node][bits.TrailingZeros32(bit)]
		if *count--; *count == 0 {
			s.Guests &^= bit
		}
	}
	c.idle += class.Demand()
	c.measure(node)
}

func (c *cluster) measure(node int) {
	for _, m := range c.meters {
		now := m.f.Of(&c.shapes[node])
		m.total += now - m.each[node]
		m.each[node] = now
	}
}
