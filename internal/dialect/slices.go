package dialect

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/tangram-dev/tangram/core/mig"
	"github.com/tangram-dev/tangram/core/model"
)

// gpuDrivers are the DRA drivers whose devices are GPUs of a node: NVIDIA's and gpu-agent's.
var gpuDrivers = map[string]model.Vendor{
	"gpu.nvidia.com":  model.NVIDIA,
	"gpu.tangram.dev": model.NVIDIA,
}

// IsGPUDriver says whether the devices of a DRA driver are GPUs that core counts.
func IsGPUDriver(driver string) bool { _, ok := gpuDrivers[driver]; return ok }

// Published is one device of a ResourceSlice: a GPU, or a MIG instance of one.
type Published struct {
	Driver, Pool string
	Device       *resourceapi.Device
	// Card is the UUID of the GPU, else one that is made of the device's name.
	Card string
	// Profile is the MIG profile of an instance; empty for a GPU. Start is its first memory
	// slice, Size how many it has; Start is -1 where the driver does not tell.
	Profile     string
	Start, Size int
}

// Whole says whether the device is a whole GPU.
func (p *Published) Whole() bool { return p.Profile == "" }

// Shared says whether several claims may have the device at once (consumable capacity).
func (p *Published) Shared() bool {
	return p.Device.AllowMultipleAllocations != nil && *p.Device.AllowMultipleAllocations
}

// Tainted says whether a taint keeps new claims off the device.
func (p *Published) Tainted() bool {
	return slices.ContainsFunc(p.Device.Taints, func(t resourceapi.DeviceTaint) bool {
		return t.Effect == resourceapi.DeviceTaintEffectNoSchedule || t.Effect == resourceapi.DeviceTaintEffectNoExecute
	})
}

// Publish lists the GPUs that ResourceSlices of one node publish, by driver, pool and name, in which
// numbers count as such. Of each pool the latest generation with all its slices counts, else the
// latest: a driver writes slice by slice.
func Publish(from []*resourceapi.ResourceSlice) []Published {
	current := generations(from)
	var out []Published
	for _, s := range from {
		if !IsGPUDriver(s.Spec.Driver) || s.Spec.Pool.Generation != current[poolOf(s)] {
			continue
		}
		for i := range s.Spec.Devices {
			out = append(out, published(s, &s.Spec.Devices[i]))
		}
	}
	slices.SortStableFunc(out, func(a, b Published) int {
		x, i := numbered(a.Device.Name)
		y, j := numbered(b.Device.Name)
		return cmp.Or(cmp.Compare(a.Driver, b.Driver), cmp.Compare(a.Pool, b.Pool), cmp.Compare(x, y), cmp.Compare(i, j), cmp.Compare(a.Device.Name, b.Device.Name))
	})
	return out
}

type pool struct{ driver, name string }

func poolOf(s *resourceapi.ResourceSlice) pool { return pool{s.Spec.Driver, s.Spec.Pool.Name} }

// generations are the generations of pools that count.
func generations(from []*resourceapi.ResourceSlice) map[pool]int64 {
	type generation struct {
		of     pool
		number int64
	}
	have := map[generation]int64{}
	for _, s := range from {
		have[generation{poolOf(s), s.Spec.Pool.Generation}]++
	}
	out, complete := map[pool]int64{}, map[pool]bool{}
	for _, s := range from {
		p, g := poolOf(s), s.Spec.Pool.Generation
		whole := have[generation{p, g}] >= s.Spec.Pool.ResourceSliceCount
		best, there := out[p]
		if !there || whole && !complete[p] || whole == complete[p] && g > best {
			out[p], complete[p] = g, whole
		}
	}
	return out
}

func published(s *resourceapi.ResourceSlice, d *resourceapi.Device) Published {
	p := Published{Driver: s.Spec.Driver, Pool: s.Spec.Pool.Name, Device: d, Start: -1}
	p.Card = p.text("uuid")
	if p.text("type") == "mig" || p.text("profile") != "" {
		p.Profile, p.Card = cmp.Or(p.text("profile"), "unknown"), p.text("parentUUID")
		p.Start, p.Size = memorySlices(d)
	}
	if p.Card == "" || !recordable(p.Card) {
		p.Card = p.Driver + "/" + p.Pool + "/" + d.Name
	}
	return p
}

// numbered splits a name into its text and the number at its end.
func numbered(name string) (string, int) {
	text := strings.TrimRight(name, "0123456789")
	n, err := strconv.Atoi(name[len(text):])
	if err != nil {
		n = -1
	}
	return text, n
}

