package fleet

import (
	"bytes"
	_ "embed"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/tangram-dev/tangram/api/v1alpha1"
)

// Limits of a fleet. MaxGPUs is the GPUNode API's; the others keep a typing error
// from filling the machine.
const (
	MaxGPUs        = 16
	maxPools       = 1000
	maxNodes       = 100_000
	maxNUMA        = 8
	maxMemory      = 16 << 20 // MiB of one device, the GPUNode API's
	maxAnnotation  = 64 << 10 // bytes; the API server takes 256 KiB of all together
	defaultPods    = 110      // kubelet's
	defaultStorage = 1 << 40  // bytes of a disk for images and logs
)

// Names of link layouts.
const (
	linksNVSwitch = "NVSwitch" // every pair through a switch
	linksNVLink   = "NVLink"   // neighbours 0-1, 2-3, ... directly, the rest by PCIe
	linksPCIe     = "PCIe"     // a host bridge per NUMA node
)

// Fleet is a set of simulated nodes. [Parse] makes one from a file.
type Fleet struct {
	Pools []Pool
}

// Pool is a number of equal nodes, called <pool>-0, <pool>-1 and so on.
type Pool struct {
	// Name is a DNS label, unique in the fleet.
	Name string
	// Count is the number of nodes, at least 1.
	Count int
	// GPU describes the GPUs of each node; nil for a pool without.
	GPU *GPU
	// CPU and Memory are each node's; the zero value means 12 CPUs and 96 GiB for
	// every GPU, and at least 16 CPUs and 64 GiB.
	CPU, Memory resource.Quantity
	// Labels are added to the nodes and win over the generated ones.
	Labels map[string]string
	// Annotations are added to the nodes: what device plugins of other projects write there.
	Annotations map[string]string
	// Resources are what the nodes sell beside CPU, memory and their GPUs, as other
	// projects' device plugins publish it; stronger than what is generated.
	Resources v1.ResourceList
	// Taints are put on the nodes.
	Taints []v1.Taint
	// Zone is the zone label's value; empty for none.
	Zone string
	// RackSize and BlockSize are how many nodes in a row share a rack and a block;
	// 0 for no such label. A block is whole racks.
	RackSize, BlockSize int
}

// GPU describes the GPUs of a pool's nodes. Zero values of a known model are
// filled in from the model's data sheet.
type GPU struct {
	// Model is a short name ("A100-80GB") or any product name.
	Model string
	// Vendor is nvidia, amd or intel; empty means the model's, or else nvidia.
	Vendor string
	// Accelerator is the value of the node label of that name.
	Accelerator string
	// Count is the number of GPUs of a node, 1 to [MaxGPUs].
	Count int
	// MemoryMiB is one GPU's memory; required for an unknown model.
	MemoryMiB int64
	// SMs is one GPU's number of multiprocessors.
	SMs int32
	// MIG says that the GPUs can be cut. The model must be known for it.
	MIG bool
	// Layout is a named link layout (NVSwitch, NVLink, PCIe); Links, if any, are
	// used instead.
	Layout string
	Links  []v1alpha1.Link
	// NUMANodes is over how many NUMA nodes the GPUs are spread evenly.
	NUMANodes int
}

//go:embed default.yaml
var defaultFile []byte

// DefaultFile is the file of the default fleet; the caller owns it.
func DefaultFile() []byte { return bytes.Clone(defaultFile) }

// Default is the fleet of tangram up without a file: 16 nodes with four generations
// of GPUs, among them the 8 x V100 node of Kubernetes tutorials.
func Default() *Fleet {
	f, err := Parse("default.yaml", defaultFile)
	if err != nil {
		panic(fmt.Sprintf("embedded file: %v", err)) // a test parses it
	}
	return f
}

// Size returns the numbers of nodes and GPUs.
func (f *Fleet) Size() (nodes, gpus int) {
	for _, p := range f.Pools {
		nodes += p.Count
		if p.GPU != nil {
			gpus += p.Count * p.GPU.Count
		}
	}
	return nodes, gpus
}

// String describes the fleet in a line: "20 nodes, 88 GPUs: 4 x 8 A100-80GB, ...".
func (f *Fleet) String() string {
	nodes, gpus := f.Size()
	var pools []string
	for _, p := range f.Pools {
		if p.GPU == nil {
			pools = append(pools, fmt.Sprintf("%d without GPU", p.Count))
			continue
		}
		pools = append(pools, fmt.Sprintf("%d x %d %s", p.Count, p.GPU.Count, p.GPU.Model))
	}
	return fmt.Sprintf("%d nodes, %d GPUs: %s", nodes, gpus, strings.Join(pools, ", "))
}

// completed returns the pool with all defaults filled in. It shares nothing that
// it changes with p.
func (p Pool) completed() Pool {
	gpus := int64(0)
	if p.GPU != nil {
		gpu := p.GPU.completed()
		p.GPU = &gpu
		gpus = int64(gpu.Count)
	}
	if p.CPU.IsZero() {
		p.CPU = *resource.NewQuantity(max(16, 12*gpus), resource.DecimalSI)
	}
	if p.Memory.IsZero() {
		p.Memory = *resource.NewQuantity(max(64, 96*gpus)<<30, resource.BinarySI)
	}
	return p
}

func (g GPU) completed() GPU {
	known, ok := findProduct(g.Model)
	if !ok {
		known = product{
			vendor: vendorNVIDIA, model: g.Model, accelerator: labelValue(strings.ToLower(g.Model)),
			nvlinks: 2, links: linksPCIe, numaNodes: 1,
		}
	}
	g.Model = known.model
	if g.Vendor == "" {
		g.Vendor = known.vendor
	}
	if g.Accelerator == "" {
		g.Accelerator = known.accelerator
	}
	if g.MemoryMiB == 0 {
		g.MemoryMiB = known.memoryMiB
	}
	if g.SMs == 0 {
		g.SMs = known.sms
	}
	if g.NUMANodes == 0 {
		g.NUMANodes = min(known.numaNodes, g.Count)
	}
	if g.Layout == "" {
		g.Layout = known.links
	}
	if g.Links == nil {
		g.Links = layOut(g.Layout, g.Count, g.NUMANodes, known.nvlinks)
	}
	return g
}

// numaOf spreads count devices evenly over the NUMA nodes, in index order.
func numaOf(index, count, numaNodes int) int { return index * numaNodes / count }

// layOut turns a named layout into links, best class first.
func layOut(layout string, count, numaNodes int, nvlinks int32) []v1alpha1.Link {
	var links []v1alpha1.Link
	switch layout {
	case linksNVSwitch:
		if count > 1 {
			links = append(links, v1alpha1.Link{Between: indexes(0, count), Class: "NVSwitch"})
		}
		return links
	case linksNVLink:
		for i := 0; i+1 < count; i += 2 {
			links = append(links, v1alpha1.Link{Between: indexes(i, i+2), Class: "NVLink", Count: nvlinks})
		}
	}
	for begin := 0; begin < count; {
		end := begin + 1
		for end < count && numaOf(end, count, numaNodes) == numaOf(begin, count, numaNodes) {
			end++
		}
		if end-begin > 1 {
			links = append(links, v1alpha1.Link{Between: indexes(begin, end), Class: "PHB"})
		}
		begin = end
	}
	return links
}

func indexes(begin, end int) []int32 {
	list := make([]int32, 0, end-begin)
	for i := begin; i < end; i++ {
		list = append(list, int32(i))
	}
	return list
}
