package dialect

import (
	"cmp"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	helper "k8s.io/component-helpers/resource"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/record"
	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
)

// resourcePrefix begins the arbiter's name of a resource that is counted as Kubernetes
// counts it, in its own units: resource/nvidia.com/mig-1g.10gb.
const resourcePrefix = "resource/"

// Charge is what a pod is charged against queues and quotas:
//
//	cpu, memory       thousandths, MiB
//	gpu/VENDOR        devices in thousandths, a part of a device by its part
//	model/MODEL       the same, by the model of the devices the pod holds
//	resource/NAME     every other resource that the pod requests, in its own units
//
// Requests are counted as kube-scheduler counts them: the larger of the init
// containers' peak and the sum of the containers, sidecars included. Limits of queues
// and quotas are read into the same names (QueueOf, QuotaOf), and a Queue's status shows
// the same amounts (Quantities).
//
// node is the inventory of the node the pod is bound to: it tells which part of a device
// so many MiB, a turn or a MIG slice is. Where that is unknown (node is nil, or the pod
// has no valid record) a part is charged with the most it can be.
func Charge(pod *v1.Pod, node *model.Node) map[arbiter.Resource]int64 {
	out := map[arbiter.Resource]int64{}
	host, _ := podNeeds(pod)
	add := func(r arbiter.Resource, amount int64) {
		if amount > 0 {
			out[r] = min(out[r]+amount, arbiter.MaxAmount)
		}
	}
	add(engine.CPU, host.CPU)
	add(engine.Memory, int64(host.Memory.MiB()))
	for _, a := range OwnUnits(pod) {
		add(a.Resource, a.Value)
	}
	claims, _ := Claims(pod)
	if c := plannedByClaims(pod); c != nil {
		claims = append(claims, *c)
	}
	for i := range claims {
		c := &claims[i]
		if c.Vendor == "" {
			continue
		}
		milli := int64(c.Count) * model.FullMilli
		for _, p := range c.Parts {
			milli += int64(fractionOf(p, node))
		}
		add(engine.GPU(c.Vendor), milli)
		milli0 := milli
		for model, milli := range heldModels(c, node) {
			add(engine.Model(model), milli)
			milli0 -= milli
		}
		if m := onlyModel(pod, c.Vendor); m.Known() && milli0 > 0 {
			add(engine.Model(m.Name()), milli0) // devices that are not known
		}
	}
	return out
}

// plannedByClaims is what the annotation says that was planned for a pod's ResourceClaims,
// for callers that do not read claims; nil when it says nothing. Limits do not rely on it.
func plannedByClaims(pod *v1.Pod) *ledger.Claim {
	rec, err := record.Decode(pod.Annotations[names.AnnotationClaims])
	if len(pod.Spec.ResourceClaims) == 0 || err != nil || rec.Node != pod.Spec.NodeName {
		return nil
	}
	c := &ledger.Claim{Vendor: model.NVIDIA}
	for _, container := range rec.Containers {
		for _, d := range container.Devices {
			ref := ledger.DeviceRef{Index: d.Index, UUID: d.UUID}
			switch {
			case d.MIG != "":
				c.Parts = append(c.Parts, ledger.HeldPart{Device: ref, Known: true, Part: model.Part{Kind: model.Slice, Profile: d.MIG}, Start: d.Start})
			case d.MemoryMiB > 0:
				c.Parts = append(c.Parts, ledger.HeldPart{Device: ref, Known: true, Part: model.Part{Kind: model.Share, Memory: model.MiB(d.MemoryMiB)}})
			default:
				c.Count++
				c.Devices = append(c.Devices, ref)
			}
		}
	}
	return c
}

// heldModels is what a claim holds of each model, as far as its devices are known.
func heldModels(c *ledger.Claim, node *model.Node) map[string]int64 {
	out := map[string]int64{}
	if node == nil {
		return out
	}
	add := func(d ledger.DeviceRef, milli int64) {
		if slot := node.Slot(d.Index, d.UUID); slot >= 0 {
			if name := node.Devices[slot].Model.Name(); name != "" {
				out[name] += milli
			}
		}
	}
	for _, d := range c.Devices {
		add(d, model.FullMilli)
	}
	for _, p := range c.Parts {
		if p.Known {
			add(p.Device, int64(fractionOf(p, node)))
		}
	}
	return out
}

