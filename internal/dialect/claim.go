package dialect

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/record"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/place"
)

// Holders are the names of a pod's claims in the ledger: its UID for the first vendor, and one more
// for each other vendor of a pod that Tangram itself would have refused.
func Holders(pod *v1.Pod) []model.HolderID { return HoldersOf(string(pod.UID)) }

// HoldersOf is Holders for a pod of which only the UID is known.
func HoldersOf(uid string) []model.HolderID {
	out := []model.HolderID{model.HolderID(uid)}
	for _, v := range model.Vendors {
		out = append(out, holder(uid, v))
	}
	return out
}

// UIDOf is the UID of the pod a holder belongs to.
func UIDOf(h model.HolderID) string {
	uid, _, _ := strings.Cut(string(h), "/")
	return uid
}

func holder(uid string, v model.Vendor) model.HolderID {
	return model.HolderID(uid + "/" + string(v))
}

// Claims reads what a bound pod holds. A record that contradicts the pod's own request is an error,
// and the pod is then counted by its request, with devices unknown.
func Claims(pod *v1.Pod) ([]ledger.Claim, error) {
	// Annotations about models and devices are not read: a running pod's may have become invalid.
	r, _, err := counts(pod)
	if recorded := recordedShare(pod); recorded != nil {
		r, err = recorded, nil
	}
	if err != nil {
		// Another scheduler placed a pod that Tangram would have refused. It still holds devices.
		return countedClaims(pod), nil
	}
	if r == nil {
		return []ledger.Claim{hostClaim(pod)}, nil
	}
	host, extras := podNeeds(pod)
	c := ledger.Claim{
		Holder: model.HolderID(pod.UID), Vendor: r.Vendor, Host: host, Extras: extras, Since: BoundSince(pod), Priority: r.Priority,
		Labels: labelsOf(pod), Apart: antiAffinity(pod),
	}
	var given []givenDevice
	if text, ok := pod.Annotations[names.AnnotationDevices]; ok {
		given, err = proven(pod, r, text)
	}
	if r.Kind() == model.Whole {
		c.Count = r.Count()
		for _, d := range given {
			if !slices.Contains(c.Devices, d.ref) {
				c.Devices = append(c.Devices, d.ref)
			}
		}
	} else {
		c.Parts = heldParts(r, given)
	}
	return []ledger.Claim{c}, err
}

// ContestedRecord is the reason, and Contested returns the message, of an event about a
// pod whose record names a device that a claim holds which was seen first.
const ContestedRecord = "ContestedRecord"

// Contested is the message of that event.
func Contested(c ledger.Contested) string {
	return fmt.Sprintf("%s: device %d is held by pods that had it first and leave no room; this pod is counted with unknown devices", names.AnnotationDevices, c.Index)
}

// givenDevice is one entry of a record that agrees with the request.
type givenDevice struct {
	container int
	ref       ledger.DeviceRef
	start     int
}

// heldParts are the parts a pod holds: of the devices it was given; without a valid record of unknown
// ones, the same for each container.
func heldParts(r *model.Request, given []givenDevice) []ledger.HeldPart {
	known := len(given) > 0
	if !known {
		for i, c := range r.Containers {
			for n := range c.Count {
				given = append(given, givenDevice{container: i, ref: ledger.DeviceRef{Index: n}})
			}
		}
	}
	var parts []place.GrantedPart
	var refs []ledger.DeviceRef // a slot here is a position in refs
	for _, d := range given {
		slot := slices.Index(refs, d.ref)
		if slot < 0 {
			refs = append(refs, d.ref)
			slot = len(refs) - 1
		}
		parts = append(parts, place.GrantedPart{Container: d.container, Slot: slot, Part: r.Containers[d.container].Part, Start: d.start})
	}
	var out []ledger.HeldPart
	for _, p := range place.Hold(r, parts) {
		held := ledger.HeldPart{Part: p.Part}
		if known {
			held = ledger.HeldPart{Device: refs[p.Slot], Known: true, Part: p.Part, Start: p.Start}
		}
		out = append(out, held)
	}
	return out
}

// proven returns the devices a record names, if it agrees with the request.
func proven(pod *v1.Pod, r *model.Request, text string) ([]givenDevice, error) {
	rec, err := record.Decode(text)
	if err != nil {
		return nil, err
	}
	disagree := func(format string, args ...any) ([]givenDevice, error) {
		return nil, fmt.Errorf("%s: %s; the pod is counted by its request", names.AnnotationDevices, fmt.Sprintf(format, args...))
	}
	if rec.Node != pod.Spec.NodeName {
		return disagree("node: %q, but the pod is bound to %q", rec.Node, pod.Spec.NodeName)
	}
	byName := map[string]*record.Container{}
	for i := range rec.Containers {
		byName[rec.Containers[i].Name] = &rec.Containers[i]
	}
	var given []givenDevice
	different := map[ledger.DeviceRef]bool{}
	for i, c := range r.Containers {
		if c.Count == 0 {
			continue
		}
		got := byName[c.Name]
		switch {
		case got == nil:
			return disagree("containers: %q asks for %d GPUs and is not listed", c.Name, c.Count)
		case got.Resource != c.Resource:
			return disagree("containers: %q was given %s, but asks for %s", c.Name, got.Resource, c.Resource)
		case len(got.Devices) != c.Count:
			return disagree("containers: %q was given %d devices, but asks for %d", c.Name, len(got.Devices), c.Count)
		}
		delete(byName, c.Name)
		for _, d := range got.Devices {
			if !agrees(c.Part, d) {
				return disagree("containers: %q was given another amount of device %d than it asks for", c.Name, d.Index)
			}
			ref := ledger.DeviceRef{Index: d.Index, UUID: d.UUID}
			different[ref] = true
			given = append(given, givenDevice{i, ref, d.Start})
		}
	}
	if len(byName) > 0 {
		return disagree("containers: lists containers that ask for no GPU")
	}
	if r.Kind() == model.Whole && len(different) != r.Count() {
		return disagree("containers: %d devices in all, but the pod holds %d", len(different), r.Count())
	}
	return given, nil
}

