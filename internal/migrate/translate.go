package migrate

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// Options say how to translate.
type Options struct {
	// From is the system, where the input itself does not tell; empty: it must.
	From string
	// Serve: gpu-agent takes the place of HAMi's device plugin.
	Serve bool
}

// Systems are the values of Options.From.
func Systems() []string { return []string{"volcano", "kai", "hami", "kueue"} }

// Translate compares configurations. The report has problems where input cannot be read; what
// could be read is in it all the same.
func Translate(inputs []Input, o Options) *Report {
	r := &Report{}
	w := &kueueWorld{map[string]tree{}, map[string]tree{}, map[string]tree{}, map[string]tree{}}
	for i := range inputs {
		docs, problems := parse(&inputs[i])
		r.Problems = append(r.Problems, problems...)
		for _, d := range docs {
			translate(r, w, d, o)
		}
	}
	(&builder{Report: r, from: "kueue"}).kueue(w)
	r.sorted()
	return r
}

// builderFor is a builder for a system.
func builderFor(r *Report, from string, o Options) *builder {
	return &builder{Report: r, from: from, serve: o.Serve}
}

func translate(r *Report, w *kueueWorld, d tree, o Options) {
	if !d.isMap() {
		r.Problems = append(r.Problems, d.problem("a configuration is a mapping, this is %s", cmp.Or(d.shown(), "empty")))
		return
	}
	group, kind := d.kindOf()
	name := d.get("metadata", "name").text()
	if kind != "" {
		d.object = d.objectName()
	}
	switch {
	case kind == "List":
		for _, item := range d.get("items").items() {
			item.path = ""
			translate(r, w, item, o)
		}
	case group == "kai.scheduler" && kind == "SchedulingShard":
		builderFor(r, "kai", o).kaiShard(d)
	case group == "kai.scheduler" && kind == "Config":
		builderFor(r, "kai", o).kaiConfig(d)
	case group == dialect.KAIQueues.Group && kind == "Queue":
		builderFor(r, "kai", o).kaiQueue(d)
	case group == "kueue.x-k8s.io" && kind == "ClusterQueue":
		w.queues[name] = d
	case group == "kueue.x-k8s.io" && kind == "LocalQueue":
		w.locals[cmp.Or(d.get("metadata", "namespace").text(), "default")+"/"+name] = d
	case group == "kueue.x-k8s.io" && kind == "Cohort":
		w.cohorts[name] = d
	case group == "kueue.x-k8s.io" && kind == "ResourceFlavor":
		w.flavors[name] = d
	case kind == "ConfigMap":
		configMap(r, d, o)
	case kind != "":
		r.Skipped = append(r.Skipped, d.in.Name+": "+d.objectName()+" is no configuration of a scheduler; tangram migrate check looks at its words")
	default:
		if !plainConfig(r, d, o) {
			r.Problems = append(r.Problems, d.problem("neither volcano-scheduler.conf, KAI's configuration nor HAMi's values: it has %s; --from says which it is", keysOf(d)))
		}
	}
}

func keysOf(d tree) string {
	var keys []string
	for _, e := range d.entries() {
		keys = append(keys, e.key)
	}
	if len(keys) > 8 {
		keys = append(keys[:8], "...")
	}
	return strings.Join(keys, ", ")
}

// configMap looks at the entries of a ConfigMap for configurations.
func configMap(r *Report, d tree, o Options) {
	found := false
	for _, e := range d.get("data").entries() {
		if !strings.HasSuffix(e.key, ".conf") && !strings.HasSuffix(e.key, ".yaml") && !strings.HasSuffix(e.key, ".json") {
			continue
		}
		docs, problems := e.inside()
		if len(problems) > 0 {
			r.Problems = append(r.Problems, problems...)
			found = true
			continue
		}
		for _, doc := range docs {
			if _, kind := doc.kindOf(); kind == "KubeSchedulerConfiguration" {
				found = true
				kubeScheduler(builderFor(r, cmp.Or(o.From, "hami"), o), doc)
				continue
			}
			found = doc.isMap() && plainConfig(r, doc, o) || found
		}
	}
	if !found {
		r.Skipped = append(r.Skipped, d.in.Name+": "+d.objectName()+" has no configuration of a scheduler")
	}
}

