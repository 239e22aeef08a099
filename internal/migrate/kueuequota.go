package migrate

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// quota are amounts by resource.
type quota map[string]resource.Quantity

func (q quota) add(name string, amount resource.Quantity) {
	sum := q[name]
	sum.Add(amount)
	q[name] = sum
}

func (q quota) plain() map[string]any {
	out := map[string]any{}
	for name, amount := range q {
		out[name] = amount.String()
	}
	return out
}

// quotas are those of resource groups: nominal, what may be borrowed (or without limit), what is not lent.
type quotas struct {
	nominal, borrow, keep quota
	unbounded             map[string]bool
}

func (k *kueueTranslation) quotas(groups node) quotas {
	a := quotas{quota{}, quota{}, quota{}, map[string]bool{}}
	for _, g := range groups.Items() {
		flavors := g.Get("flavors").Items()
		for _, f := range flavors {
			for _, r := range f.Get("resources").Items() {
				k.quota(&a, r, f.Get("name").Text(), len(flavors) > 1)
			}
		}
	}
	return a
}

// quota adds the amounts of one resource of a flavor, and of its GPU model where it has one.
func (k *kueueTranslation) quota(a *quotas, r node, flavor string, several bool) {
	name := r.Get("name").Text()
	nominal, ok := k.quantity(r.Get("nominalQuota"))
	if name == "" {
		k.problem(r.Problem("has no name"))
	}
	if name == "" || !ok {
		return
	}
	list := []string{name}
	if m := k.flavorModel(flavor); m != "" && name == names.ResourceNVIDIA {
		list = append(list, "gpu.tangram.dev/"+m)
	}
	borrow, bounded := k.optional(r.Get("borrowingLimit"))
	for _, n := range list {
		a.nominal.add(n, nominal)
		switch {
		case borrow != nil:
			a.borrow.add(n, *borrow)
		case !bounded:
			a.unbounded[n] = true
		}
	}
	if lend, _ := k.optional(r.Get("lendingLimit")); lend != nil {
		keep := nominal.DeepCopy()
		if keep.Sub(*lend); keep.Sign() > 0 {
			a.keep.add(name, keep)
		}
	}
	row := answer{Set, "Queue spec.deserved[" + strings.Join(list, "], [") + "]", ""}
	if several && len(list) == 1 {
		row.verdict, row.do = Differs, "flavors of one resource are added up; nodes of a flavor are chosen by nodeSelector of the pods"
	}
	k.row(at{r, r.Path, flavor + ": " + name + "=" + nominal.String()}, row)
}

func (k *kueueTranslation) quantity(n node) (resource.Quantity, bool) {
	q, err := dialect.ParseQuantity(n.Text())
	if err != nil || q.Sign() < 0 {
		k.problem(n.Problem("%q is not an amount", n.Text()))
		return q, false
	}
	return q, true
}

// optional is an amount that may be left out; there says whether it is given, rightly or not.
func (k *kueueTranslation) optional(n node) (q *resource.Quantity, there bool) {
	if n.IsNull() {
		return nil, false
	}
	if x, ok := k.quantity(n); ok {
		return &x, true
	}
	return nil, true
}

// flavorModel is the GPU model that a flavor's node labels name; empty without one.
func (k *kueueTranslation) flavorModel(name string) string {
	for _, e := range k.world.flavors[name].Get("spec", "nodeLabels").Entries() {
		if slices.Contains([]string{names.LabelNVIDIAProduct, names.LabelAccelerator, names.LabelAMDProduct}, e.Key) {
			if m := model.ParseModel(e.Text()); m.Known() {
				return m.Name()
			}
		}
	}
	return ""
}
