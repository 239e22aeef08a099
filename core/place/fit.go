package place

import (
	"iter"
	"slices"
	"strings"

	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
)

// Grant is what a request gets on a node.
type Grant struct {
	// Set are the devices, whole or in part.
	Set model.Mask
	// Parts are the shares or slices, container by container; none of whole
	// devices.
	Parts []GrantedPart
}

// Claim is the claim of a holder that is given the grant.
func (g *Grant) Claim(holder model.HolderID, r *model.Request, n *model.Node) ledger.Claim {
	ref := func(slot int) ledger.DeviceRef {
		return ledger.DeviceRef{Index: n.Devices[slot].Index, UUID: n.Devices[slot].UUID}
	}
	c := ledger.Claim{Holder: holder, Vendor: r.Vendor, Host: r.Host, Extras: r.Extras, Priority: r.Priority, Labels: r.Labels, Apart: AntiAffinity(r.Affinity)}
	if r.Kind() == model.Whole {
		c.Count = r.Count()
		for slot := range g.Set.Slots() {
			c.Devices = append(c.Devices, ref(slot))
		}
		return c
	}
	for _, p := range Hold(r, g.Parts) {
		c.Parts = append(c.Parts, ledger.HeldPart{Device: ref(p.Slot), Known: true, Part: p.Part, Start: p.Start})
	}
	return c
}

// Fit chooses the devices a request would get on a node, or says why it gets
// none. Checks run from what can never change to what changes with every pod,
// and the refusal names the last one reached. The set is the best connected one
// that leaves the best remainder (topology.Links.Best), among those that are close
// enough (nearness). The request must be valid.
func Fit(r *model.Request, v ledger.View) (Grant, *explain.Refusal) {
	return FitWith(r, v, Choose{})
}

// Worth is the value of a free part of a device, given in thousandths of the device.
type Worth func(left int) int64

// Choose says how to choose among devices that would do.
type Choose struct {
	// Worth values what is left of a device; nil when there is no such valuation.
	Worth Worth
	// Only, when not empty, are the devices to choose from.
	Only model.Mask
}

// FitWith is Fit with a say in the choice of devices.
func FitWith(r *model.Request, v ledger.View, how Choose) (Grant, *explain.Refusal) {
	need, kind := r.Distinct(), r.Kind()
	devices := v.Devices(r.Vendor)
	if kind != model.Slice {
		devices &^= v.Fixed()
	}
	refuse := func(code explain.Code, best model.Mask, detail string) (Grant, *explain.Refusal) {
		return Grant{}, &explain.Refusal{Code: code, Need: int64(need), Best: int64(best.Count()), Devices: devices.Count(), Detail: detail}
	}
	if devices == 0 {
		return refuse(explain.NoDevices, 0, "")
	}
	if devices.Count() < need {
		return refuse(explain.TooFew, devices, "")
	}
	for _, want := range r.Attributes {
		if value, ok := v.Node.Attribute(want.Key); !ok || !slices.Contains(want.Values, value) {
			return refuse(explain.WrongNode, 0, want.Key+"="+strings.Join(want.Values, "|"))
		}
	}
	if level := r.Require.Level; lacks(v.Node, level) {
		return refuse(explain.WrongDomain, 0, level.Labelled())
	}
	allowed := keep(devices, v, func(d *model.Device) bool { return modelAllowed(r, d.Model) })
	if allowed.Count() < need {
		return refuse(explain.WrongModel, allowed, modelWish(r))
	}
	allowed = keep(allowed, v, func(d *model.Device) bool { return deviceAllowed(r, d) })
	if allowed.Count() < need {
		return refuse(explain.WrongDevice, allowed, deviceWish(r))
	}
	large := keep(allowed, v, func(d *model.Device) bool { return d.NominalMemory() >= r.MinMemory })
	if large.Count() < need {
		return Grant{}, smallMemory(r, v, allowed)
	}
	if asksTurns(r, v) {
		if large = keep(large, v, func(d *model.Device) bool { return !onlyOne(r, d) }); large.Count() < need {
			return refuse(explain.TooFew, large, "")
		}
	}
	if kind != model.Whole {
		able := model.Mask(0)
		for slot := range large.Slots() {
			if everFits(r, v, slot) {
				able = able.With(slot)
			}
		}
		if large = able; large.Count() < need {
			return refuse(explain.TooSmall, large, partWish(r))
		}
	}
	if how.Only != 0 {
		large &= how.Only
	}
	usable := large & v.Usable(r.Vendor)
	if usable.Count() < need {
		if healthy := usable | large&v.Cordoned(r.Vendor); healthy.Count() < need {
			return refuse(explain.Unhealthy, healthy, "")
		}
		return refuse(explain.DevicesCordoned, usable, "")
	}
	usable, refusal := byAffinity(r, v, usable)
	if refusal != nil {
		return Grant{}, refusal
	}
	near := nearnessOf(r, v)
	if near.asks() && near.choose(usable, need, model.Bond{}) == 0 {
		return refuse(explain.Apart, near.largest(usable, need), near.String())
	}
	if kind != model.Whole {
		return near.fitParts(usable, how.Worth)
	}
	free := usable & v.Free(r.Vendor)
	if free.Count() < need {
		return refuse(explain.Taken, free, "")
	}
	if room := v.Room(r.Vendor); room < need {
		return Grant{}, &explain.Refusal{Code: explain.Taken, Need: int64(need), Best: int64(room), Devices: devices.Count()}
	}
	set := choose(&near, free, need)
	if set == 0 {
		return refuse(explain.FreeApart, near.largest(free, need), near.String())
	}
	return Grant{Set: set}, nil
}