// plainConfig reads a configuration that is no object; false when it is none.
func plainConfig(r *Report, d tree, o Options) bool {
	has := func(key string) bool { return d.get(key).has() }
	tiers := has("actions") || has("tiers")
	nvidia := d.get("nvidia")
	switch {
	case tiers && (o.From == "kai" || o.From == "" && speaksKAI(d)):
		builderFor(r, "kai", o).kaiConf(d)
	case tiers && (o.From == "volcano" || o.From == ""), o.From == "volcano":
		builderFor(r, "volcano", o).volcano(d)
	case has("nodeconfig"):
		builderFor(r, "hami", o).hamiNodes(d)
	case nvidia.get("resourceCountName").has() || nvidia.isMap() && !has("devicePlugin") || has("vnpus"):
		builderFor(r, "hami", o).hamiDevices(d)
	case has("devicePlugin") || has("scheduler") && d.get("scheduler").get("defaultSchedulerPolicy").has() || o.From == "hami":
		builderFor(r, "hami", o).hamiValues(d)
	default:
		return false
	}
	return true
}

// speaksKAI says whether a configuration with actions and tiers is KAI's: it names an action
// or a plugin that only KAI has.
func speaksKAI(d tree) bool {
	for _, a := range strings.Split(d.get("actions").text(), ",") {
		name := strings.TrimSpace(a)
		_, volcano := volcanoActionTable[name]
		_, kai := kaiActionTable[name]
		if kai && !volcano {
			return true
		}
	}
	for _, tier := range d.get("tiers").items() {
		for _, p := range tier.get("plugins").items() {
			name := p.get("name").text()
			_, volcano := volcanoPluginTable[name]
			_, kai := kaiPluginTable[name]
			if kai && !volcano {
				return true
			}
		}
	}
	return false
}

// kubeScheduler reads a KubeSchedulerConfiguration with an extender, as HAMi installs.
func kubeScheduler(b *builder, d tree) {
	for _, e := range d.entries() {
		switch e.key {
		case "apiVersion", "kind":
		case "profiles":
			for _, p := range e.items() {
				name := p.get("schedulerName")
				b.Result.profile(name.text())
				b.of(name, answer{Set, "profiles[].schedulerName", "a profile of that name"})
				for _, f := range p.entries() {
					if f.key != "schedulerName" {
						b.of(f.tree, answer{Differs, f.path, "fields of kube-scheduler itself: take them over by hand"})
					}
				}
			}
		case "extenders":
			b.row(e.tree, e.keyLine(), e.path, e.shown(), answer{Always, "", "not needed: what HAMi's extender does is done by GPUFilter, GPUScore, GPUReserve and GPUBind"})
		case "leaderElection":
			b.row(e.tree, e.keyLine(), e.path, e.shown(), answer{Always, "leaderElection", "a Lease of its own"})
		default:
			b.row(e.tree, e.keyLine(), e.path, e.shown(), answer{Differs, e.key, "a field of kube-scheduler itself: take it over by hand"})
		}
	}
}

// queueObject is a queue as an object of Volcano's kind.
func queueObject(q arbiter.Queue) map[string]any {
	spec := map[string]any{"weight": q.Weight, "reclaimable": q.Reclaimable}
	if q.Parent != "" {
		spec["parent"] = q.Parent
	}
	if q.Priority != 0 {
		spec["priority"] = int64(q.Priority)
	}
	if len(q.Deserved) > 0 {
		spec["deserved"] = resourceList(q.Deserved)
	}
	if len(q.Capability) > 0 {
		spec["capability"] = resourceList(q.Capability)
	}
	metadata := map[string]any{"name": q.Name}
	if len(q.Namespaces) > 0 {
		metadata["annotations"] = map[string]any{"tangram.dev/namespaces": strings.Join(q.Namespaces, ",")}
	}
	return map[string]any{"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": metadata, "spec": spec}
}

// resourceList writes amounts of the arbiter as quantities.
func resourceList(amounts map[arbiter.Resource]int64) map[string]any {
	out := map[string]any{}
	for r, n := range amounts {
		switch r {
		case engine.CPU:
			out["cpu"] = resource.NewMilliQuantity(n, resource.DecimalSI).String()
		case engine.Memory:
			out["memory"] = strconv.FormatInt(n, 10) + "Mi"
		case engine.GPU(model.NVIDIA):
			out["nvidia.com/gpu"] = resource.NewMilliQuantity(n, resource.DecimalSI).String()
		default:
			out[strings.TrimPrefix(string(r), "resource/")] = fmt.Sprint(n)
		}
	}
	return out
}

// Validate says whether a system is known.
func (o Options) Validate() error {
	if o.From != "" && !slices.Contains(Systems(), o.From) {
		return fmt.Errorf("--from: %q is not one of %s", o.From, strings.Join(Systems(), ", "))
	}
	return nil
}
