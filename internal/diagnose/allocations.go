package diagnose

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// startsWithin is how long a pod that is bound may take to run before it is called stuck, and
// goesWithin how long after its grace period one that is deleted may still be there.
const (
	startsWithin = 10 * time.Minute
	goesWithin   = time.Minute
)

// allocations: records of pods agree with each other, with the devices and with kubelet.
func allocations(f *Facts) Result {
	var x finding
	whole, shared := map[string][]string{}, map[string][]string{}
	asking, recorded := 0, 0
	for _, p := range f.Pods {
		switch {
		case p.RecordError != "":
			x.add(Fail, describePod(p)+"; delete the pod, its owner makes it anew", "the record of pod %s is invalid: %s", p.Name, p.RecordError)
		case p.AskError != "":
			x.add(Warn, describePod(p), "pod %s: %s", p.Name, p.AskError)
		}
		if p.Asks {
			asking++
		}
		if p.Asks && !p.Record && p.RecordError == "" {
			if p.Ours {
				x.add(Fail, describePod(p)+"; delete the pod, its owner makes it anew", "pod %s holds GPUs and has no record", p.Name)
			} else {
				x.add(Warn, "let Tangram place it (schedulerName), or expect kubelet's choice of devices to differ from Tangram's plan", "pod %s holds GPUs and has no record: another scheduler placed it", p.Name)
			}
		}
		if !p.Record {
			continue
		}
		recorded++
		for _, h := range p.Held {
			key, into := "device "+itoa(h.Index), shared
			if d := find(f.GPUs, h); d != nil {
				key = "device " + itoa(d.Index)
			} else if f.GPUs != nil {
				x.add(Fail, "the device was replaced or renumbered: delete the pod, its owner makes it anew", "pod %s holds device %d (%s), which the node does not have", p.Name, h.Index, h.UUID)
				continue
			}
			if h.Whole {
				into = whole
			}
			into[key] = append(into[key], p.Name)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(whole)) {
		holders := append(slices.Clone(whole[key]), shared[key]...)
		if len(holders) > 1 {
			x.add(Fail, "the younger pod has to go: kubectl delete pod; the scheduler does so after 30s where an agent corrects records (docs/runbooks/GPUContestedRecords.md)", "%s is held whole by %s", key, strings.Join(holders, " and "))
		}
	}
	return x.result(fmt.Sprintf("pods that ask for GPUs: %d, records: %d; no device is held twice", asking, recorded))
}

func describePod(p Pod) string {
	ns, name, _ := strings.Cut(p.Name, "/")
	return "kubectl -n " + ns + " describe pod " + name
}

func find(g *GPUs, h Held) *Device {
	if g == nil {
		return nil
	}
	for _, d := range g.Devices {
		if h.UUID != "" && d.UUID != "" && d.UUID == h.UUID || (h.UUID == "" || d.UUID == "") && d.Index == h.Index {
			return &d
		}
	}
	return nil
}

// stuck: pods that hold devices and neither run nor go.
func stuck(f *Facts) Result {
	var x finding
	holding := 0
	for _, p := range f.Pods {
		if !p.Asks && !p.Record && !p.ByClaim {
			continue
		}
		holding++
		ns, name, _ := strings.Cut(p.Name, "/")
		switch {
		case !p.DeleteBy.IsZero() && f.Now.Sub(p.DeleteBy) > goesWithin:
			x.add(Fail, fmt.Sprintf("kubectl -n %s get pod %s -o jsonpath='{.metadata.finalizers}'; if kubelet is gone: kubectl -n %s delete pod %s --force --grace-period=0", ns, name, ns, name),
				"pod %s was to end %s and still holds its devices", p.Name, f.ago(p.DeleteBy))
		case p.DeleteBy.IsZero() && !p.Started && !p.BoundAt.IsZero() && f.Now.Sub(p.BoundAt) > startsWithin:
			x.add(Warn, describePod(p)+": image, volumes, the device plugin's PreStartContainer", "pod %s was bound %s and does not run", p.Name, f.ago(p.BoundAt))
		}
	}
	return x.result(fmt.Sprintf("pods that hold GPUs: %d; none is late to start or to end", holding))
}