// attribute finds an attribute by its name in the driver's own domain.
func (p *Published) attribute(name string) (resourceapi.DeviceAttribute, bool) {
	for _, key := range []string{name, p.Driver + "/" + name, "resource.kubernetes.io/" + name} {
		if a, ok := p.Device.Attributes[resourceapi.QualifiedName(key)]; ok {
			return a, true
		}
	}
	return resourceapi.DeviceAttribute{}, false
}

func (p *Published) text(name string) string {
	if a, ok := p.attribute(name); ok && a.StringValue != nil {
		return *a.StringValue
	}
	return ""
}

// memory is what the device says of its memory; 0 when it does not.
func (p *Published) memory() model.MiB {
	for _, key := range []string{"memory", p.Driver + "/memory"} {
		if c, ok := p.Device.Capacity[resourceapi.QualifiedName(key)]; ok {
			return model.MiB(max(0, c.Value.Value()) >> 20)
		}
	}
	return 0
}

// memorySlices reads which memory slices a MIG device takes, by its GPU's counters memory-slice-N.
func memorySlices(d *resourceapi.Device) (start, size int) {
	start = -1
	for _, c := range d.ConsumesCounters {
		for name := range c.Counters {
			n, err := strconv.Atoi(strings.TrimPrefix(name, "memory-slice-"))
			if err != nil {
				continue
			}
			if size++; start < 0 || n < start {
				start = n
			}
		}
	}
	return start, size
}

// cards are the published GPUs as core sees them, each once whichever drivers publish it.
func cards(all []Published) []model.Device {
	var out []model.Device
	at := map[string]int{}
	parts := map[string][]*Published{}
	for i := range all {
		p := &all[i]
		slot, known := at[p.Card]
		if !known {
			slot = len(out)
			at[p.Card] = slot
			out = append(out, model.Device{Index: slot, UUID: p.Card, Vendor: gpuDrivers[p.Driver], NUMA: model.NUMAUnknown, Fixed: true})
		}
		d := &out[slot]
		if m := p.text("productName"); m != "" {
			d.Model = model.ParseModel(m)
		}
		if a, ok := p.attribute("numaNode"); ok && a.IntValue != nil && *a.IntValue >= 0 && *a.IntValue < 1<<16 {
			d.NUMA = int(*a.IntValue)
		}
		if !p.Whole() {
			parts[p.Card] = append(parts[p.Card], p)
			continue
		}
		d.Fixed, d.Memory = false, p.memory()
		d.Cordoned = d.Cordoned || p.Tainted()
	}
	for card, list := range parts {
		publishedCuts(&out[at[card]], list)
	}
	return out
}

// publishedCuts sets how a card can be cut, from the MIG devices that are published of it.
func publishedCuts(d *model.Device, list []*Published) {
	known := mig.Lookup(d.Model, d.Memory)
	byName := map[string]*model.MIGProfile{}
	tainted := true
	for _, p := range list {
		tainted = tainted && p.Tainted()
		if p.Start < 0 || p.Size == 0 {
			continue // where it lies is not known, so what it excludes is not either
		}
		c := byName[p.Profile]
		if c == nil {
			c = &model.MIGProfile{ID: 1000 + len(byName), Name: p.Profile, Memory: p.memory(), Size: p.Size}
			if known != nil {
				if i := known.Find(p.Profile); i >= 0 {
					k := known.Profiles()[i]
					c.ID, c.Compute, c.Media = k.ID, k.Compute, k.Media
				}
			}
			byName[p.Profile] = c
		}
		if c.Size == p.Size && !slices.Contains(c.Starts, p.Start) {
			c.Starts = append(c.Starts, p.Start)
		}
		d.MIGSlices = max(d.MIGSlices, p.Start+p.Size)
	}
	d.Cordoned = d.Cordoned || d.Fixed && tainted
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		slices.Sort(byName[name].Starts)
		d.MIG = append(d.MIG, *byName[name])
	}
	slices.SortStableFunc(d.MIG, func(a, b model.MIGProfile) int { return cmp.Compare(a.ID, b.ID) })
	if _, err := mig.New(d.MIGSlices, d.MIG); err != nil {
		d.MIG, d.MIGSlices = nil, 0
	}
}

