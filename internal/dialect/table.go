package dialect

import (
	"slices"
	"strings"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/mig"
	"github.com/tangram-dev/tangram/core/model"
)

// family is one row of the table: the words of a project, or of a part of it, for devices. Everything
// else follows from it: how they are read (by what they count, without an entry in behaviours), what
// kube-scheduler and gpu-extender ignore, what admission policies protect, what `tangram migrate
// check` knows, what a dump keeps, and the guide. TestPlaces names a file that does not follow.
type family struct {
	// name is how documents call it, system how `tangram migrate` does.
	name, system string
	// domains begin the system's words, known or not: a domain with those below it, or domain/beginning.
	domains []string
	// vendor is that of the devices.
	vendor model.Vendor
	words  []Word
	// spelt are the names that a pattern among the words stands for; nil without one.
	spelt func() []Word
}

// vendors says whether the words are a vendor's own, which sell its devices whole.
func (f *family) vendors() bool {
	return slices.ContainsFunc(f.words, func(w Word) bool { return w.Vendor != "" })
}

// owns says whether a word is the family's, known or not. Labels of a vendor's domain describe nodes.
func (f *family) owns(kind WordKind, name string) bool {
	if kind == Label && f.vendors() {
		return false
	}
	domain, _, _ := strings.Cut(name, "/")
	return slices.ContainsFunc(f.domains, func(d string) bool {
		return strings.Contains(d, "/") && strings.HasPrefix(name, d) || domain == d || strings.HasSuffix(domain, "."+d)
	})
}

// deviceFamilies are the vocabularies for devices, in the order in which a container is read.
var deviceFamilies = []family{
	{
		name: "NVIDIA", system: "hami", domains: []string{"nvidia.com"}, vendor: model.NVIDIA,
		words: slices.Concat(
			sold(model.NVIDIA, string(nvidiaGPU)), here(Memory, names.ResourceGPUMemory),
			annotationWords(names.AnnotationNUMABind, names.AnnotationUseModel, names.AnnotationAvoidModel, names.AnnotationUseUUID, names.AnnotationAvoidUUID),
		),
	},
	{
		name: "AMD", system: "amd", domains: []string{"amd.com"}, vendor: model.AMD,
		words: sold(model.AMD, names.ResourceAMD),
	},
	{
		name: "Intel", system: "intel", domains: []string{"gpu.intel.com"}, vendor: model.Intel,
		words: sold(model.Intel, names.ResourceIntel),
	},
	{
		name: "HAMi", system: "hami", domains: []string{"hami.io"}, vendor: model.NVIDIA,
		words: slices.Concat(
			here(Memory, string(hamiMemory), string(hamiPercent)), here(Compute, string(hamiCores)),
			[]Word{{Kind: Resource, Name: "nvidia.com/priority", Effect: Ignores, Source: Tangram,
				Note: "write a PriorityClass: what a card's compute is worth to its containers is not ranked"}},
			annotationWords(hamiMode, hamiRegister, hamiCordon, hamiNodePolicy, hamiDevicePolicy),
			// With the name of a card in them: Ascend's.
			annotationWords("hami.io/use-*-uuid", "hami.io/no-use-*-uuid", "hami.io/node-register-*"),
			boundWords("hami.io/vgpu-node", "hami.io/vgpu-time", "hami.io/bind-phase", "hami.io/bind-time",
				"hami.io/*-devices-to-allocate", "hami.io/*-devices-allocated"),
		),
	},
	{
		name: "MIG", system: "hami", vendor: model.NVIDIA,
		words: here(Slices, slicePrefix+"*"),
		spelt: func() []Word {
			var out []Word
			for _, profile := range mig.Names() {
				out = append(out, here(Slices, slicePrefix+profile)...)
			}
			return out
		},
	},
	{
		// Shares without amounts: time-sliced GPUs under their own name, and vGPUs of a hypervisor.
		name: "turns", system: "hami", vendor: model.NVIDIA,
		words: plugin(Turns, "nvidia.com/gpu.shared", "nvidia.com/vgpu"),
	},
	{
		name: "Volcano GPU share", system: "volcano", vendor: model.NVIDIA,
		words: slices.Concat(
			plugin(MiB, string(volcanoMemory)),
			annotationWords(names.AnnotationUseIndex, names.AnnotationAvoidUnhealthy), boundWords("volcano.sh/predicate-time"),
		),
	},
	{
		name: "Volcano GPU number", system: "volcano", vendor: model.NVIDIA,
		words: plugin(Devices, string(volcanoCards)),
	},
	{
		name: "Volcano vGPU", system: "volcano", vendor: model.NVIDIA,
		words: slices.Concat(
			plugin(Cards, string(volcanoVCards)), plugin(Memory, string(volcanoVMemory)), plugin(Compute, string(volcanoVCores)),
			here(Memory, string(volcanoVPercent)),
			annotationWords(volcanoMode, volcanoRegister, volcanoUse, volcanoAvoid),
			boundWords("volcano.sh/vgpu-node", "volcano.sh/vgpu-time", "volcano.sh/vgpu-ids-new", "volcano.sh/devices-to-allocate",
				"volcano.sh/bind-phase", "volcano.sh/bind-time"),
		),
	},
	{
		name: "cGPU", system: "cgpu", domains: []string{"aliyun.com/gpu"}, vendor: model.NVIDIA,
		words: slices.Concat(
			plugin(Memory, string(cgpuMemory)), plugin(Compute, string(cgpuCorePercent)),
			here(Compute, string(cgpuCore)), // the requirement documents' spelling, which no plugin publishes
			onNodes(Devices, string(cgpuCards)), labelWords(cgpuCountLabel),
			boundWords("ALIYUN_COM_GPU_*", "scheduler.framework.gpushare.*"),
		),
	},
	{
		name: "Ascend", system: "ascend", domains: []string{"huawei.com"}, vendor: model.Ascend,
		words: slices.Concat(
			here(Memory, ascendPrefix+"*"+ascendMemory), here(Compute, ascendPrefix+"*"+ascendPercent),
			plugin(Devices, ascendPrefix+"*"), plugin(Compute, string(ascendCore)),
			annotationWords(ascendMode), boundWords("huawei.com/Ascend*", string(ascendCore), "predicate-time"),
		),
		spelt: func() []Word {
			out := plugin(Devices, ascendPrefix+"910") // any training card
			for _, chip := range ascendChips {
				name := "huawei.com/" + chip.name
				out = append(out, plugin(Devices, name)...)
				out = append(out, here(Memory, name+ascendMemory)...)
				out = append(out, here(Compute, name+ascendPercent)...)
				// The requirement documents' spelling, which no plugin publishes.
				name = strings.ToLower(name)
				out = append(out, here(Devices, name)...)
				out = append(out, here(Memory, name+ascendMemory)...)
				out = append(out, here(Compute, name+ascendPercent)...)
			}
			return out
		},
	},
	{
		name: "Koordinator", system: "koordinator", vendor: model.NVIDIA,
		words: slices.Concat(
			here(Compute, string(koordGPU), string(koordCore)), here(Memory, string(koordMemory), string(koordRatio)), here(Cards, string(koordShared)),
			annotationWords(koordHint), refusedWords(noJointDevices, koordJoint, koordPartition), boundWords(koordAllocated),
			labelWords(koordVendor),
		),
	},
	{
		name: "KAI and Run:ai", system: "kai", vendor: model.NVIDIA,
		words: slices.Concat(
			[]Word{
				{Kind: Annotation, Name: kaiFraction, Effect: Reads, Counts: Memory}, {Kind: Annotation, Name: kaiMemory, Effect: Reads, Counts: Memory},
				{Kind: Annotation, Name: kaiDevices, Effect: Reads, Counts: Cards},
				{Kind: Annotation, Name: kaiContainer, Effect: Reads, Counts: Holder}, {Kind: Annotation, Name: kaiCompute, Effect: Reads, Counts: Compute},
			},
			refusedWords("a share may not grow above gpu-fraction: what is asked for is what is enforced", kaiFractionLimit),
			refusedWords("a share may not grow above gpu-memory: what is asked for is what is enforced", kaiMemoryLimit),
			refusedWords("write gpu-sm-percentage: compute is counted in percent of a card", kaiCores),
		),
	},
}

