package property

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/record"
	"github.com/tangram-dev/tangram/core/model"
)

// a100 is how an A100-40GB can be cut, written down from NVIDIA's table.
var a100 = map[string]struct {
	size   int
	starts []int
}{
	"1g.5gb": {1, []int{0, 1, 2, 3, 4, 5, 6}}, "1g.5gb.me": {1, []int{0, 1, 2, 3, 4, 5, 6}}, "1g.10gb": {2, []int{0, 2, 4, 6}},
	"2g.10gb": {2, []int{0, 2, 4}}, "3g.20gb": {4, []int{0, 4}}, "4g.20gb": {4, []int{0}}, "7g.40gb": {8, []int{0}},
}

// load is what a pod takes of a device at one moment.
type load struct {
	memory, milli, tenants int64
	// alone: a container wants all compute.
	alone bool
}

func (a load) plus(b load) load {
	return load{a.memory + b.memory, a.milli + b.milli, a.tenants + b.tenants, a.alone || b.alone}
}

func (a load) max(b load) load {
	return load{max(a.memory, b.memory), max(a.milli, b.milli), max(a.tenants, b.tenants), a.alone || b.alone}
}

// slice is a MIG instance that a pod was given.
type slice struct {
	pod, profile string
	start        int
}

// use is what all pods together take of a device, as their records say.
type use struct {
	whole  []string
	shares map[string]load // peak of each pod
	slices []slice
}

// tally adds up the records of a node's pods, device by device. It reads pods only,
// neither claims nor the ledger.
func tally(pods []*v1.Pod) (map[int]*use, error) {
	out := map[int]*use{}
	at := func(index int) *use {
		if out[index] == nil {
			out[index] = &use{shares: map[string]load{}}
		}
		return out[index]
	}
	for _, p := range pods {
		rec, err := record.Decode(p.Annotations[names.AnnotationDevices])
		if err != nil {
			return nil, err
		}
		for index := range indexes(rec) {
			peak, steady, sidecars := load{}, load{}, load{}
			var wholeSteady, wholeSidecars, whole int
			visit := func(c *v1.Container, init bool) {
				sidecar := init && c.RestartPolicy != nil
				var now load
				wholeNow := 0
				for _, d := range devicesOf(rec, c.Name) {
					switch {
					case d.Index != index:
					case d.MIG != "":
						at(index).slices = append(at(index).slices, slice{p.Name, strings.ReplaceAll(d.MIG, "+", "."), d.Start})
					case d.MemoryMiB == 0 && d.ComputeMilli == 0 && !d.Turn:
						wholeNow++
					default:
						now = now.plus(load{d.MemoryMiB, int64(d.ComputeMilli), 1, d.ComputeMilli == 1000})
					}
				}
				if init && !sidecar {
					peak, whole = peak.max(sidecars.plus(now)), max(whole, wholeSidecars+wholeNow)
					return
				}
				if sidecar {
					sidecars, wholeSidecars = sidecars.plus(now), wholeSidecars+wholeNow
				}
				steady, wholeSteady = steady.plus(now), wholeSteady+wholeNow
			}
			for i := range p.Spec.InitContainers {
				visit(&p.Spec.InitContainers[i], true)
			}
			for i := range p.Spec.Containers {
				visit(&p.Spec.Containers[i], false)
			}
			if peak = peak.max(steady); peak.tenants > 0 {
				at(index).shares[p.Name] = peak
			}
			for range max(whole, wholeSteady) { // twice when two of its containers have it at once
				at(index).whole = append(at(index).whole, p.Name)
			}
		}
	}
	return out, nil
}

func indexes(rec record.Record) map[int]bool {
	out := map[int]bool{}
	for _, c := range rec.Containers {
		for _, d := range c.Devices {
			out[d.Index] = true
		}
	}
	return out
}

func devicesOf(rec record.Record, container string) []record.Device {
	for _, c := range rec.Containers {
		if c.Name == container {
			return c.Devices
		}
	}
	return nil
}

// check says what is wrong with the use of a device.
func (u *use) check(d model.Device) error {
	ways := 0
	for _, n := range []int{len(u.whole), len(u.shares), len(u.slices)} {
		if n > 0 {
			ways++
		}
	}
	switch {
	case len(u.whole) > 1:
		return fmt.Errorf("held whole by %v", u.whole)
	case ways > 1:
		return fmt.Errorf("held whole by %v, shared by %v and cut for %v", u.whole, u.shares, u.slices)
	case d.Fixed && len(u.slices) == 0 && ways > 0:
		return fmt.Errorf("cut for good, held whole by %v, shared by %v", u.whole, u.shares)
	}
	sum := load{}
	for pod, l := range u.shares {
		sum = sum.plus(l)
		if l.alone && len(u.shares) > 1 {
			return fmt.Errorf("%s asks for all compute and is not alone: %v", pod, u.shares)
		}
	}
	if sum.memory > int64(d.Memory) || sum.milli > 1000 || d.Tenants > 0 && sum.tenants > int64(d.Tenants) {
		return fmt.Errorf("over-committed: %+v of %d MiB and %d tenants: %v", sum, d.Memory, d.Tenants, u.shares)
	}
	return nil
}

// checkCuts says whether a device's slices are legal beside each other. listed are
// the starts its agent gives; nil for all of an A100's.
func checkCuts(slices_ []slice, listed func(profile string, start int) bool) error {
	var taken [8]string
	media := 0
	for _, s := range slices_ {
		shape, ok := a100[s.profile]
		if !ok || !slices.Contains(shape.starts, s.start) || !listed(s.profile, s.start) {
			return fmt.Errorf("%s was given %s at %d, where it cannot be", s.pod, s.profile, s.start)
		}
		for i := s.start; i < s.start+shape.size; i++ {
			if taken[i] != "" {
				return fmt.Errorf("slice %d is %s's and %s's", i, taken[i], s.pod)
			}
			taken[i] = s.pod
		}
		if strings.HasSuffix(s.profile, ".me") {
			media++
		}
	}
	if media > 1 {
		return fmt.Errorf("%d instances with media engines", media)
	}
	return nil
}