// agrees says whether a recorded device is as much of one as was asked for. Memory
// in percent depends on the device and is taken from the request.
func agrees(p model.Part, d record.Device) bool {
	switch p.Kind {
	case model.Slice:
		return strings.ReplaceAll(d.MIG, "+", ".") == strings.ReplaceAll(p.Profile, "+", ".")
	case model.Share:
		return d.MIG == "" && d.Turn == p.Turn && d.ComputeMilli == p.Milli && (p.MemoryMilli > 0 || d.MemoryMiB == int64(p.Memory))
	}
	// Whether a whole device is one turn depends on the node: the claim is the same.
	return d.MIG == "" && d.MemoryMiB == 0 && d.ComputeMilli == 0
}

// countedClaims counts each vendor's devices, and parts of them, of a pod as far as they can be read.
func countedClaims(pod *v1.Pod) []ledger.Claim {
	var out []ledger.Claim
	for _, vendor := range model.Vendors {
		whole, parts := model.Request{Vendor: vendor}, model.Request{Vendor: vendor}
		_ = eachContainer(pod, func(c *v1.Container, path string, phase model.Phase) error {
			sold := ResourceOf(vendor)
			q, _, _ := amount(c, path, sold)
			n := int(max(0, min(q.Value(), model.MaxDevices)))
			for _, v := range vocabularies {
				a, err := v.read(pod, c, path)
				switch {
				case err != nil || a == nil || a.vendor != vendor:
				case a.part.Kind != model.Whole:
					parts.Containers = append(parts.Containers, model.Container{Name: c.Name, Phase: phase, Count: a.count, Part: a.part})
					if a.resource == sold {
						n = 0 // HAMi's words make parts of what is counted by the same name
					}
				case a.resource != sold:
					n += a.count
				}
			}
			whole.Containers = append(whole.Containers, model.Container{Name: c.Name, Phase: phase, Count: n})
			return nil
		})
		c := ledger.Claim{
			Holder: holder(string(pod.UID), vendor), Vendor: vendor, Since: BoundSince(pod), Priority: priority(pod),
			Count: min(whole.Count(), model.MaxDevices), Parts: heldParts(&parts, nil),
			Labels: labelsOf(pod), Apart: antiAffinity(pod),
		}
		if c.Count == 0 && len(c.Parts) == 0 {
			continue
		}
		if len(out) == 0 {
			c.Host, c.Extras = podNeeds(pod) // once
		}
		out = append(out, c)
	}
	if len(out) == 0 { // nothing of it is a device, but the rest is used all the same
		return []ledger.Claim{hostClaim(pod)}
	}
	return out
}

// hostClaim is the claim of a pod that holds no device.
func hostClaim(pod *v1.Pod) ledger.Claim {
	c := ledger.Claim{Holder: model.HolderID(pod.UID), Since: BoundSince(pod)}
	c.Host, c.Extras = podNeeds(pod)
	return c
}

// BoundSince is when the pod was bound, in seconds. One that was created with spec.nodeName has no
// such time before kubelet reports it: until then its claim is the youngest.
func BoundSince(pod *v1.Pod) int64 {
	for _, c := range pod.Status.Conditions {
		if c.Type == v1.PodScheduled && c.Status == v1.ConditionTrue {
			return c.LastTransitionTime.Unix()
		}
	}
	return math.MaxInt64
}

// Record assigns the granted devices to the request's containers.
func Record(r *model.Request, n *model.Node, g place.Grant) record.Record {
	rec := record.Record{Node: string(n.ID)}
	whole := r.Share(g.Set)
	for i, c := range r.Containers {
		out := record.Container{Name: c.Name, Resource: c.Resource}
		if r.Kind() == model.Whole {
			for slot := range whole[i].Slots() {
				d := deviceOf(n, slot)
				d.Turn = n.Devices[slot].Replicated
				out.Devices = append(out.Devices, d)
			}
		}
		for _, p := range g.Parts {
			if p.Container != i {
				continue
			}
			d := deviceOf(n, p.Slot)
			d.MemoryMiB, d.ComputeMilli, d.Turn, d.MIG, d.Start = int64(p.Memory), p.Part.Milli, p.Part.Turn, p.Part.Profile, p.Start
			out.Devices = append(out.Devices, d)
		}
		if len(out.Devices) > 0 {
			rec.Containers = append(rec.Containers, out)
		}
	}
	return rec
}

func deviceOf(n *model.Node, slot int) record.Device {
	return record.Device{Index: n.Devices[slot].Index, UUID: n.Devices[slot].UUID}
}

// Annotations are what device plugins of the pod's vocabularies read of its placement, besides the record.
func Annotations(pod *v1.Pod, r *model.Request, n *model.Node, g place.Grant, now time.Time) map[string]string {
	out := map[string]string{}
	for _, v := range vocabularies {
		if v.annotate == nil || !speaks(v, pod) {
			continue
		}
		maps.Copy(out, v.annotate(placed{pod, r, n, g, now}))
	}
	return out
}

// speaks says whether a pod uses a vocabulary.
func speaks(v *vocabulary, pod *v1.Pod) bool {
	used := false
	_ = eachContainer(pod, func(c *v1.Container, path string, _ model.Phase) error {
		a, err := v.read(pod, c, path)
		used = used || err == nil && a != nil
		return nil
	})
	return used
}