// AddPublished adds the GPUs that DRA drivers publish to a node's inventory. A card that is
// known already, by its UUID, stays as it is described; cards that are known by number only
// (from labels and allocatable) get the published ones' UUIDs: they are the same cards.
// backed are the extended resources for which a DeviceClass stands: where no device plugin
// sells them, kube-scheduler makes claims for them.
//
// claimsOnly: there was no GPU but the published ones, so nothing but a claim gets one. On
// error the inventory is as it was.
func AddPublished(n *model.Node, node *v1.Node, all []Published, backed []v1.ResourceName) (claimsOnly bool, err error) {
	list := cards(all)
	if len(list) == 0 {
		return false, nil
	}
	vendor := list[0].Vendor
	mine := func(d model.Device) bool { return d.Vendor == vendor }
	claimsOnly = !slices.ContainsFunc(n.Devices, mine)
	named := slices.ContainsFunc(n.Devices, func(d model.Device) bool { return mine(d) && d.UUID != "" })
	devices := slices.Clone(n.Devices)
	if !named && !claimsOnly { // give the numbers their names
		i := 0
		for slot := range devices {
			if d := &devices[slot]; mine(*d) && i < len(list) {
				c := list[i]
				d.UUID, d.Cordoned = c.UUID, d.Cordoned || c.Cordoned
				if c.Model.Known() {
					d.Model = c.Model
				}
				d.Memory = max(d.Memory, c.Memory)
				if len(d.MIG) == 0 {
					d.MIG, d.MIGSlices = c.MIG, c.MIGSlices
				}
				i++
			}
		}
		list = list[i:]
	}
	next, whole := nextIndex(devices), 0
	for _, c := range list {
		at := slices.IndexFunc(devices, func(d model.Device) bool { return d.UUID == c.UUID })
		if at < 0 {
			c.Index, next = next, next+1
			devices = append(devices, c)
			continue
		}
		d := &devices[at]
		d.Cordoned = d.Cordoned || c.Cordoned
		if len(d.MIG) == 0 && !d.Fixed {
			d.MIG, d.MIGSlices = c.MIG, c.MIGSlices
		}
	}
	for _, d := range devices {
		if mine(d) && !d.Fixed {
			whole++
		}
	}
	merged := *n
	merged.Devices, merged.Sellable = devices, maps.Clone(n.Sellable)
	if merged.Sellable == nil {
		merged.Sellable = map[model.Vendor]int{}
	}
	// As many as there are: device plugins and claims give the same cards.
	merged.Sellable[vendor] = max(merged.Sellable[vendor], whole)
	if len(merged.Links) == 0 {
		merged.Links = sameRoot(devices, all)
	}
	if err := merged.Validate(); err != nil {
		return claimsOnly, fmt.Errorf("ResourceSlices of node %q: %w", n.ID, err)
	}
	*n = merged
	for _, resource := range backed {
		offerByClaims(n, node, resource)
	}
	return claimsOnly, nil
}

// sameRoot joins the cards behind one PCIe root complex.
func sameRoot(devices []model.Device, all []Published) (out []model.Link) {
	roots := map[string][]int{}
	for _, d := range devices {
		at := slices.IndexFunc(all, func(p Published) bool { return p.Card == d.UUID && p.Whole() })
		if at < 0 {
			continue
		}
		if root := all[at].text("pcieRoot"); root != "" {
			roots[root] = append(roots[root], d.Index)
		}
	}
	for _, root := range slices.Sorted(maps.Keys(roots)) {
		if len(roots[root]) > 1 && len(roots) > 1 { // one root for all says nothing
			out = append(out, model.Link{Between: roots[root], Class: model.PHB})
		}
	}
	return out
}

// offerByClaims counts cards as an extended resource for which a DeviceClass stands and no device plugin.
func offerByClaims(n *model.Node, node *v1.Node, resource v1.ResourceName) {
	if quantity(node.Status.Allocatable, resource) > 0 {
		return // a device plugin sells it
	}
	whole := 0
	for _, d := range n.Devices {
		if ResourceOf(d.Vendor) == resource && !d.Fixed {
			whole++
		}
	}
	list := slices.DeleteFunc(slices.Clone(n.Extras), func(e model.Extra) bool { return e.Name == string(resource) })
	n.Extras = model.MakeExtras(append(list, model.Extra{Name: string(resource), Amount: int64(whole)}))
}

// NamesGPUDriver says whether a CEL expression names a GPU driver.
func NamesGPUDriver(expression string) bool {
	return slices.ContainsFunc(slices.Collect(maps.Keys(gpuDrivers)), func(driver string) bool { return strings.Contains(expression, driver) })
}

// Value is the value of an attribute by its qualified name, for comparing devices; false when it has none.
func (p *Published) Value(qualified string) (string, bool) {
	a, ok := p.Device.Attributes[resourceapi.QualifiedName(qualified)]
	if name, own := strings.CutPrefix(qualified, p.Driver+"/"); !ok && own {
		a, ok = p.Device.Attributes[resourceapi.QualifiedName(name)]
	}
	switch {
	case !ok:
		return "", false
	case a.StringValue != nil:
		return *a.StringValue, true
	case a.VersionValue != nil:
		return *a.VersionValue, true
	case a.IntValue != nil:
		return strconv.FormatInt(*a.IntValue, 10), true
	case a.BoolValue != nil:
		return strconv.FormatBool(*a.BoolValue), true
	}
	return "", false
}
