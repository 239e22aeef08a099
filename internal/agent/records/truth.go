package records

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/record"
	"github.com/tangram-dev/tangram/internal/agent/device"
)

// facts are what the record of a pod is judged by.
type facts struct {
	node string
	inv  *device.Inventory
	// amounts says whether a resource is sold by amounts of memory and compute: then its
	// IDs are slots of a card, and a container without amounts has the card alone.
	amounts func(resource string) bool
	// inits returns the IDs that an init container was given of a resource, when the
	// agent itself gave them; podresources does not list init containers.
	inits func(pod *v1.Pod, container, resource string) []string
}

// errPending: kubelet has not given the pod all its devices yet.
var errPending = errors.New("devices are still being given")

// readRecord returns a pod's record if it decodes and is of this node. Nil without an
// error means that the pod has none.
func readRecord(pod *v1.Pod, node string) (*record.Record, error) {
	text, ok := pod.Annotations[names.AnnotationDevices]
	if !ok {
		return nil, nil
	}
	r, err := record.Decode(text)
	if err != nil {
		return nil, err
	}
	if r.Node != node {
		return nil, fmt.Errorf("%s: node: %q, but the pod is bound to %q", names.AnnotationDevices, r.Node, node)
	}
	return &r, nil
}

// truth is the record that a pod should have, given what kubelet lists: old where kubelet
// says nothing, what it says elsewhere. It returns old itself where nothing differs, nil
// for a pod that holds nothing, and an error that says what cannot be.
func (f facts) truth(pod *v1.Pod, old *record.Record, listed *Listed) (*record.Record, error) {
	if listed == nil {
		return old, nil
	}
	held := map[string]record.Container{} // by container
	slots := map[string]bool{}            // containers whose IDs do not tell the device
	for _, c := range listed.Containers {
		got, err := f.container(pod, old, c)
		if err != nil {
			return nil, err
		}
		if got != nil && len(got.Devices) == 0 {
			slots[c.Name] = true
		} else if got != nil {
			held[c.Name] = *got
		}
	}
	if len(held) == 0 {
		return old, nil
	}
	for _, a := range gpuAsks(pod) {
		if _, ok := held[a.container]; !ok && !a.init && !slots[a.container] {
			return nil, errPending
		}
	}
	out := &record.Record{Node: f.node}
	var wrong error
	done := map[string]bool{}
	add := func(c record.Container) {
		out.Containers = append(out.Containers, c)
		done[c.Name] = true
	}
	if old != nil {
		for _, c := range old.Containers {
			if now, ok := held[c.Name]; ok {
				c = now
			} else if isInit(pod, c.Name) {
				c = f.initContainer(pod, c, held)
			}
			add(c)
		}
	}
	for _, a := range gpuAsks(pod) {
		if done[a.container] {
			continue
		}
		now, ok := held[a.container]
		switch {
		case ok:
			add(now)
		case slots[a.container]:
			wrong = fmt.Errorf("%s: the IDs of %s do not tell its devices, and there is no valid record", a.path, a.resource)
		case a.init:
			if c := f.unrecordedInit(pod, a, held); c != nil {
				add(*c)
			} else {
				wrong = fmt.Errorf("%s: which devices of %s it was given is not known: podresources does not list init containers", a.path, a.resource)
			}
		}
	}
	if wrong != nil {
		return nil, wrong
	}
	if old != nil && sameRecord(old, out) {
		return old, nil
	}
	return out, nil
}

// container is what kubelet gave to one container: nil for nothing that is a GPU, no
// devices when its IDs do not tell them.
func (f facts) container(pod *v1.Pod, old *record.Record, c ListedContainer) (*record.Container, error) {
	var out *record.Container
	for _, resource := range slices.Sorted(maps.Keys(c.Devices)) {
		if !readable(resource) {
			continue
		}
		path, asked := "", 0
		for _, a := range asks(pod, resource) {
			if a.container == c.Name {
				path, asked = a.path, a.count
			}
		}
		ids := c.Devices[resource]
		if asked != len(ids) {
			return nil, fmt.Errorf("container %q asks for %d of %s, and kubelet gave it %d", clip(c.Name), asked, resource, len(ids))
		}
		if out != nil {
			return nil, fmt.Errorf("%s: holds %s and %s; a record has room for one", path, out.Resource, resource)
		}
		devices, told, err := f.devices(resource, ids)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		out = &record.Container{Name: c.Name, Resource: resource}
		if !told {
			continue
		}
		before := entryOf(old, c.Name, resource)
		if before == nil && f.amounts(resource) {
			if word, yes := ByAmount(pod, c.Name); yes {
				return nil, fmt.Errorf("%s: asks for an amount (%s), and no valid record says which it was promised", path, word)
			}
		}
		out.Devices = merge(before, devices, f.amounts(resource))
	}
	return out, nil
}

// devices reads the IDs of a resource; told is false when they do not tell the device.
func (f facts) devices(resource string, ids []string) (out []record.Device, told bool, err error) {
	for _, id := range ids {
		d, ok, err := ReadID(resource, id, f.inv)
		if err != nil || !ok {
			return nil, false, err
		}
		out = append(out, d)
	}
	return out, len(out) > 0, nil
}

