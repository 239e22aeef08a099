package stories

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/score"
	"github.com/tangram-dev/tangram/test/coretest"
)

// nodes NAME... [gpus=N] [model=M] [rack=R] [zone=Z] [cpu=CORES] [gpu-memory=MIB] [cordoned=(I,...)]
// [failed=(I,...)] [mig] [nvlink=(0-3,4-7)] [nvswitch=(0-7)] [numa=(0-3,4-7)]
// [kubelet=single-numa-node|restricted]: nodes that come or have another inventory.
func nodes(w *world) string {
	var out []string
	for _, name := range w.words() {
		if name == "mig" {
			continue
		}
		n := w.node(name)
		w.nodes[n.ID] = n
		out = append(out, w.apply(engine.NodeSet{Node: n}))
	}
	return lines(append(out, w.apply(engine.FleetCounted{}))...)
}

func (w *world) node(name string) *model.Node {
	b := coretest.Node(name).GPUs(w.number("gpus", 8), w.value("model", "A100"))
	if w.has("rack") || w.has("zone") {
		b = b.Domains(w.value("zone", "z"), "", w.value("rack", ""))
	}
	n := b.Build()
	if w.has("mig") {
		b.Cuttable()
	}
	if w.has("cpu") {
		n.Host = model.Host{CPU: int64(w.number("cpu", 0)) * 1000, Memory: 1 << 40}
	}
	for i := range n.Devices {
		n.Devices[i].Memory = model.MiB(w.number("gpu-memory", int(n.Devices[i].Memory)))
	}
	switch w.value("kubelet", "") {
	case "single-numa-node":
		b.NUMA(model.OneNUMA, false)
	case "restricted":
		b.NUMA(model.FewestNUMA, false)
	}
	for _, v := range w.values("cordoned") {
		b.Cordon(w.span(v)[0])
	}
	for _, v := range w.values("failed") {
		b.Health(w.span(v)[0], model.Failed)
	}
	for _, v := range w.values("nvlink") {
		b.Link(model.NVLink, 1, w.span(v)...)
	}
	for _, v := range w.values("nvswitch") {
		b.Link(model.NVSwitch, 1, w.span(v)...)
	}
	for numa, v := range w.values("numa") {
		for _, i := range w.span(v) {
			n.Devices[i].NUMA = numa
		}
	}
	return n
}

// span are the numbers of "4-7", or of "4".
func (w *world) span(text string) (out []int) {
	low, high, _ := strings.Cut(text, "-")
	first, err := strconv.Atoi(low)
	if err != nil {
		w.d.Fatalf(w.t, "%q: %v", text, err)
	}
	last, err := strconv.Atoi(cmp.Or(high, low))
	if err != nil {
		w.d.Fatalf(w.t, "%q: %v", text, err)
	}
	for i := first; i <= last; i++ {
		out = append(out, i)
	}
	return out
}

// measure NODE [busy=(PERCENT,...)] [used=(MIB,...)] [celsius=(N,...)] [watts=(N,...)]: what was
// measured on a node's GPUs, one after the other; a GPU without a value was not measured.
func measure(w *world) string {
	n := w.nodes[model.NodeID(w.words()[0])]
	if n == nil {
		w.d.Fatalf(w.t, "no node %q", w.words()[0])
	}
	all := make([]model.Telemetry, len(n.Devices))
	for key, reading := range map[string]func(*model.Telemetry) *model.Reading{
		"busy":    func(t *model.Telemetry) *model.Reading { return &t.Utilization },
		"used":    func(t *model.Telemetry) *model.Reading { return &t.MemoryUsed },
		"celsius": func(t *model.Telemetry) *model.Reading { return &t.Temperature },
		"watts":   func(t *model.Telemetry) *model.Reading { return &t.Power },
	} {
		for i, v := range w.values(key) {
			*reading(&all[i]) = model.Measured(w.span(v)[0])
		}
	}
	return w.apply(engine.NodeSet{Node: n, Telemetry: all})
}

// weights are what options says of objectives: those that it does not name count 0.
func (w *world) weights() score.Weights {
	if !w.has("weights") {
		return score.DefaultWeights()
	}
	var out score.Weights
	for _, v := range w.values("weights") {
		name, text, _ := strings.Cut(v, ":")
		o, known := score.ParseObjective(name)
		if !known {
			w.d.Fatalf(w.t, "no objective %q", name)
		}
		out[o] = w.span(text)[0]
	}
	return out
}

