package pack

import "maps"

// Potential is Tangram's policy: of all placements, take the one after which the
// fleet can sell most, to the workload it has seen.
//
// The cost of a placement is the fall of the node's potential (base), plus two
// opportunity costs that no node sees alone: taking a model that others need
// because they can use nothing else, and taking or breaking a group of 2, 4 or 8
// whole GPUs that others need.
type Potential struct {
	learner Learner
	oracle  []Demand // instead of the learner, when not nil
	tables  *Tables
	// built is of what the tables were built, of a policy that learns.
	built  map[Class]int64
	supply supply

	kinds  []kind // in the order of first appearance
	kindOf map[kindKey]int
	// places says what each bucket is.
	places []place

	now pressure // of this decision
}

// kindKey is what nodes share that have the same buckets.
type kindKey struct {
	model ModelID
	gpus  uint8
	grade uint8
}

type kind struct {
	kindKey
	first int // bucket
}

// place is what the members of a bucket share, so that all shift alike.
type place struct {
	model  ModelID
	full   int
	breaks bool // the share opens an unused GPU
	tie    int
}

const (
	// quantum is the step of costs, in micro-GPU: 5 milli. Differences below it are
	// noise of the estimate; calling them equal lets the tie-break consolidate.
	quantum = StepMilli * micro / Whole
	// StepMilli is the step in milli-GPU.
	StepMilli = 5
	// modelWeight is the price of a model under full pressure, per GPU taken.
	modelWeight = 0.5
	// slotWeight is the price of a slot under full pressure, in micro-GPU.
	slotWeight = micro
	// tieUnit is divisible by every GPU count up to 16, so that full/G compares
	// exactly as an integer.
	tieUnit = 720720
)

// NewPotential returns a policy that learns the workload from arrivals.
func NewPotential() *Potential {
	return &Potential{tables: Unlearned(), kindOf: map[kindKey]int{}}
}

// NewOracle returns a policy that knows the workload in advance and learns nothing.
func NewOracle(workload []Demand) *Potential {
	p := NewPotential()
	p.oracle = append([]Demand{}, workload...)
	return p
}

// Forget unlearns the workload.
func (p *Potential) Forget() { p.learner, p.tables, p.built = Learner{}, Unlearned(), nil }

// Arrive implements Policy.
func (p *Potential) Arrive(c *Class, nodes int) bool {
	return p.oracle == nil && p.learner.Observe(c, nodes)
}

// Reset implements Policy.
func (p *Potential) Reset(fleet []Kind) {
	p.supply = supply{}
	demands := p.oracle
	if demands == nil {
		if p.learner.arrivals < firstRebuild {
			return // nodes came or went before anything was learned
		}
		p.built = maps.Clone(p.learner.counts)
		demands = p.learner.Demands()
	}
	p.tables = Build(demands, fleet)
}

// restore replaces what was learned, and builds the tables that were in use.
func (p *Potential) restore(s Saved, fleet []Kind) {
	p.Forget()
	p.supply = supply{}
	if p.built = p.learner.restore(s); len(p.built) > 0 {
		p.tables = Build(demands(p.built), fleet)
	}
}

// Enter implements Policy.
func (p *Potential) Enter(n *Node) {
	n.worth = p.tables.worth(&n.Shape)
	n.potential = p.tables.sellable(n.worth, n.Shape.CPU, n.Shape.Memory)
	n.kind = p.kind(kindKey{n.Shape.Model, n.Shape.GPUs, n.Shape.Grade})
	p.supply.add(n, 1)
}

// Leave implements Policy.
func (p *Potential) Leave(n *Node) { p.supply.add(n, -1) }

// kind gives out the buckets of nodes of one model and size: one per number of
// unused GPUs, for shares that open one and for those that do not.
func (p *Potential) kind(key kindKey) int {
	at, ok := p.kindOf[key]
	if ok {
		return at
	}
	at = len(p.kinds)
	p.kindOf[key] = at
	p.kinds = append(p.kinds, kind{key, len(p.places)})
	for full := range int(key.gpus) + 1 {
		tie := 0
		if key.gpus > 0 {
			// Equally used nodes: the smaller one, so that large ones stay whole.
			tie = full*tieUnit/int(key.gpus)*(2*MaxGPUs) + full
		}
		tie = tie<<8 + int(key.grade)
		p.places = append(p.places, place{key.model, full, false, tie}, place{key.model, full, true, tie})
	}
	return at
}

// Rate implements Policy.
func (p *Potential) Rate(c *Class, n *Node) Rating {
	loss, slot, breaks := p.loss(c, n)
	bucket := p.kinds[n.kind].first + 2*n.full
	if breaks {
		bucket++
	}
	return Rating{Bucket: uint16(bucket), Cost: uint16(min(steps(loss), MaxCost)), Slot: slot}
}

// loss is the fall of the node's potential, in micro-GPU, and for a share the device that
// costs least; whether that was an unused GPU. The potential grows with the worth of the
// holes, so the best device is the one whose hole loses least; the lowest of several.
func (p *Potential) loss(c *Class, n *Node) (loss int64, slot uint8, breaks bool) {
	worth := n.worth
	switch {
	case c.GPUs == 0:
	case c.Milli == Whole:
		worth -= int64(c.GPUs) * micro
	default:
		least := int32(micro + 1)
		for i, free := range n.Shape.Free[:n.Shape.GPUs] {
			if free < c.Milli {
				continue
			}
			if lost := p.tables.value[free] - p.tables.value[free-c.Milli]; lost < least {
				least, slot = lost, uint8(i)
			}
		}
		worth -= int64(least)
		breaks = n.Shape.Free[slot] == Whole
	}
	return n.potential - p.tables.sellable(worth, n.Shape.CPU-c.CPU, n.Shape.Memory-c.Memory), slot, breaks
}

// steps rounds a loss to quanta, half down: a gain rounded half up.
func steps(loss int64) int { return int(max(loss+quantum/2-1, 0) / quantum) }

// Begin implements Policy.
func (p *Potential) Begin(c *Class) {
	if c.GPUs > 0 {
		p.now = p.supply.pressureOf(p.tables)
	}
}

// Shift implements Policy.
func (p *Potential) Shift(c *Class, bucket int) Shift {
	at := &p.places[bucket]
	if c.GPUs == 0 {
		return Shift{Tie: at.tie}
	}
	scarce, broken := p.opportunity(c, at)
	return Shift{Cost: steps(scarce + broken[0] + broken[1] + broken[2]), Tie: at.tie}
}

// opportunity is what others lose by the placement, in micro-GPU: of a scarce
// model, and of groups of each slot size. A request for a whole group pays for it like
// one that breaks a group: it may have the choice of models, while other requests for
// such a group do not.
func (p *Potential) opportunity(c *Class, at *place) (scarce int64, broken [len(slotSizes)]int64) {
	scarce = int64(modelWeight * p.now.model[at.model] * float64(c.Demand()) * (micro / Whole))
	after := at.full
	switch {
	case c.Milli == Whole:
		after -= int(c.GPUs)
	case at.breaks:
		after--
	}
	for i, size := range slotSizes {
		if size >= int(c.GPUs) && after/size < at.full/size {
			broken[i] = int64(slotWeight * p.now.slots[i][at.model])
		}
	}
	return scarce, broken
}