// merge puts the devices that a container holds into its entry. Amounts belong to the
// request, not to the device: a device in place of another takes over its amounts.
func merge(old *record.Container, now []record.Device, amounts bool) []record.Device {
	out := make([]record.Device, 0, len(now))
	var spare []record.Device // entries of devices that it does not hold
	left := slices.Clone(now)
	if old != nil {
		for _, o := range old.Devices {
			i := slices.IndexFunc(left, func(d record.Device) bool { return sameDevice(o, d) })
			if i < 0 {
				spare = append(spare, o)
				continue
			}
			out = append(out, taking(left[i], &o, amounts))
			left = slices.Delete(left, i, i+1)
		}
	}
	for _, d := range left {
		var o *record.Device
		if len(spare) > 0 {
			o, spare = &spare[0], spare[1:]
		} else if old != nil && len(old.Devices) > 0 {
			o = &old.Devices[0]
		}
		out = append(out, taking(d, o, amounts))
	}
	return out
}

// taking is a device with the amounts of an entry, if it has any.
func taking(d record.Device, entry *record.Device, amounts bool) record.Device {
	switch {
	case d.MIG != "":
	case entry != nil && (entry.MemoryMiB > 0 || entry.ComputeMilli > 0):
		d.MemoryMiB, d.ComputeMilli, d.Turn = entry.MemoryMiB, entry.ComputeMilli, false
	case amounts:
		d.Turn = entry != nil && entry.Turn
	}
	return d
}

// initContainer is the entry of an init container whose pod may have been given other
// devices than recorded. Where the agent did not see it, kubelet's rule helps: the
// pod's later containers are given the init container's devices first.
func (f facts) initContainer(pod *v1.Pod, c record.Container, held map[string]record.Container) record.Container {
	if devices := f.seen(pod, c.Name, c.Resource, len(c.Devices)); devices != nil {
		c.Devices = merge(&c, devices, f.amounts(c.Resource))
		return c
	}
	later := heldOf(held, c.Resource)
	var kept, lost []record.Device
	for _, d := range c.Devices {
		i := slices.IndexFunc(later, func(l record.Device) bool { return sameDevice(l, d) })
		if i < 0 {
			lost = append(lost, d)
			continue
		}
		kept = append(kept, later[i])
		later = slices.Delete(later, i, i+1)
	}
	for _, d := range lost {
		if len(later) > 0 {
			d, later = later[0], later[1:]
		}
		kept = append(kept, d)
	}
	c.Devices = merge(&c, kept, f.amounts(c.Resource))
	return c
}

// unrecordedInit is the entry of an init container of a pod without a record.
func (f facts) unrecordedInit(pod *v1.Pod, a ask, held map[string]record.Container) *record.Container {
	out := &record.Container{Name: a.container, Resource: a.resource}
	if devices := f.seen(pod, a.container, a.resource, a.count); devices != nil {
		out.Devices = merge(nil, devices, f.amounts(a.resource))
	} else if later := heldOf(held, a.resource); len(later) >= a.count {
		out.Devices = later[:a.count]
	} else {
		return nil
	}
	return out
}

// seen are the devices that the agent itself gave to an init container, if they are as many as it
// asks for.
func (f facts) seen(pod *v1.Pod, container, resource string, count int) []record.Device {
	if ids := f.inits(pod, container, resource); len(ids) == count {
		devices, _, _ := f.devices(resource, ids)
		return devices
	}
	return nil
}

// heldOf are the devices of a resource that containers hold, in the order of their
// names, each once.
func heldOf(held map[string]record.Container, resource string) (out []record.Device) {
	for _, name := range slices.Sorted(maps.Keys(held)) {
		if held[name].Resource != resource {
			continue
		}
		for _, d := range held[name].Devices {
			if !contains(out, d) {
				out = append(out, d)
			}
		}
	}
	return out
}

// entryOf is a record's entry of a container for a resource, or nil.
func entryOf(r *record.Record, container, resource string) *record.Container {
	if r == nil {
		return nil
	}
	for i := range r.Containers {
		if c := &r.Containers[i]; c.Name == container && c.Resource == resource {
			return c
		}
	}
	return nil
}

// isInit says whether a container ends before the next one starts.
func isInit(pod *v1.Pod, container string) (yes bool) {
	eachContainer(pod, func(c *v1.Container, _ string, init bool) { yes = yes || init && c.Name == container })
	return yes
}

// sameRecord says whether two records say the same, in whatever order. A record without
// UUIDs says the same as one with them.
func sameRecord(a, b *record.Record) bool {
	if a.Node != b.Node || len(a.Containers) != len(b.Containers) {
		return false
	}
	for _, c := range a.Containers {
		d := entryOf(b, c.Name, c.Resource)
		if d == nil || len(d.Devices) != len(c.Devices) {
			return false
		}
		for _, x := range c.Devices {
			if !slices.ContainsFunc(d.Devices, func(y record.Device) bool {
				return sameDevice(x, y) && x.Turn == y.Turn && x.MemoryMiB == y.MemoryMiB && x.ComputeMilli == y.ComputeMilli
			}) {
				return false
			}
		}
	}
	return true
}