// DeviceResources are the extended resources that pods ask for devices by, patterns spelt
// out, in the order of the table. Resources that only nodes have are not among them.
func DeviceResources() []Word {
	var out []Word
	for i := range deviceFamilies {
		f := &deviceFamilies[i]
		for _, w := range f.words {
			if w.Kind == Resource && w.Source != NodeOnly && !strings.Contains(w.Name, "*") {
				out = append(out, w)
			}
		}
		if f.spelt != nil {
			out = append(out, f.spelt()...)
		}
	}
	return out
}

// Unpublished are resources that nodes need not publish: Tangram counts them, device by device.
func Unpublished() []string {
	var out []string
	for _, w := range DeviceResources() {
		if w.Source == Tangram {
			out = append(out, w.Name)
		}
	}
	return out
}

// DeviceDomains are the domains of the resources that pods ask for devices by.
func DeviceDomains() []string {
	var out []string
	for i := range deviceFamilies {
		for _, w := range deviceFamilies[i].words {
			if domain, _, ok := strings.Cut(w.Name, "/"); ok && w.Kind == Resource && !slices.Contains(out, domain) {
				out = append(out, domain)
			}
		}
	}
	return out
}

// CountsDevices says whether a resource is a number of devices, or of places on them, which kubelet counts.
func CountsDevices(resource string) bool {
	w, known := FindWord(Resource, resource)
	return known && slices.Contains([]Counts{Devices, Cards, Turns, Slices}, w.Counts)
}

// SystemOf is the system that a word belongs to, known or not; empty when it belongs to none.
func SystemOf(kind WordKind, name string) string {
	if w, known := indexed().exact[kind][name]; known && strings.Contains(name, "/") {
		return w.system
	}
	for i := range families {
		if families[i].owns(kind, name) {
			return families[i].system
		}
	}
	return ""
}
