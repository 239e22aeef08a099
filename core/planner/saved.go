package planner

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"

	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/pack"
)

// Mix is what was learned of the requests that come, by names: models have other numbers
// after a restart. It shares no memory with the planner.
type Mix struct {
	pack.Saved
	// Models are those that the sets of models in Saved mean: model i is bit i.
	Models []ModelName
}

// ModelName identifies a GPU model: what requests can tell apart.
type ModelName struct {
	Vendor model.Vendor
	Model  string
	// Memory of one device.
	Memory model.MiB
}

// Save returns what was learned of the requests that come.
func (p *Planner) Save() Mix {
	if p.index == nil {
		return Mix{}
	}
	p.Sync()
	out := Mix{Saved: p.index.Save()}
	ids := map[pack.ModelID]int{}
	var names []ModelName
	for key, id := range p.models.ids {
		ids[id] = len(names)
		names = append(names, ModelName{key.vendor, key.model.String(), key.memory})
	}
	order := make([]int, len(names)) // sorted: position by number
	out.Models = slices.Clone(names)
	slices.SortFunc(out.Models, ModelName.compare)
	for i, n := range names {
		order[i], _ = slices.BinarySearchFunc(out.Models, n, ModelName.compare)
	}
	for i := range out.Classes {
		out.Classes[i].Class.Models = translate(out.Classes[i].Class.Models, func(id pack.ModelID) (pack.ModelID, bool) {
			at, known := ids[id]
			if !known {
				return 0, false
			}
			return pack.ModelID(order[at]), true
		})
	}
	slices.SortStableFunc(out.Classes, func(a, b pack.SavedClass) int {
		return cmp.Or(cmp.Compare(max(b.Count, b.Built), max(a.Count, a.Built)), a.Class.Compare(b.Class))
	})
	return out
}

// Restore replaces what was learned. Classes that only models of other fleets can serve
// are left out: what this fleet cannot serve teaches nothing about it. Call it when the
// ledger has the fleet.
func (p *Planner) Restore(m Mix) {
	if p.index == nil {
		return
	}
	p.Sync()
	all := pack.Set(otherModels)
	for _, id := range p.models.ids {
		all |= pack.Set(id)
	}
	saved := pack.Saved{Arrivals: m.Arrivals, Next: m.Next}
	for _, c := range m.Classes {
		if c.Class.Models != 0 {
			set := translate(c.Class.Models, func(at pack.ModelID) (pack.ModelID, bool) {
				if int(at) >= len(m.Models) {
					return 0, false
				}
				n := m.Models[at]
				id, known := p.models.ids[modelKey{n.Vendor, model.ParseModel(n.Model), n.Memory}]
				return id, known
			})
			if set == 0 {
				continue
			}
			if set |= pack.Set(otherModels); set == all {
				set = 0 // any model will do, as for a request of today
			}
			c.Class.Models = set
		}
		saved.Classes = append(saved.Classes, c)
	}
	p.index.Restore(saved)
}

// Validate names the field that makes no valid state.
func (m *Mix) Validate() error {
	if err := m.Saved.Validate(); err != nil {
		return err
	}
	if len(m.Models) >= pack.MaxModels {
		return fmt.Errorf("models: %d, must be below %d", len(m.Models), pack.MaxModels)
	}
	for i, n := range m.Models {
		if n.Memory < 0 {
			return fmt.Errorf("models[%d].memory: %d is negative", i, n.Memory)
		}
	}
	for i, c := range m.Classes {
		if bits.Len64(uint64(c.Class.Models)) > len(m.Models) {
			return fmt.Errorf("classes[%d].models: %b names a model beyond the %d that are listed", i, c.Class.Models, len(m.Models))
		}
	}
	return nil
}

func (n ModelName) compare(o ModelName) int {
	return cmp.Or(cmp.Compare(n.Vendor, o.Vendor), cmp.Compare(n.Model, o.Model), cmp.Compare(n.Memory, o.Memory))
}

// translate gives the members of a set other numbers; those without one are left out.
func translate(set pack.ModelSet, number func(pack.ModelID) (pack.ModelID, bool)) (out pack.ModelSet) {
	for id := range pack.ModelID(pack.MaxModels) {
		if set.Has(id) {
			if to, ok := number(id); ok {
				out |= pack.Set(to)
			}
		}
	}
	return out
}
