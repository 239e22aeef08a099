package publish

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/internal/agent/device"
)

// Limits of the GPUNode's schema. What a driver reports beyond them is left out or cut:
// the API server would refuse the whole object.
const (
	maxDevices   = 16
	maxProfiles  = 32
	maxInstances = 8
	maxLinks     = 128
	maxName      = 128
	maxReason    = 1024
	maxCause     = 64
	maxMemoryMiB = 16777216
	maxNUMA      = 63
	maxOver      = 16
)

var (
	vendors     = []string{"nvidia", "amd", "intel", "ascend"}
	linkClasses = []string{"NVSwitch", "NVLink", "PIX", "PXB", "PHB", "NODE", "SYS"}
	uuidForm    = regexp.MustCompile(`^[A-Za-z0-9._:/-]{1,128}$`)
)

// specOf is the inventory as a GPUNode says it, and what could not be said. owned says
// which MIG instances the agent made, by UUID.
func specOf(o *Options, inv *device.Inventory, owned map[string]bool) (v1alpha1.GPUNodeSpec, []string) {
	spec := v1alpha1.GPUNodeSpec{Devices: []v1alpha1.Device{}, Sharing: o.Sharing, Agent: &v1alpha1.Agent{Version: clip(o.Version, maxName), Mode: o.Mode}}
	if inv == nil {
		return spec, nil
	}
	var left []string
	if inv.Driver != "" || inv.CUDA != "" {
		spec.Driver = &v1alpha1.Driver{Version: clip(inv.Driver, 64), CUDA: clip(inv.CUDA, 64)}
	}
	uuids := map[string]bool{}
	for i := range inv.Devices {
		d := &inv.Devices[i]
		if why := unpublishable(d, spec.Devices, uuids); why != "" {
			left = append(left, why)
			continue
		}
		uuids[d.UUID] = true
		spec.Devices = append(spec.Devices, deviceOf(d, owned))
	}
	for _, l := range inv.Links {
		if link, ok := linkOf(l, spec.Devices); ok && len(spec.Links) < maxLinks {
			spec.Links = append(spec.Links, link)
		}
	}
	return spec, left
}

// unpublishable says why a device cannot be in a GPUNode; empty when it can.
func unpublishable(d *device.Device, before []v1alpha1.Device, uuids map[string]bool) string {
	switch {
	case d.Index < 0 || d.Index >= maxDevices || len(before) == maxDevices:
		return fmt.Sprintf("device %d: a GPUNode has devices 0 to %d", d.Index, maxDevices-1)
	case slices.ContainsFunc(before, func(o v1alpha1.Device) bool { return int(o.Index) == d.Index }):
		return fmt.Sprintf("device %d: the driver lists the index twice", d.Index)
	case d.UUID != "" && uuids[d.UUID]:
		return fmt.Sprintf("device %d: the driver lists UUID %s twice", d.Index, d.UUID)
	case !slices.Contains(vendors, d.Vendor):
		return fmt.Sprintf("device %d: %q is not a vendor", d.Index, d.Vendor)
	}
	return ""
}

func deviceOf(d *device.Device, owned map[string]bool) v1alpha1.Device {
	out := v1alpha1.Device{
		Index: int32(d.Index), Vendor: d.Vendor, Model: clip(cmp.Or(strings.TrimSpace(d.Model), "unknown"), maxName),
		MemoryMiB: min(max(1, d.MemoryMiB), maxMemoryMiB), SMs: natural(d.SMs), PCIBusID: clip(d.PCIBusID, 32),
		PCIeGeneration: natural(d.PCIeGen), PCIeLanes: natural(d.PCIeWidth), NVLinks: natural(d.NVLinks),
		ComputeCapability: clip(d.ComputeCapability, 16), Fabric: clip(d.Fabric, maxName),
	}
	if uuidForm.MatchString(d.UUID) {
		out.UUID = d.UUID
	}
	if d.NUMA >= 0 && d.NUMA <= maxNUMA {
		numa := int32(d.NUMA)
		out.NUMA = &numa
	}
	if m := d.MIG; m != nil {
		out.MIG = &v1alpha1.MIG{Enabled: m.Enabled}
		for _, p := range m.Profiles {
			if profile, ok := profileOf(p); ok && len(out.MIG.Profiles) < maxProfiles {
				out.MIG.Profiles = append(out.MIG.Profiles, profile)
			}
		}
		for _, in := range m.Instances {
			if instance, ok := instanceOf(in, owned); ok && len(out.MIG.Instances) < maxInstances {
				out.MIG.Instances = append(out.MIG.Instances, instance)
			}
		}
	}
	return out
}

func profileOf(p device.Profile) (out v1alpha1.MIGProfile, ok bool) {
	if p.ID < 0 || p.Name == "" || p.Size < 1 || p.Size > 8 || len(p.Starts) > 8 {
		return out, false
	}
	out = v1alpha1.MIGProfile{Name: clip(p.Name, 32), ID: natural(p.ID), MemoryMiB: max(1, p.MemoryMiB), Size: int32(p.Size), Starts: []int32{}}
	for _, s := range p.Starts {
		out.Starts = append(out.Starts, natural(s))
	}
	return out, true
}