// choose returns the best k of the free devices, of replicated ones those with the
// fewest tenants; 0 when none are near enough.
func choose(near *nearness, free model.Mask, k int) model.Mask {
	if free&near.v.Replicated() == 0 {
		return near.choose(free, k, near.r.Prefer.Bond)
	}
	for calm := range byTenants(free, near.v) {
		if set := near.choose(calm, k, near.r.Prefer.Bond); set != 0 {
			return set
		}
	}
	return 0
}

// byTenants yields the devices with the fewest tenants, then those with a few more
// beside them, up to all: turns on replicated devices are spread. Free devices that are
// not replicated have no tenants and are all in the first set.
func byTenants(free model.Mask, v ledger.View) iter.Seq[model.Mask] {
	return func(yield func(model.Mask) bool) {
		var calm model.Mask
		for most := 0; calm != free; most++ {
			before := calm
			for slot := range (free &^ calm).Slots() {
				if v.Usage(slot).Tenants <= most {
					calm = calm.With(slot)
				}
			}
			if calm != before && !yield(calm) {
				return
			}
		}
	}
}

// asksTurns says whether a request may get turns on a node: by their own name, or as
// whole devices that are replicated.
func asksTurns(r *model.Request, v ledger.View) bool {
	return r.Kind() == model.Whole && v.Replicated() != 0 ||
		slices.ContainsFunc(r.Containers, func(c model.Container) bool { return c.Part.Turn })
}

// onlyOne says whether a container of the request asks for more devices than it may
// have of d.
func onlyOne(r *model.Request, d *model.Device) bool {
	return d.OnePerContainer && slices.ContainsFunc(r.Containers, func(c model.Container) bool { return c.Count > 1 })
}

// Allows says whether a request may use devices like this one: of its model, and
// with its memory.
func Allows(r *model.Request, d *model.Device) bool {
	return modelAllowed(r, d.Model) && d.NominalMemory() >= r.MinMemory
}

// keep returns the devices of a set that satisfy a test.
func keep(set model.Mask, v ledger.View, ok func(*model.Device) bool) model.Mask {
	var out model.Mask
	for slot := range set.Slots() {
		if ok(&v.Node.Devices[slot]) {
			out = out.With(slot)
		}
	}
	return out
}

func modelAllowed(r *model.Request, m model.GPUModel) bool {
	matches := func(wish model.GPUModel) bool { return m.Is(wish) }
	return (len(r.ProfileModels) == 0 || slices.ContainsFunc(r.ProfileModels, matches)) &&
		(len(r.UseModels) == 0 || slices.ContainsFunc(r.UseModels, matches)) &&
		!slices.ContainsFunc(r.AvoidModels, matches)
}

func deviceAllowed(r *model.Request, d *model.Device) bool {
	return (len(r.UseIndexes) == 0 || slices.Contains(r.UseIndexes, d.Index)) &&
		(len(r.UseUUIDs) == 0 || slices.Contains(r.UseUUIDs, d.UUID)) &&
		!slices.Contains(r.AvoidUUIDs, d.UUID)
}

// modelWish spells the models a request wants for a refusal.
func modelWish(r *model.Request) string {
	join := func(models []model.GPUModel) string {
		names := make([]string, len(models))
		for i, m := range models {
			names[i] = m.String()
		}
		return strings.Join(names, "|")
	}
	switch {
	case len(r.UseModels) > 0:
		return join(r.UseModels)
	case len(r.AvoidModels) > 0:
		return "other than " + join(r.AvoidModels)
	}
	return join(r.ProfileModels)
}

// deviceWish says how a request names devices.
func deviceWish(r *model.Request) string {
	if len(r.UseUUIDs) > 0 || len(r.AvoidUUIDs) > 0 {
		return "uuid"
	}
	return "index"
}

// partWish spells the parts a request wants.
func partWish(r *model.Request) string {
	for _, c := range r.Containers {
		if c.Count > 0 {
			return spell(c.Part)
		}
	}
	return ""
}

func smallMemory(r *model.Request, v ledger.View, allowed model.Mask) *explain.Refusal {
	var largest model.MiB
	for slot := range allowed.Slots() {
		largest = max(largest, v.Node.Devices[slot].NominalMemory())
	}
	return &explain.Refusal{Code: explain.SmallMemory, Need: int64(r.MinMemory), Best: int64(largest), Devices: allowed.Count()}
}
