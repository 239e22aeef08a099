package dialect

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/core/model"
)

// slicePrefix begins the resources of MIG instances: nvidia.com/mig-1g.10gb.
const slicePrefix = "nvidia.com/mig-"

func readSlices(_ *v1.Pod, c *v1.Container, path string) (*ask, error) {
	var found *ask
	for _, name := range named(c, slicePrefix) {
		profile := strings.TrimPrefix(string(name), slicePrefix)
		w := &words{c: c, path: path}
		n, field, ok := w.number(name, 0, maxCount)
		if w.err != nil {
			return nil, w.err
		}
		if !ok || n == 0 {
			continue
		}
		if found != nil {
			return nil, fmt.Errorf("%s: two MIG profiles in one container, the other is %s", field, found.field)
		}
		if !isProfile(profile) {
			return nil, fmt.Errorf("%s: %q is not a MIG profile like 1g.10gb", field, profile)
		}
		found = &ask{vendor: model.NVIDIA, resource: name, count: int(n), field: field, part: model.Part{Kind: model.Slice, Profile: profile}}
	}
	return found, nil
}

// sliceDevices are the MIG instances that a device plugin publishes, each a device that can be cut in one way.
func sliceDevices(node *v1.Node) (*registration, error) {
	reg := &registration{more: true}
	for _, name := range slices.Sorted(maps.Keys(node.Status.Allocatable)) {
		profile, ok := strings.CutPrefix(string(name), slicePrefix)
		if !ok || !isProfile(profile) {
			continue
		}
		n := quantity(node.Status.Allocatable, name)
		if int(n) > maxCount-len(reg.devices) {
			return nil, fmt.Errorf("status.allocatable[%s]: %d instances in all, at most %d", name, int(n)+len(reg.devices), maxCount)
		}
		for range n {
			reg.devices = append(reg.devices, model.Device{
				Vendor: model.NVIDIA, Model: labelledModel(node, model.NVIDIA), NUMA: model.NUMAUnknown,
				MIG: []model.MIGProfile{{Name: profile, Size: 1, Starts: []int{0}}}, MIGSlices: 1, Fixed: true,
			})
		}
	}
	return reg, nil
}

// isProfile checks the form of a profile's name, 1g.10gb or 1g.5gb.me: a record cannot hold others.
func isProfile(s string) bool {
	compute, rest, ok := strings.Cut(s, "g.")
	if !ok || compute == "" || strings.Trim(compute, "0123456789") != "" {
		return false
	}
	memory, extra, ok := strings.Cut(rest, "gb")
	return ok && memory != "" && strings.Trim(memory, "0123456789") == "" && len(s) <= 32 &&
		(extra == "" || len(extra) > 1 && strings.ContainsAny(extra[:1], ".+-") && strings.Trim(extra[1:], "abcdefghijklmnopqrstuvwxyz.") == "")
}