func instanceOf(in device.Instance, owned map[string]bool) (out v1alpha1.MIGInstance, ok bool) {
	if in.Profile == "" || in.Start < 0 || in.Start > 7 || in.ProfileID < 0 {
		return out, false
	}
	id := natural(in.ProfileID)
	out = v1alpha1.MIGInstance{Profile: clip(in.Profile, 32), ProfileID: &id, Start: int32(in.Start), Owned: in.UUID != "" && owned[in.UUID]}
	if uuidForm.MatchString(in.UUID) {
		out.UUID = in.UUID
	}
	return out, true
}

func linkOf(l device.Link, devices []v1alpha1.Device) (out v1alpha1.Link, ok bool) {
	out = v1alpha1.Link{Class: v1alpha1.LinkClass(l.Class), Count: min(natural(l.Count), 64)}
	for _, index := range l.Between {
		if !slices.ContainsFunc(devices, func(d v1alpha1.Device) bool { return int(d.Index) == index }) || slices.Contains(out.Between, int32(index)) {
			continue
		}
		out.Between = append(out.Between, int32(index))
	}
	return out, len(out.Between) > 1 && slices.Contains(linkClasses, l.Class)
}

// statusOf is health and telemetry as a GPUNode says it, of the devices of its spec. The
// conditions' times are for the caller to set.
func statusOf(s *state, devices []v1alpha1.Device) (out v1alpha1.GPUNodeStatus) {
	var sick []string
	for _, d := range devices {
		status := v1alpha1.DeviceStatus{Index: d.Index, UUID: d.UUID, Health: v1alpha1.Healthy}
		if s.problem != nil {
			status.Health, status.Reason = v1alpha1.Failed, clip(s.problem.Message, maxReason)
			status.Since = timeOf(s.problem.Since)
		} else if h := s.health[d.UUID]; h != nil {
			status.Health, status.Reason, status.Since = stateOf(h), clip(h.Reason, maxReason), timeOf(h.Since)
			status.Cause = clip(h.Cause, maxCause)
			if h.LastXID > 0 {
				xid := natural(h.LastXID)
				status.LastXID = &xid
			}
		}
		if status.Health != v1alpha1.Healthy {
			sick = append(sick, strings.TrimSuffix(fmt.Sprintf("device %d is %s: %s", d.Index, status.Health, status.Reason), ": "))
		}
		if s.problem == nil {
			readingOf(s, d.UUID).write(&status)
			status.OverMemory = s.over[d.UUID][:min(len(s.over[d.UUID]), maxOver)]
		}
		out.Devices = append(out.Devices, status)
	}
	if at := s.measuredAt(); !at.IsZero() {
		out.MeasuredAt = timeOf(at)
	}
	out.Conditions = conditionsOf(s, len(devices), sick)
	return out
}

// stateOf is a device's state; one that is none counts as failed.
func stateOf(h *Health) v1alpha1.Health {
	switch h.State {
	case "":
		return v1alpha1.Healthy
	case v1alpha1.Healthy, v1alpha1.Suspect, v1alpha1.Degraded, v1alpha1.Failed:
		return h.State
	}
	return v1alpha1.Failed
}

func conditionsOf(s *state, devices int, sick []string) []metav1.Condition {
	driver := metav1.Condition{Type: v1alpha1.DriverReady, Status: metav1.ConditionTrue, Reason: "Answers", Message: "the driver answers"}
	healthy := metav1.Condition{Type: v1alpha1.DevicesHealthy, Status: metav1.ConditionTrue, Reason: "AllHealthy", Message: fmt.Sprintf("%d of %d devices are healthy", devices, devices)}
	if s.inventory != nil && s.inventory.Driver != "" {
		driver.Message = fmt.Sprintf("driver %s, CUDA %s", clip(s.inventory.Driver, 64), cmp.Or(clip(s.inventory.CUDA, 64), "unknown"))
	}
	switch {
	case s.problem != nil:
		driver.Status, driver.Reason, driver.Message = metav1.ConditionFalse, s.problem.Reason, clip(s.problem.Message, maxReason)
		healthy.Status, healthy.Reason, healthy.Message = metav1.ConditionUnknown, s.problem.Reason, "nothing is known of devices without the driver"
	case len(sick) > 0:
		healthy.Status, healthy.Reason, healthy.Message = metav1.ConditionFalse, "DeviceUnhealthy", clip(strings.Join(sick, "; "), 8*maxReason)
	case devices == 0:
		healthy.Reason, healthy.Message = "NoDevices", "the node has no devices"
	}
	return []metav1.Condition{driver, healthy}
}

// setTimes gives each condition the time at which its status became what it is.
func setTimes(conditions, before []metav1.Condition, now time.Time) {
	for i := range conditions {
		c := &conditions[i]
		c.LastTransitionTime = *timeOf(now)
		for _, was := range before {
			if was.Type == c.Type && was.Status == c.Status && !was.LastTransitionTime.IsZero() {
				c.LastTransitionTime = was.LastTransitionTime
			}
		}
	}
}

// clip is a text without what no JSON string holds, and not longer than the schema
// allows.
func clip(s string, most int) string {
	s = strings.ToValidUTF8(s, "?")
	return strings.ToValidUTF8(s[:min(len(s), most)], "") // the last character may be cut in two
}

// natural is a number that is not negative, and fits.
func natural(n int) int32 { return int32(min(max(0, n), math.MaxInt32)) }

// timeOf is a time as the API has it, in whole seconds; nil for none.
func timeOf(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	return &metav1.Time{Time: t.UTC().Truncate(time.Second)}
}
