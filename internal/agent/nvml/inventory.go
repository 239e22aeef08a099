//go:build cgo && linux

package nvml

import (
	"context"
	"fmt"
	"math/bits"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/tangram-dev/tangram/internal/agent/device"
)

// Inventory implements device.Backend. A device that is lost or hangs is listed as it was
// last described, since it is still built in; one that never answered is left out. Any
// other failure to read a device fails the whole, with the device's name.
func (b *Backend) Inventory(ctx context.Context) (*device.Inventory, error) {
	release, err := b.use()
	if err != nil {
		return nil, err
	}
	defer release()
	inv := &device.Inventory{}
	if inv.Driver, err = get(ctx, b, b.system, "nvmlSystemGetDriverVersion", b.library.SystemGetDriverVersion); err != nil {
		return nil, fmt.Errorf("nvml: %w", err)
	}
	if v, err := get(ctx, b, b.system, "nvmlSystemGetCudaDriverVersion_v2", b.library.SystemGetCudaDriverVersion); err == nil {
		inv.CUDA = fmt.Sprintf("%d.%d", v/1000, v%1000/10)
	}

	devices := make([]*device.Device, len(b.gpus))
	linked := make([]nvlinks, len(b.gpus))
	failures := make([]error, len(b.gpus))
	var all sync.WaitGroup
	for i, g := range b.gpus {
		all.Go(func() { devices[i], linked[i], failures[i] = b.describe(ctx, g) })
	}
	all.Wait()

	var present []*gpu
	var links []nvlinks
	for i, g := range b.gpus {
		if err := failures[i]; err != nil {
			g.mu.Lock()
			devices[i] = g.known
			g.mu.Unlock()
			if !broken(err) {
				return nil, fmt.Errorf("nvml: device %d: %w", i, err)
			}
			b.options.Log.Warn("Device does not answer; its last known description is published", "index", i, "known", devices[i] != nil, "err", err)
		}
		if devices[i] == nil {
			continue
		}
		inv.Devices = append(inv.Devices, *devices[i])
		if failures[i] == nil {
			present, links = append(present, g), append(links, linked[i])
		}
	}
	if len(inv.Devices) == 0 && len(b.gpus) > 0 {
		return nil, fmt.Errorf("nvml: no device answers: %w", failures[0])
	}
	inv.Links = b.join(ctx, present, links)
	return inv, nil
}

// describe reads one device.
func (b *Backend) describe(ctx context.Context, g *gpu) (*device.Device, nvlinks, error) {
	err := b.attach(ctx, g)
	if err != nil {
		return nil, nvlinks{}, err
	}
	h, uuid := g.opened()
	d := &device.Device{Index: g.index, UUID: uuid, Vendor: "nvidia"}

	// What every device has; without it there is nothing to publish.
	required := reader{ctx: ctx, b: b, lane: g.lane, strict: true}
	d.Minor, _ = read(&required, "nvmlDeviceGetMinorNumber", h.GetMinorNumber)
	d.Model, _ = read(&required, "nvmlDeviceGetName", h.GetName)
	memory, _ := read(&required, "nvmlDeviceGetMemoryInfo", h.GetMemoryInfo)
	pci, _ := read(&required, "nvmlDeviceGetPciInfo_v3", h.GetPciInfo)
	if required.err != nil {
		return nil, nvlinks{}, required.err
	}
	d.MemoryMiB = int64(memory.Total >> 20)
	d.PCIBusID = busID(pci)
	d.PCIDeviceID = fmt.Sprintf("0x%08x", pci.PciDeviceId)
	d.PCIeRoot = b.pcieRoot(d.PCIBusID)

	// What some devices have. An error other than a broken device is an absent value.
	optional := reader{ctx: ctx, b: b, lane: g.lane}
	if v, ok := read(&optional, "nvmlDeviceGetBrand", h.GetBrand); ok {
		d.Brand = brands[v]
	}
	architecture, _ := read(&optional, "nvmlDeviceGetArchitecture", h.GetArchitecture)
	d.Architecture = architectures[architecture] // 0, which is none, when unknown
	d.Serial, _ = read(&optional, "nvmlDeviceGetSerial", h.GetSerial)
	d.PCIeGen, _ = read(&optional, "nvmlDeviceGetGpuMaxPcieLinkGeneration", h.GetGpuMaxPcieLinkGeneration)
	if d.PCIeGen == 0 {
		d.PCIeGen, _ = read(&optional, "nvmlDeviceGetMaxPcieLinkGeneration", h.GetMaxPcieLinkGeneration)
	}
	d.PCIeWidth, _ = read(&optional, "nvmlDeviceGetMaxPcieLinkWidth", h.GetMaxPcieLinkWidth)
	capability, _ := read(&optional, "nvmlDeviceGetCudaComputeCapability", paired(h.GetCudaComputeCapability))
	if capability.a > 0 {
		d.ComputeCapability = fmt.Sprintf("%d.%d", capability.a, capability.b)
	}
	d.NUMA = b.numa(&optional, h, d.PCIBusID)
	d.Fabric = b.fabric(&optional, h)
	links := b.nvlinks(&optional, h)
	d.NVLinks = links.total
	if d.MIG, err = b.describeMIG(&optional, g, h, memory.Total); err != nil {
		return nil, nvlinks{}, err
	}
	if d.MIG != nil {
		d.MIG.Fixed = d.Architecture == architectures[nvml.DEVICE_ARCH_AMPERE]
	}
	cores, _ := read(&optional, "nvmlDeviceGetNumGpuCores", h.GetNumGpuCores)
	d.SMs = multiprocessors(cores, capability.a, capability.b, d.MIG)
	if optional.err != nil {
		return nil, nvlinks{}, optional.err
	}

	g.mu.Lock()
	defer g.mu.Unlock()
	g.known, g.lacks = d, nil
	return d, links, nil
}

