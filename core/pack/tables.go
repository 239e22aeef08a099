package pack

import (
	"cmp"
	"math"
	"slices"
)

// Demand is how often a class arrives, in any unit common to a workload.
type Demand struct {
	Class Class
	Count float64
}

// compare is the order in which demands are summed up. It does not depend on the numbers
// of models: demands that differ in their models alone add the same, so float sums are
// the same to the bit however models are numbered.
func (d Demand) compare(o Demand) int {
	a, b := d.Class, o.Class
	a.Models, b.Models = 0, 0
	return cmp.Or(a.Compare(b), cmp.Compare(d.Count, o.Count), cmp.Compare(d.Class.Models, o.Class.Models))
}

// Kind is a group of nodes of equal capacity. Empty is the shape of an unused one.
type Kind struct {
	Empty Shape
	Nodes int
}

// micro is one GPU in the unit of values and potentials. Integers make sums
// exact: a node's potential is the same however it came about, and what is added
// to a pool can be taken away again.
const micro = 1_000_000

// Tables is what the potential knows of the workload: a pure function of demands
// and fleet. It is immutable once built.
type Tables struct {
	// value is what a hole of r milli of a GPU is worth, in micro-GPU. It does not
	// decrease; value[0] is 0, value[Whole] is micro.
	value [Whole + 1]int32
	// cpu and memory are the sufficiency curves.
	cpu, memory curve
	// picky are demands that only part of the fleet can serve, by the models that
	// can. slots are demands for at least 2, 4, 8 whole GPUs.
	picky []pool
	slots [len(slotSizes)][]pool
}

// slotSizes are the group sizes kept whole: those real requests come in.
var slotSizes = [...]int{2, 4, 8}

// pool is demand that goes to a set of models: its share of all GPU demand.
type pool struct {
	models ModelSet
	picky  bool // the models are only part of the fleet
	share  float64
}

const (
	// planned is the weight of the planned use of a hole (patterns) against the
	// chance that the next request fits in it. Patterns alone are best while
	// nothing departs; departures break patterns, and then the second part decides.
	planned = 0.9
	// pickyUpTo is the part of the fleet up to which a demand counts as picky.
	pickyUpTo = 0.75
)

// Unlearned are the tables before any request was seen: only whole GPUs are
// worth anything, and CPU and memory suffice.
func Unlearned() *Tables {
	t := &Tables{cpu: newCurve(nil), memory: newCurve(nil)}
	t.value[Whole] = micro
	return t
}

// Build makes tables from a workload and the fleet it runs on. Classes without
// GPUs do not count. The order of demands and kinds does not matter.
func Build(demands []Demand, fleet []Kind) *Tables {
	gpu := make([]Demand, 0, len(demands))
	for _, d := range demands {
		if d.Class.GPUs > 0 && d.Count > 0 {
			gpu = append(gpu, d)
		}
	}
	if len(gpu) == 0 {
		return Unlearned()
	}
	slices.SortFunc(gpu, func(a, b Demand) int { return a.compare(b) })

	t := &Tables{value: residualValues(gpu)}
	cpu, memory := make([]need, len(gpu)), make([]need, len(gpu))
	for i, d := range gpu {
		size := t.effective(&d.Class) * d.Count
		cpu[i] = need{float64(d.Class.CPU) * d.Count, size}
		memory[i] = need{float64(d.Class.Memory) * d.Count, size}
	}
	t.cpu, t.memory = newCurve(cpu), newCurve(memory)
	t.contend(gpu, fleet)
	return t
}

