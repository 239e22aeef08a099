package sim

import (
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/pack"
)

// The openb format knows GPUs by a model's name and shares by thousandths; the
// engine wants devices and requests. Memory of GPUs is not in the trace.

// device is one GPU of a model.
func (t *Trace) device(id pack.ModelID, index int) model.Device {
	return model.Device{Index: index, Vendor: model.NVIDIA, Model: model.ParseModel(t.Models[id]), NUMA: model.NUMAUnknown}
}

// inventory is a node of the trace.
func (t *Trace) inventory(i int) *model.Node {
	row := &t.Nodes[i]
	n := &model.Node{
		ID:       model.NodeID(row.Name),
		Host:     model.Host{CPU: row.Empty.CPU, Memory: model.MiB(row.Empty.Memory).Bytes()},
		Sellable: map[model.Vendor]int{model.NVIDIA: int(row.Empty.GPUs)},
	}
	for g := range int(row.Empty.GPUs) {
		n.Devices = append(n.Devices, t.device(row.Empty.Model, g))
	}
	return n
}

// request is what a pod of the trace asks for. One without GPUs has no vendor.
func (t *Trace) request(i int) model.Request {
	c := &t.Pods[i].Class
	r := model.Request{Host: model.Host{CPU: c.CPU, Memory: model.MiB(c.Memory).Bytes()}}
	if c.GPUs == 0 {
		return r
	}
	r.Vendor = model.NVIDIA
	main := model.Container{Name: "main", Count: int(c.GPUs)}
	if c.Milli < pack.Whole {
		main.Part = model.Part{Kind: model.Share, Milli: int(c.Milli)}
	}
	r.Containers = []model.Container{main}
	for id := range t.Models {
		if c.Models.Has(pack.ModelID(id)) {
			r.UseModels = append(r.UseModels, model.ParseModel(t.Models[id]))
		}
	}
	return r
}