// request is what a member asks for: [share=(MEMORY,COMPUTE)] in thousandths of a GPU,
// [share-memory=MIB], [slice=PROFILE], [model=M], [likes-model=M], [link=nvlink|nvswitch] [numa]
// [likes-link=...] [node-level=rack] [likes-level=rack] [group=G], [labels=(KEY:VALUE,...)],
// [rules=(KIND KEY:VALUE+KEY:VALUE,...)] with "*" for all pods, [placement=binpack|spread],
// [tenant=1..100], [workload=training|inference|development]. cores 0 are what the gang says.
func (w *world) request(gpus, cores int) *model.Request {
	r := coretest.Request(gpus)
	if gpus == 0 {
		r = &model.Request{}
	}
	r.Host = model.Host{CPU: int64(cmp.Or(cores, w.number("cpu", 0))) * 1000}
	if name := w.value("model", ""); name != "" {
		r.UseModels = []model.GPUModel{model.ParseModel(name)}
	}
	if name := w.value("likes-model", ""); name != "" {
		r.PreferModels = []model.GPUModel{model.ParseModel(name)}
	}
	r.Priority, r.TenantPriority = int32(w.number("priority", 0)), w.number("tenant", 0)
	r.Workload = map[string]model.Workload{"training": model.Training, "inference": model.Inference, "development": model.Development}[w.value("workload", "")]
	r.Placement = map[string]model.Placement{"binpack": model.Binpack, "spread": model.Spread}[w.value("placement", "")]
	r.NodePlacement = r.Placement
	link := map[string]model.LinkClass{"nvlink": model.NVLink, "nvswitch": model.NVSwitch}
	r.Require.Bond = model.Bond{Link: link[w.value("link", "")], NUMA: w.has("numa")}
	r.Prefer.Bond = model.Bond{Link: link[w.value("likes-link", "")]}
	r.Require.Level, r.Prefer.Level = w.level(w.value("node-level", "")), w.level(w.value("likes-level", ""))
	if group := w.value("group", ""); group != "" {
		r.Labels = append(r.Labels, model.GroupLabel(group))
	}
	w.part(r)
	for _, v := range w.values("labels") {
		r.Labels = append(r.Labels, w.labels(v)...)
	}
	for _, v := range w.values("rules") {
		r.Affinity = append(r.Affinity, w.rule(v))
	}
	slices.SortFunc(r.Labels, model.Label.Compare)
	return r
}

// part makes each GPU of a request a part of one.
func (w *world) part(r *model.Request) {
	var part model.Part
	if v := w.values("share"); len(v) == 2 {
		part = model.Part{Kind: model.Share, MemoryMilli: w.span(v[0])[0], Milli: w.span(v[1])[0]}
	}
	if w.has("share-memory") {
		part = model.Part{Kind: model.Share, Memory: model.MiB(w.number("share-memory", 0))}
	}
	if w.has("slice") {
		part = model.Part{Kind: model.Slice, Profile: w.value("slice", "")}
	}
	for i := range r.Containers {
		r.Containers[i].Part = part
	}
}

// labels are those of "app:db+tier:gold", of the gang's namespace.
func (w *world) labels(text string) (out []model.Label) {
	for _, pair := range strings.Split(text, "+") {
		key, value, ok := strings.Cut(pair, ":")
		if !ok {
			w.d.Fatalf(w.t, "label %q", pair)
		}
		out = append(out, model.Label{Scope: w.value("ns", "default"), Key: key, Value: value})
	}
	slices.SortFunc(out, model.Label.Compare)
	return out
}

// rule is a rule about other pods: "same-device app:db", "different-node *".
func (w *world) rule(text string) model.AffinityRule {
	name, match, _ := strings.Cut(text, " ")
	kind, ok := model.ParseAffinityKind(name)
	if !ok {
		w.d.Fatalf(w.t, "rule %q", text)
	}
	if match == "*" {
		return model.AffinityRule{Kind: kind}
	}
	return model.AffinityRule{Kind: kind, Match: w.labels(match)}
}

func (w *world) level(name string) model.Level {
	switch name {
	case "zone":
		return model.Level{Name: name, Label: "zone", Depth: 0}
	case "rack":
		return model.Level{Name: name, Label: "rack", Depth: 2}
	case "node":
		return model.Level{Name: name, Depth: model.NodeDepth}
	}
	return model.Level{}
}
