package devicemanager

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/record"
)

// bind makes a random pod with a record on devices that no record names; nil when there
// is no room. Some pods are of a scheduler that writes no records.
func (w *world) bind(hasty bool) *v1.Pod {
	w.serial++
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("pod-%d", w.serial), UID: types.UID(fmt.Sprintf("uid-%d", w.serial)),
			CreationTimestamp: metav1.NewTime(time.Unix(int64(w.serial), 0)), Annotations: map[string]string{}},
		Spec: v1.PodSpec{NodeName: node, Containers: []v1.Container{{Name: "plain"}}},
	}
	if hasty {
		p.Labels = map[string]string{hastily: "true"}
	}
	r := record.Record{Node: node}
	what := []string{gpu, gpu, gpu, shared, small, large}[w.rng.IntN(6)]
	var taken []part
	for _, q := range w.api.podsByUID() {
		taken = append(taken, recorded(q)...)
	}
	add := func(name string, init bool, always bool, from []record.Device, n int) []record.Device {
		var got []record.Device
		if from == nil {
			got = w.pick(what, n, &taken)
		} else {
			got = from[:n]
		}
		if got == nil {
			return nil
		}
		c := v1.Container{Name: name, Resources: v1.ResourceRequirements{Limits: v1.ResourceList{v1.ResourceName(what): *resource.NewQuantity(int64(n), resource.DecimalSI)}}}
		if always {
			policy := v1.ContainerRestartPolicyAlways
			c.RestartPolicy = &policy
		}
		if init || always {
			p.Spec.InitContainers = append(p.Spec.InitContainers, c)
		} else {
			p.Spec.Containers = append(p.Spec.Containers, c)
		}
		r.Containers = append(r.Containers, record.Container{Name: name, Resource: what, Devices: got})
		return got
	}
	n := 1 + w.rng.IntN(2)
	main := w.pick(what, n, &taken)
	if main == nil {
		return nil
	}
	if w.rng.IntN(5) == 0 {
		add("warmup", true, false, main, 1+w.rng.IntN(n))
	}
	if w.rng.IntN(10) == 0 {
		add("side", false, true, nil, 1)
	}
	add("main", false, false, main, n)
	if w.rng.IntN(5) == 0 {
		add("second", false, false, nil, 1)
	}
	if w.rng.IntN(12) != 0 || what == shared { // no record could name two turns on one GPU
		text, err := record.Encode(r)
		if err != nil {
			w.t.Fatal(err)
		}
		p.Annotations[names.AnnotationDevices] = text
	}
	w.api.create(p)
	w.tell("%s is bound, hasty %v: %s", p.Name, hasty, p.Annotations[names.AnnotationDevices])
	return p
}

// pick chooses devices that no record names.
func (w *world) pick(what string, n int, taken *[]part) []record.Device {
	var all []record.Device
	for _, d := range inventory().Devices {
		for _, start := range []int{0, 1, 2, 3, 4, 5, 6} {
			v := record.Device{Index: d.Index, UUID: d.UUID}
			switch {
			case what == small && d.MIG != nil:
				v.MIG, v.Start = "1g.18gb", start
			case what == large && d.MIG != nil && start%4 == 0:
				v.MIG, v.Start = "3g.71gb", start
			case what == shared && d.MIG == nil && start == 0:
				v.Turn = true
			case what == gpu && d.MIG == nil && start == 0:
			default:
				continue
			}
			all = append(all, v)
		}
	}
	w.rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	var out []record.Device
	for _, d := range all {
		p := partOf(d.UUID, d.MIG, d.Start, d.Turn)
		turns := 0
		for _, t := range *taken {
			if t.turns && t.gpu == p.gpu {
				turns++
			}
		}
		if len(out) < n && !clash([]part{p}, *taken) && turns < 4 {
			out = append(out, d)
			*taken = append(*taken, p)
		}
	}
	if len(out) < n {
		return nil
	}
	return out
}

// isTrue says in what a pod's record differs from what kubelet gave it.
func (w *world) isTrue(p *v1.Pod) error {
	r := recordOf(p)
	if r == nil {
		return fmt.Errorf("%s has no record", p.Name)
	}
	if was, ok := w.lost[string(p.UID)]; ok {
		if now := p.Annotations[names.AnnotationDevices]; now != was {
			return fmt.Errorf("kubelet has lost %s; its record was %s and is %s", p.Name, was, now)
		}
		return nil
	}
	for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		if slices.ContainsFunc(p.Spec.InitContainers, func(i v1.Container) bool { return i.Name == c.Name && !sidecar(&i) }) {
			continue // only the agent that answered knows; what it says must be the pod's
		}
		var have, want []string
		for _, devices := range w.kubelet.manager.GetDevices(string(p.UID), c.Name) {
			for id := range devices {
				have = append(have, strip(id))
			}
		}
		for _, rc := range r.Containers {
			if rc.Name != c.Name {
				continue
			}
			for _, d := range rc.Devices {
				id := d.UUID
				if d.MIG != "" {
					id = fmt.Sprintf("%s::mig-%s@%d", d.UUID, d.MIG, d.Start)
				} else if d.Turn {
					id += "::"
				}
				want = append(want, id)
			}
		}
		slices.Sort(have)
		slices.Sort(want)
		if !slices.Equal(have, want) {
			return fmt.Errorf("%s, container %s has %v, its record says %v", p.Name, c.Name, have, want)
		}
	}
	var all []part
	for _, h := range w.held(p) {
		id := h[strings.LastIndex(h, " ")+1:]
		uuid, _, turn := strings.Cut(id, "::")
		x := partOf(uuid, "", 0, turn)
		if i := strings.Index(id, "mig-"); i >= 0 {
			profile, start, _ := strings.Cut(id[i+4:], "@")
			n, _ := strconv.Atoi(start)
			x = partOf(uuid, profile, n, false)
		}
		all = append(all, x)
	}
	for _, x := range recorded(p) {
		if !slices.Contains(all, x) {
			return fmt.Errorf("%s has %v, its record says %v too", p.Name, all, x)
		}
	}
	return nil
}

// strip leaves the number of a turn out: records do not have it.
func strip(id string) string {
	if uuid, rest, ok := strings.Cut(id, "::"); ok && !strings.HasPrefix(rest, "mig-") {
		return uuid + "::"
	}
	return id
}
