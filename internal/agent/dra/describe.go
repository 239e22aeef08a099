package dra

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/core/health"
	"github.com/tangram-dev/tangram/internal/agent/device"
)

// Taints of devices.
const (
	// TaintHealth has the state as its value: Suspect and Degraded devices get no new
	// claims, and pods are evicted from Failed ones.
	TaintHealth = Driver + "/health"
	// TaintDriver: the GPU driver does not answer, so nothing can be prepared. Pods that
	// run are not evicted: they may well go on.
	TaintDriver = Driver + "/driver"
)

// State is what a pool is made of.
type State struct {
	Inventory *device.Inventory
	Cuts      Cuts
	// Health is the health behind a part: of the GPU, or of a place on it
	// (UUID::mig-PROFILE@START). False when nothing is known.
	Health func(id string) (health.Status, bool)
	// Problem is why the GPU driver cannot be used, as one word; empty when it can.
	Problem string
}

// describer turns parts into devices of one inventory.
type describer struct {
	State
	islands map[int]string
}

func (s State) describer() describer { return describer{s, islands(s.Inventory)} }

func (s describer) device(p Part) resourceapi.Device {
	d := p.GPU
	out := resourceapi.Device{Name: p.Name, Attributes: attributes{}, Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{}}
	a := attributes(out.Attributes)
	a.text("productName", d.Model)
	a.text("brand", d.Brand)
	a.text("architecture", d.Architecture)
	a.version("cudaComputeCapability", d.ComputeCapability)
	a.version("driverVersion", s.Inventory.Driver)
	a.version("cudaDriverVersion", s.Inventory.CUDA)
	a.text("resource.kubernetes.io/pciBusID", d.PCIBusID)
	a.text("resource.kubernetes.io/pcieRoot", d.PCIeRoot)
	a.number("index", d.Index)
	if d.NUMA >= 0 {
		a.number("numaNode", d.NUMA)
	}
	a.text("nvlinkIsland", s.islands[d.Index])
	a.text("fabric", d.Fabric)
	memory, sms := d.MemoryMiB, d.SMs
	if p.Profile == nil {
		a.text("type", "gpu")
		a.text("uuid", d.UUID)
	} else {
		a.text("type", "mig")
		a.text("parentUUID", d.UUID)
		a.text("uuid", p.Instance) // absent for one that is cut on demand: it has none yet
		a.text("profile", p.Profile.Name)
		a.number("placementStart", p.Start)
		a.number("placementSize", p.Profile.Size)
		memory, sms = p.Profile.MemoryMiB, p.Profile.SMs
	}
	out.Capacity["memory"] = resourceapi.DeviceCapacity{Value: *resource.NewQuantity(memory<<20, resource.BinarySI)}
	if sms > 0 {
		out.Capacity["multiprocessors"] = resourceapi.DeviceCapacity{Value: *resource.NewQuantity(int64(sms), resource.DecimalSI)}
	}
	if p.Shares > 0 {
		share(&out, p)
	}
	out.Taints = s.taints(p)
	return out
}

// share lets several claims have a GPU. A claim that names no amount of memory takes all of
// it; one that names none of cores, in hundredths of the GPU, gets them unlimited, as a share
// of the device plugin does. Multiprocessors are for selectors: no claim consumes them.
func share(out *resourceapi.Device, p Part) {
	yes := true
	out.AllowMultipleAllocations = &yes
	none, each := *resource.NewQuantity(0, resource.DecimalSI), *resource.NewQuantity(1, resource.DecimalSI)
	out.Capacity[capacityCores] = resourceapi.DeviceCapacity{Value: *resource.NewQuantity(100, resource.DecimalSI), RequestPolicy: &resourceapi.CapacityRequestPolicy{Default: &none}}
	out.Capacity[capacityShares] = resourceapi.DeviceCapacity{Value: *resource.NewQuantity(int64(p.Shares), resource.DecimalSI), RequestPolicy: &resourceapi.CapacityRequestPolicy{
		Default: &each, ValidValues: []resource.Quantity{each}}}
	if c, ok := out.Capacity["multiprocessors"]; ok {
		c.RequestPolicy = &resourceapi.CapacityRequestPolicy{Default: &none}
		out.Capacity["multiprocessors"] = c
	}
}