// reader reads values that a device may lack. The first error that means a broken device (strict:
// the first error) is kept, and nothing is asked after it.
type reader struct {
	ctx    context.Context
	b      *Backend
	lane   *lane
	strict bool
	err    error
}

func read[T any](r *reader, name string, fn func() (T, nvml.Return)) (v T, ok bool) {
	if r.err != nil {
		return v, false
	}
	v, err := get(r.ctx, r.b, r.lane, name, fn)
	if r.strict || broken(err) {
		r.err = err
	}
	return v, err == nil
}

// busID writes a PCI address as the kernel does, such as 0000:1b:00.0.
func busID(p nvml.PciInfo) string { return fmt.Sprintf("%04x:%02x:%02x.0", p.Domain, p.Bus, p.Device) }

// numa is the NUMA node that a device hangs on: the kernel's word, or the driver's where
// the kernel has none and the driver names exactly one; -1 when neither knows.
func (b *Backend) numa(r *reader, h nvml.Device, bus string) int {
	text, err := os.ReadFile(filepath.Join(b.options.SysRoot, "bus/pci/devices", bus, "numa_node"))
	if err == nil {
		if n, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && n >= 0 {
			return n
		}
	}
	const nodes = 64
	set, ok := read(r, "nvmlDeviceGetMemoryAffinity", func() ([]uint, nvml.Return) {
		return h.GetMemoryAffinity(nodes, nvml.AFFINITY_SCOPE_NODE)
	})
	node := -1
	for i, word := range set {
		switch n := bits.OnesCount(word); {
		case !ok || n > 1 || n == 1 && node >= 0:
			return -1
		case n == 1:
			node = i*bits.UintSize + bits.TrailingZeros(word)
		}
	}
	return node
}

// pcieRoot is the first folder of a device's path below /sys/devices, as in
// pci0000:15/0000:15:00.0/0000:16:00.0; empty when the kernel does not tell.
func (b *Backend) pcieRoot(bus string) string {
	target, err := os.Readlink(filepath.Join(b.options.SysRoot, "bus/pci/devices", bus))
	if err != nil {
		return ""
	}
	for part := range strings.SplitSeq(filepath.ToSlash(target), "/") {
		if strings.HasPrefix(part, "pci") {
			return part
		}
	}
	return ""
}