// residualValues is the worth of each hole size: what the best pattern of
// expected shares makes of it, priced by the cutting-stock dual, blended with
// size times the chance that the next request fits.
func residualValues(gpu []Demand) (value [Whole + 1]int32) {
	var bySize [units + 1]float64
	var upTo [Whole + 1]float64 // arrivals by milli, then cumulated
	total := 0.0
	for _, d := range gpu {
		total += d.Count
		upTo[d.Class.Milli] += d.Count
		if d.Class.IsShare() {
			bySize[(int(d.Class.Milli)+unitMilli-1)/unitMilli] += d.Count
		}
	}
	var pieces []piece
	for size, demand := range bySize {
		if demand > 0 {
			pieces = append(pieces, piece{size, demand})
		}
	}
	dual, _ := prices(pieces)
	worth, _ := knapsack(pieces, dual)
	worth[units] = 1
	for r := 1; r <= Whole; r++ {
		upTo[r] += upTo[r-1]
		v := planned*min(worth[r/unitMilli], 1) + (1-planned)*float64(r)/Whole*upTo[r]/total
		value[r] = int32(math.Round(v * micro))
	}
	value[Whole] = micro
	return value
}

// effective is the GPU a request really takes, in GPUs: a share that leaves a
// worthless rest takes more than its size.
func (t *Tables) effective(c *Class) float64 {
	if !c.IsShare() {
		return float64(c.GPUs)
	}
	return max(float64(t.value[c.Milli])/micro, float64(c.Milli)/Whole)
}

// contend sums demand by the models that can serve it.
func (t *Tables) contend(gpu []Demand, fleet []Kind) {
	var capacity [MaxModels]float64
	fleetGPUs := 0.0
	for _, k := range fleet {
		capacity[k.Empty.Model] += float64(k.Nodes * int(k.Empty.GPUs))
		fleetGPUs += float64(k.Nodes * int(k.Empty.GPUs))
	}
	total := 0.0
	for _, d := range gpu {
		total += t.effective(&d.Class) * d.Count
	}
	for _, d := range gpu {
		models := eligible(&d.Class, fleet)
		if models == 0 {
			continue // no node can serve it, so it contends with no other demand
		}
		share := t.effective(&d.Class) * d.Count / total
		covered := 0.0
		for id := range ModelID(MaxModels) {
			if models.Has(id) {
				covered += capacity[id]
			}
		}
		p := pool{models, covered <= pickyUpTo*fleetGPUs, share}
		if p.picky {
			t.picky = addTo(t.picky, p)
		}
		for i, size := range slotSizes {
			if d.Class.Milli == Whole && int(d.Class.GPUs) >= size {
				t.slots[i] = addTo(t.slots[i], p)
			}
		}
	}
}

// eligible is the set of models with a node that could host the class if it were
// empty. A request for eight GPUs and 120 cores is typed in all but name when
// only one model has such nodes.
func eligible(c *Class, fleet []Kind) ModelSet {
	var set ModelSet
	for i := range fleet {
		if fleet[i].Nodes > 0 && fleet[i].Empty.Fits(c) {
			set |= Set(fleet[i].Empty.Model)
		}
	}
	return set
}

func addTo(pools []pool, p pool) []pool {
	for i := range pools {
		if pools[i].models == p.models {
			pools[i].share += p.share
			return pools
		}
	}
	return append(pools, p)
}

// worth is the sum of the values of a node's holes, in micro-GPU.
func (t *Tables) worth(s *Shape) int64 {
	var sum int64
	for _, free := range s.Free[:s.GPUs] {
		sum += int64(t.value[free])
	}
	return sum
}

// sellable is the potential of holes worth r micro-GPU with the given free CPU
// and memory: r times the smaller sufficiency, in micro-GPU. It grows with each
// of the three.
func (t *Tables) sellable(r, cpu, memory int64) int64 {
	if r == 0 {
		return 0
	}
	// The curves take GPUs, the result is micro-GPU.
	gpus := float64(r) / micro
	part := min(t.cpu.scaled(gpus, float64(cpu)), t.memory.scaled(gpus, float64(memory)))
	return int64(math.Round(part * micro))
}

// Potential is the GPU amount a node of this shape can still sell to the
// workload, in micro-GPU.
func (t *Tables) Potential(s *Shape) int64 { return t.sellable(t.worth(s), s.CPU, s.Memory) }
