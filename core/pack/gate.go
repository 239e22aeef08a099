package pack

// gate is what it takes to turn most requests away, apart from the node itself:
// in a full fleet nearly every node is turned away here, and gates are few enough
// bytes to stay in the processor's cache.
type gate struct {
	cpu, memory int64
	order       uint32 // the last tie-break but the ordinal
	version     uint32 // changes of the shape
	shape       int32  // its number, see shapeSet
	most        uint16 // largest free part of a GPU
	full        uint8  // unused GPUs
	model       ModelID
	present     bool
}

// look brings the gate up to date.
func (g *gate) look(s *Shape) {
	g.cpu, g.memory, g.model = s.CPU, s.Memory, s.Model
	g.full, g.most = 0, 0
	for _, free := range s.Free[:s.GPUs] {
		g.most = max(g.most, free)
		if free == Whole {
			g.full++
		}
	}
	g.version++
}

// admits is Shape.Fits, for a node that is there.
func (g *gate) admits(c *Class) bool {
	if !g.present || g.cpu < c.CPU || g.memory < c.Memory {
		return false
	}
	switch {
	case c.GPUs == 0:
		return true
	case c.Milli == Whole:
		return g.full >= c.GPUs && c.Models.Allows(g.model)
	default:
		return g.most >= c.Milli && c.Models.Allows(g.model)
	}
}