// OwnUnits is the part of a pod's charge that depends on its manifest alone: resources in their own units.
func OwnUnits(pod *v1.Pod) arbiter.Amounts {
	out := map[arbiter.Resource]int64{resourcePrefix + arbiter.Resource(v1.ResourcePods): 1}
	for name, q := range helper.PodRequests(pod, helper.PodResourcesOptions{}) {
		if r, ok := ownUnits(string(name)); ok && q.Sign() > 0 {
			out[r] = min(out[r]+min(q.Value(), arbiter.MaxAmount), arbiter.MaxAmount)
		}
	}
	return arbiter.NewAmounts(out)
}

// onlyModel is the model that a pod requires, by its resources' names or by annotation.
func onlyModel(pod *v1.Pod, vendor model.Vendor) model.GPUModel {
	if r, _, err := counts(pod); err == nil && r != nil && r.Vendor == vendor && len(r.UseModels) == 1 {
		return r.UseModels[0]
	}
	if models, err := modelList(pod, names.AnnotationUseModel); err == nil && len(models) == 1 && vendor != model.Ascend {
		return models[0]
	}
	return model.GPUModel{}
}

// ownUnits is the arbiter's name of a resource that is counted in its own units; false
// for cpu, memory and whole GPUs, which have names of their own.
func ownUnits(name string) (arbiter.Resource, bool) {
	if name == string(v1.ResourceCPU) || name == string(v1.ResourceMemory) || strings.HasPrefix(name, modelPrefix) || vendorOf(name) != "" {
		return "", false
	}
	return arbiter.Resource(resourcePrefix + canonical(name)), true
}

// canonical is one spelling of a resource's name: a limit on Huawei's cards applies to lower-case names, too.
func canonical(name string) string {
	rest, ok := cutPrefixFold(name, "huawei.com/")
	if !ok {
		return name
	}
	for _, suffix := range []string{"", ascendMemory, ascendPercent} {
		if card, ok := strings.CutSuffix(rest, suffix); ok {
			if chip := ascendChipOf(card); chip != nil {
				return "huawei.com/" + chip.name + suffix
			}
		}
	}
	return name
}

// fractionOf is the part of a device that a holder has, in thousandths.
func fractionOf(p ledger.HeldPart, node *model.Node) int {
	if node != nil && p.Known {
		if slot := node.Slot(p.Device.Index, p.Device.UUID); slot >= 0 {
			return ledger.Fraction(p.Part, &node.Devices[slot])
		}
	}
	return ledger.Fraction(p.Part, nil)
}

// Quantities spells amounts as Kubernetes does, for a Queue's status.
func Quantities(amounts map[arbiter.Resource]int64) v1.ResourceList {
	out := v1.ResourceList{}
	for r, n := range amounts {
		name := string(r)
		switch {
		case r == engine.CPU:
			out[v1.ResourceCPU] = *resource.NewMilliQuantity(n, resource.DecimalSI)
		case r == engine.Memory:
			out[v1.ResourceMemory] = *resource.NewQuantity(n<<20, resource.BinarySI)
		case strings.HasPrefix(name, resourcePrefix):
			out[v1.ResourceName(strings.TrimPrefix(name, resourcePrefix))] = *resource.NewQuantity(n, resource.DecimalSI)
		default:
			if name := milliName(r); name != "" {
				out[v1.ResourceName(name)] = *resource.NewMilliQuantity(n, resource.DecimalSI)
			}
		}
	}
	return out
}

// ResourceName is the name that people know of a resource that queues count: Kubernetes' where it has one.
func ResourceName(r arbiter.Resource) string {
	if name, own := strings.CutPrefix(string(r), resourcePrefix); own {
		return name
	}
	return cmp.Or(milliName(r), string(r))
}

// milliName is Kubernetes' name of a resource that is counted in thousandths. Ascend's
// cards have no common one: they are shown by the names that pods ask for.
func milliName(r arbiter.Resource) string {
	for _, w := range whole {
		if engine.GPU(w.Vendor) == r {
			return w.Name
		}
	}
	if model, ok := strings.CutPrefix(string(r), string(engine.Model(""))); ok {
		return modelPrefix + model
	}
	return ""
}
