package dra

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/record"
)

// held is one hold on a card, as the API shows it.
type held struct {
	card, by string
	// slices are the memory slices of a MIG instance, memory the MiB of a share; neither:
	// the whole card.
	slices []int
	memory int64
}

// judgement is what the API shows of which pod and claim holds which card, read without Tangram's code but for
// the record's format.
type judgement struct {
	holds []held
	// claims are the cards of each allocated claim, planned those that pods' annotations
	// say were planned for their claims, allocated those of the same pods' claims.
	planned, allocated map[string][]string
}

// judge reads all pods, claims and slices.
func (w *world) judge() judgement {
	w.T.Helper()
	ctx := context.Background()
	published, err := w.Client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{})
	w.Must(err)
	claims, err := w.Client.ResourceV1().ResourceClaims("").List(ctx, metav1.ListOptions{})
	w.Must(err)
	pods := w.Within("").Pods("")
	devices := map[string]*resourceapi.Device{}
	for i := range published.Items {
		s := &published.Items[i].Spec
		for j := range s.Devices {
			devices[s.Driver+"|"+s.Pool.Name+"|"+s.Devices[j].Name] = &s.Devices[j]
		}
	}
	out := judgement{planned: map[string][]string{}, allocated: map[string][]string{}}
	byClaim := map[string][]string{}
	for i := range claims.Items {
		c := &claims.Items[i]
		if c.Status.Allocation == nil {
			continue
		}
		for _, r := range c.Status.Allocation.Devices.Results {
			d := devices[r.Driver+"|"+r.Pool+"|"+r.Device]
			if d == nil {
				w.T.Errorf("claim %s has device %s, which nothing publishes", c.Name, r.Device)
				continue
			}
			if r.AdminAccess != nil && *r.AdminAccess {
				continue
			}
			h := held{card: text(d, "uuid"), by: "claim " + c.Namespace + "/" + c.Name}
			if text(d, "type") == "mig" {
				h.card = text(d, "parentUUID")
				for _, k := range d.ConsumesCounters {
					for name := range k.Counters {
						var n int
						if _, err := fmt.Sscanf(name, "memory-slice-%d", &n); err == nil {
							h.slices = append(h.slices, n)
						}
					}
				}
			}
			if r.ShareID != nil {
				q := r.ConsumedCapacity["memory"]
				h.memory = q.Value() >> 20
			}
			out.holds = append(out.holds, h)
			byClaim[c.Namespace+"/"+c.Name] = append(byClaim[c.Namespace+"/"+c.Name], h.card)
		}
	}
	for i := range pods {
		p := &pods[i]
		if p.Spec.NodeName == "" || p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed {
			continue
		}
		key := p.Namespace + "/" + p.Name
		if note := p.Annotations[names.AnnotationClaims]; note != "" {
			out.planned[key] = cardsOf(w, note)
			for _, s := range p.Status.ResourceClaimStatuses {
				out.allocated[key] = append(out.allocated[key], byClaim[p.Namespace+"/"+*s.ResourceClaimName]...)
			}
			for _, c := range p.Spec.ResourceClaims {
				if c.ResourceClaimName != nil {
					out.allocated[key] = append(out.allocated[key], byClaim[p.Namespace+"/"+*c.ResourceClaimName]...)
				}
			}
			slices.Sort(out.allocated[key])
		}
		if note := p.Annotations[names.AnnotationDevices]; note != "" && p.Status.ExtendedResourceClaimStatus == nil {
			rec, err := record.Decode(note)
			if err != nil {
				w.T.Errorf("pod %s: %v", key, err)
				continue
			}
			for _, c := range rec.Containers {
				for _, d := range c.Devices {
					out.holds = append(out.holds, held{card: d.UUID, by: "pod " + key, memory: d.MemoryMiB})
				}
			}
		}
	}
	return out
}

func cardsOf(w *world, note string) (out []string) {
	rec, err := record.Decode(note)
	if err != nil {
		w.T.Errorf("annotation: %v", err)
	}
	for _, c := range rec.Containers {
		for _, d := range c.Devices {
			out = append(out, d.UUID)
		}
	}
	slices.Sort(out)
	return out
}

func text(d *resourceapi.Device, name string) string {
	if a := d.Attributes[resourceapi.QualifiedName(name)]; a.StringValue != nil {
		return *a.StringValue
	}
	return ""
}

// conflicts are the cards that are held twice, and the plans that were not followed.
func (j *judgement) conflicts() (out []string) {
	byCard := map[string][]held{}
	for _, h := range j.holds {
		byCard[h.card] = append(byCard[h.card], h)
	}
	for _, card := range slices.Sorted(maps.Keys(byCard)) {
		if list := byCard[card]; !share(list) {
			out = append(out, fmt.Sprintf("card %s: %v", card, list))
		}
	}
	for _, pod := range slices.Sorted(maps.Keys(j.planned)) {
		if want, got := strings.Join(j.planned[pod], " "), strings.Join(j.allocated[pod], " "); want != got {
			out = append(out, fmt.Sprintf("pod %s: planned %s, allocated %s", pod, want, got))
		}
	}
	return out
}

// share says whether several may have a card: disjoint MIG instances, or shares that fit.
func share(list []held) bool {
	if len(list) < 2 {
		return true
	}
	used, memory := map[int]bool{}, int64(0)
	for _, h := range list {
		switch {
		case len(h.slices) > 0:
			for _, s := range h.slices {
				if used[s] {
					return false
				}
				used[s] = true
			}
		case h.memory > 0:
			memory += h.memory
		default:
			return false
		}
	}
	return (len(used) == 0 || memory == 0) && memory <= 80*1024
}

// sound fails the test when a card is held twice.
func (w *world) sound() judgement {
	w.T.Helper()
	j := w.judge()
	for _, c := range j.conflicts() {
		w.T.Error(c)
	}
	return j
}
