package dialect

import (
	"fmt"
	"strconv"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/record"
	"github.com/tangram-dev/tangram/core/model"
)

// cGPU's words (Alibaba's GPU share): memory in GiB, compute in percent, the label
// gpu-count to spread a request over several cards.
const (
	cgpuMemory v1.ResourceName = "aliyun.com/gpu-mem"
	cgpuCards  v1.ResourceName = "aliyun.com/gpu-count" // on nodes
	// The requirement documents say gpu-core, ACK says gpu-core.percentage.
	cgpuCore        v1.ResourceName = "aliyun.com/gpu-core"
	cgpuCorePercent v1.ResourceName = "aliyun.com/gpu-core.percentage"

	cgpuCountLabel = "aliyun.com/gpu-count"
)

func readCGPU(pod *v1.Pod, c *v1.Container, path string) (*ask, error) {
	w := &words{c: c, path: path}
	gib, field, hasMemory := w.number(cgpuMemory, 0, maxMiB>>10)
	core, coreField, hasCore := w.number(cgpuCore, 1, 100*maxCount)
	pct, pctField, hasPct := w.number(cgpuCorePercent, 1, 100*maxCount)
	switch {
	case w.err != nil:
		return nil, w.err
	case hasCore && hasPct:
		return nil, fmt.Errorf("%s: given beside %s", pctField, coreField)
	case hasPct:
		core, coreField, hasCore = pct, pctField, true
	}
	if !hasMemory || gib == 0 {
		if hasCore {
			return nil, fmt.Errorf("%s: given without %s", coreField, cgpuMemory)
		}
		return nil, nil
	}
	cards, err := cgpuSpread(pod, c.Name, gib, core)
	if err != nil {
		return nil, err
	}
	for _, f := range []struct {
		n     int64
		field string
	}{{gib, field}, {core, coreField}} {
		if f.n%cards != 0 {
			return nil, fmt.Errorf("%s: %d cannot be divided by the %d cards of metadata.labels[%s]", f.field, f.n, cards, cgpuCountLabel)
		}
	}
	if core/cards > 100 {
		return nil, fmt.Errorf("%s: %d%% on each card", coreField, core/cards)
	}
	return &ask{vendor: model.NVIDIA, resource: cgpuMemory, count: int(cards), field: field,
		part: model.Part{Kind: model.Share, Memory: model.MiB(gib / cards << 10), Milli: int(core/cards) * 10}}, nil
}

// annotateCGPU is what the gpushare device plugin reads; for several cards it names them by container.
func annotateCGPU(p placed) map[string]string {
	out := map[string]string{
		"ALIYUN_COM_GPU_MEM_ASSIGNED":    "false",
		"ALIYUN_COM_GPU_MEM_ASSUME_TIME": strconv.FormatInt(p.now.UnixNano(), 10),
	}
	allocation := ""
	total, last := model.MiB(0), 0
	for i := range p.request.Containers {
		cards := ""
		for _, g := range p.grant.Parts {
			if g.Container == i {
				cards += fmt.Sprintf(`,"%d":%d`, p.node.Devices[g.Slot].Index, g.Memory>>10)
				total, last = total+g.Memory, g.Slot
			}
		}
		if cards != "" {
			allocation += fmt.Sprintf(`,"%d":{%s}`, i, cards[1:])
		}
	}
	if allocation != "" {
		out["scheduler.framework.gpushare.allocation"] = "{" + allocation[1:] + "}"
		out["scheduler.framework.gpushare.assume-time"] = out["ALIYUN_COM_GPU_MEM_ASSUME_TIME"]
		out["scheduler.framework.gpushare.assigned"] = "false"
	}
	if p.grant.Set.Count() == 1 {
		out["ALIYUN_COM_GPU_MEM_IDX"] = strconv.Itoa(p.node.Devices[last].Index)
		out["ALIYUN_COM_GPU_MEM_DEV"] = strconv.FormatInt(int64(p.node.Devices[last].Memory>>10), 10)
		out["ALIYUN_COM_GPU_MEM_POD"] = strconv.FormatInt(int64(total>>10), 10)
	}
	return out
}

// cgpuDevices derives cards from their number and the memory of all of them together.
func cgpuDevices(node *v1.Node) (*registration, error) {
	list := node.Status.Allocatable
	return equalCards(node, quantity(list, cgpuCards), quantity(list, cgpuMemory), 1<<10)
}

// cgpuSpread reads over how many cards a container's request is spread. Labels may be edited while a
// pod runs: of a bound pod the record is read first, and an edit cannot reduce the amount.
func cgpuSpread(pod *v1.Pod, container string, gib, core int64) (int64, error) {
	n, err := numberIn(pod.Labels, cgpuCountLabel, label(cgpuCountLabel), maxCount)
	said := int64(max(1, n))
	if pod.Spec.NodeName == "" {
		return said, err
	}
	var tell []int64
	if rec, err := record.Decode(pod.Annotations[names.AnnotationDevices]); err == nil {
		for _, c := range rec.Containers {
			if c.Name == container {
				tell = append(tell, int64(len(c.Devices)))
			}
		}
	}
	tell = append(tell, said)
	for n := int64(1); n <= maxCount; n++ {
		tell = append(tell, n)
	}
	for _, n := range tell {
		if n > 0 && gib%n == 0 && core%n == 0 && core/n <= 100 {
			return n, nil
		}
	}
	return 1, nil
}