// fabric names the NVLink domain that a device has joined, as <cluster UUID>.<clique>;
// empty where there is none that spans nodes.
func (b *Backend) fabric(r *reader, h nvml.Device) string {
	v, ok := read(r, "nvmlDeviceGetGpuFabricInfoV", func() (nvml.GpuFabricInfo_v2, nvml.Return) { return h.GetGpuFabricInfoV().V2() })
	d := nvml.GpuFabricInfo{ClusterUuid: v.ClusterUuid, CliqueId: v.CliqueId, State: v.State}
	if !ok {
		d, ok = read(r, "nvmlDeviceGetGpuFabricInfo", h.GetGpuFabricInfo)
	}
	c := d.ClusterUuid
	if !ok || d.State != nvml.GPU_FABRIC_STATE_COMPLETED || c == [16]uint8{} {
		return ""
	}
	return fmt.Sprintf("%x-%x-%x-%x-%x.%d", c[:4], c[4:6], c[6:8], c[8:10], c[10:], d.CliqueId)
}

// multiprocessors counts SMs. The driver counts cores, which divide by the cores of one
// SM of that generation; for a generation that is not known, the largest MIG profile
// counts SMs, though on some models it leaves a few out.
func multiprocessors(cores, major, minor int, mig *device.MIG) int {
	if each := coresPerSM(major, minor); cores > 0 && each > 0 {
		return cores / each
	}
	most := 0
	if mig != nil {
		for _, p := range mig.Profiles {
			most = max(most, p.SMs)
		}
	}
	return most
}

// coresPerSM is how many cores one SM has, by compute capability; 0 when not known.
func coresPerSM(major, minor int) int {
	switch {
	case major == 6 && minor == 0, major == 7, major == 8 && minor == 0:
		return 64
	case major == 5, major == 6, major == 8, major == 9, major == 10, major == 11, major == 12:
		return 128
	}
	return 0
}

var brands = map[nvml.BrandType]string{
	nvml.BRAND_QUADRO: "Quadro", nvml.BRAND_TESLA: "Tesla", nvml.BRAND_NVS: "NVS", nvml.BRAND_GRID: "GRID",
	nvml.BRAND_GEFORCE: "GeForce", nvml.BRAND_TITAN: "TITAN", nvml.BRAND_NVIDIA: "NVIDIA", nvml.BRAND_NVIDIA_RTX: "NVIDIA RTX",
	nvml.BRAND_QUADRO_RTX: "Quadro RTX", nvml.BRAND_GEFORCE_RTX: "GeForce RTX", nvml.BRAND_TITAN_RTX: "TITAN RTX",
	nvml.BRAND_NVIDIA_VAPPS: "NVIDIA Virtual Applications", nvml.BRAND_NVIDIA_VPC: "NVIDIA Virtual PC", nvml.BRAND_NVIDIA_VGAMING: "NVIDIA vGaming",
	nvml.BRAND_NVIDIA_VCS: "NVIDIA Virtual Compute Server", nvml.BRAND_NVIDIA_VWS: "NVIDIA RTX Virtual Workstation",
}

var architectures = map[nvml.DeviceArchitecture]string{
	nvml.DEVICE_ARCH_KEPLER: "Kepler", nvml.DEVICE_ARCH_MAXWELL: "Maxwell", nvml.DEVICE_ARCH_PASCAL: "Pascal", nvml.DEVICE_ARCH_VOLTA: "Volta",
	nvml.DEVICE_ARCH_TURING: "Turing", nvml.DEVICE_ARCH_AMPERE: "Ampere", nvml.DEVICE_ARCH_ADA: "Ada Lovelace",
	nvml.DEVICE_ARCH_HOPPER: "Hopper", nvml.DEVICE_ARCH_BLACKWELL: "Blackwell", nvml.DEVICE_ARCH_RUBIN: "Rubin",
}

var ancestors = map[nvml.GpuTopologyLevel]string{
	nvml.TOPOLOGY_INTERNAL: "PIX", nvml.TOPOLOGY_SINGLE: "PIX", nvml.TOPOLOGY_MULTIPLE: "PXB", nvml.TOPOLOGY_HOSTBRIDGE: "PHB", nvml.TOPOLOGY_NODE: "NODE",
}
