package dialect

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/record"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/place"
)

// Holders are the names under which a pod's claims are in the ledger: its UID
// for the first vendor, and one more for each other vendor of a pod that Tangram
// itself would have refused.
func Holders(pod *v1.Pod) []model.HolderID {
	out := []model.HolderID{model.HolderID(pod.UID)}
	for _, v := range model.Vendors {
		out = append(out, holder(pod, v))
	}
	return out
}

func holder(pod *v1.Pod, v model.Vendor) model.HolderID {
	return model.HolderID(string(pod.UID) + "/" + string(v))
}

// Claims reads what a bound pod holds. Its record counts only where it agrees
// with the pod's own request; otherwise the pod is counted by its request, with
// devices unknown, and the error says what is wrong with the record.
func Claims(pod *v1.Pod) ([]ledger.Claim, error) {
	r, err := Request(pod)
	if err != nil {
		// Somebody else placed a pod Tangram would have refused. It still holds
		// devices.
		return countedClaims(pod), nil
	}
	if r == nil {
		return nil, nil
	}
	c := ledger.Claim{Holder: model.HolderID(pod.UID), Vendor: r.Vendor, Count: r.Count(), Since: boundSince(pod), Priority: r.Priority}
	text, ok := pod.Annotations[names.AnnotationDevices]
	if !ok {
		return []ledger.Claim{c}, nil
	}
	c.Devices, err = proven(pod, r, text)
	return []ledger.Claim{c}, err
}

// proven returns the devices a record names, if it agrees with the request.
func proven(pod *v1.Pod, r *model.Request, text string) ([]ledger.DeviceRef, error) {
	rec, err := record.Decode(text)
	if err != nil {
		return nil, err
	}
	disagree := func(format string, args ...any) ([]ledger.DeviceRef, error) {
		return nil, fmt.Errorf("%s: %s; the pod is counted by its request", names.AnnotationDevices, fmt.Sprintf(format, args...))
	}
	if rec.Node != pod.Spec.NodeName {
		return disagree("node: %q, but the pod is bound to %q", rec.Node, pod.Spec.NodeName)
	}
	byName := map[string]*record.Container{}
	for i := range rec.Containers {
		byName[rec.Containers[i].Name] = &rec.Containers[i]
	}
	var devices []ledger.DeviceRef
	for _, c := range r.Containers {
		if c.Count == 0 {
			continue
		}
		got := byName[c.Name]
		switch {
		case got == nil:
			return disagree("containers: %q asks for %d GPUs and is not listed", c.Name, c.Count)
		case got.Resource != resourceOf(r.Vendor):
			return disagree("containers: %q was given %s, but asks for %s", c.Name, got.Resource, resourceOf(r.Vendor))
		case len(got.Devices) != c.Count:
			return disagree("containers: %q was given %d devices, but asks for %d", c.Name, len(got.Devices), c.Count)
		}
		delete(byName, c.Name)
		for _, d := range got.Devices {
			ref := ledger.DeviceRef{Index: d.Index, UUID: d.UUID}
			if !slices.Contains(devices, ref) {
				devices = append(devices, ref)
			}
		}
	}
	if len(byName) > 0 {
		return disagree("containers: lists containers that ask for no GPU")
	}
	if len(devices) != r.Count() {
		return disagree("containers: %d devices in all, but the pod holds %d", len(devices), r.Count())
	}
	return devices, nil
}

// countedClaims counts each vendor's devices of a pod as far as they can be
// read.
func countedClaims(pod *v1.Pod) []ledger.Claim {
	var out []ledger.Claim
	for _, w := range whole {
		r := model.Request{Vendor: w.vendor}
		_ = eachContainer(pod, func(c *v1.Container, path string, phase model.Phase) error {
			q, field, _ := amount(c, path, w.resource)
			n, err := count(q, field)
			if err != nil {
				n = 0
			}
			r.Containers = append(r.Containers, model.Container{Name: c.Name, Phase: phase, Count: n})
			return nil
		})
		if n := r.Count(); n > 0 {
			out = append(out, ledger.Claim{Holder: holder(pod, w.vendor), Vendor: w.vendor, Count: n, Since: boundSince(pod)})
		}
	}
	return out
}

// boundSince is when the pod was bound, in seconds, as the API tells it.
func boundSince(pod *v1.Pod) int64 {
	for _, c := range pod.Status.Conditions {
		if c.Type == v1.PodScheduled && c.Status == v1.ConditionTrue {
			return c.LastTransitionTime.Unix()
		}
	}
	return pod.CreationTimestamp.Unix()
}

// Record writes down who was given what: the granted devices, shared out to the
// request's containers.
func Record(r *model.Request, n *model.Node, g place.Grant) record.Record {
	rec := record.Record{Node: string(n.ID)}
	for i, share := range r.Share(g.Set) {
		if share == 0 {
			continue
		}
		c := record.Container{Name: r.Containers[i].Name, Resource: resourceOf(r.Vendor)}
		for slot := range share.Slots() {
			c.Devices = append(c.Devices, record.Device{Index: n.Devices[slot].Index, UUID: n.Devices[slot].UUID})
		}
		rec.Containers = append(rec.Containers, c)
	}
	return rec
}

// ClaimOf is the claim a pod has once it is given devices. It is assumed until the
// API shows it.
func ClaimOf(pod *v1.Pod, r *model.Request, n *model.Node, g place.Grant) ledger.Claim {
	c := g.Claim(model.HolderID(pod.UID), r, n)
	c.Assumed = true
	return c
}