// Capacities that claims consume.
const (
	capacityMemory resourceapi.QualifiedName = "memory"
	capacityCores  resourceapi.QualifiedName = "cores"
	capacityShares resourceapi.QualifiedName = "shares"
)

// taints are those of a part's health.
func (s State) taints(p Part) (out []resourceapi.DeviceTaint) {
	if s.Problem != "" {
		out = append(out, resourceapi.DeviceTaint{Key: TaintDriver, Value: clip(s.Problem), Effect: resourceapi.DeviceTaintEffectNoSchedule})
	}
	id := p.GPU.UUID
	if p.Profile != nil {
		id = fmt.Sprintf("%s::mig-%s@%d", id, p.Profile.Name, p.Start)
	}
	status, ok := s.Health(id)
	if !ok || status.State == health.Healthy {
		return out
	}
	taint := resourceapi.DeviceTaint{Key: TaintHealth, Value: status.State.String(), Effect: resourceapi.DeviceTaintEffectNoSchedule}
	if status.State == health.Failed {
		taint.Effect = resourceapi.DeviceTaintEffectNoExecute
	}
	if !status.Since.IsZero() { // said here, so that writing it again changes nothing
		taint.TimeAdded = &metav1.Time{Time: status.Since.UTC().Truncate(time.Second)}
	}
	return append(out, taint)
}

// islands name the groups of devices that NVLink joins, by the UUID of the first; devices
// without NVLink are in none.
func islands(inv *device.Inventory) map[int]string {
	group := map[int]int{} // the lowest index that a device is joined to
	for _, d := range inv.Devices {
		group[d.Index] = d.Index
	}
	linked := map[int]bool{}
	for range inv.Devices { // until nothing changes, at the latest
		for _, l := range inv.Links {
			if l.Class != "NVSwitch" && l.Class != "NVLink" || len(l.Between) < 2 {
				continue
			}
			lowest := slices.MinFunc(l.Between, func(x, y int) int { return group[x] - group[y] })
			for _, i := range l.Between {
				group[i], linked[i] = group[lowest], true
			}
		}
	}
	first := map[int]string{}
	for _, d := range inv.Devices {
		first[d.Index] = d.UUID
	}
	out := map[int]string{}
	for i := range linked {
		out[i] = first[group[i]]
	}
	return out
}

// attributes are a device's, by the API's rules: what is empty or too long is left out or
// cut.
type attributes map[resourceapi.QualifiedName]resourceapi.DeviceAttribute

func (a attributes) text(name resourceapi.QualifiedName, value string) {
	if value = clip(value); value != "" {
		a[name] = resourceapi.DeviceAttribute{StringValue: &value}
	}
}

func (a attributes) number(name resourceapi.QualifiedName, value int) {
	v := int64(value)
	a[name] = resourceapi.DeviceAttribute{IntValue: &v}
}

// version is one by semver.org: 580.159.03 is 580.159.3, and 9.0 is 9.0.0.
func (a attributes) version(name resourceapi.QualifiedName, value string) {
	parts := strings.Split(value, ".")
	if value == "" || len(parts) > 3 {
		return
	}
	for len(parts) < 3 {
		parts = append(parts, "0")
	}
	for i, p := range parts {
		n, err := strconv.ParseUint(p, 10, 31)
		if err != nil {
			return
		}
		parts[i] = strconv.FormatUint(n, 10)
	}
	v := strings.Join(parts, ".")
	a[name] = resourceapi.DeviceAttribute{VersionValue: &v}
}

// clip keeps a text within what the API takes.
func clip(s string) string {
	if len(s) > resourceapi.DeviceAttributeMaxValueLength {
		return strings.ToValidUTF8(s[:resourceapi.DeviceAttributeMaxValueLength], "")
	}
	return s
}
