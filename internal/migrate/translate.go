package migrate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/arbiter"
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

// Translate compares configurations. The report has what could be read, and problems of the rest.
func Translate(inputs []Input, o Options) *Report {
	r := &Report{}
	w := &kueueWorld{}
	for i := range inputs {
		docs, problems := parse(&inputs[i])
		r.Problems = append(r.Problems, problems...)
		for _, d := range docs {
			translate(r, w, d, o)
		}
	}
	(&builder{Report: r, from: "kueue"}).kueue(w)
	slices.SortStableFunc(r.Rows, func(a, b Row) int { return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line)) })
	return r
}

// builderFor is a builder for a system.
func builderFor(r *Report, from string, o Options) *builder {
	return &builder{Report: r, from: from, serve: o.Serve}
}

// kinds are the objects that are configurations, by group/kind.
var kinds = map[string]struct {
	system string
	read   func(b *builder, n node)
}{
	"kai.scheduler/SchedulingShard": {"kai", (*builder).kaiShard},
	"kai.scheduler/Config":          {"kai", (*builder).kaiConfig},
	"scheduling.run.ai/Queue":       {"kai", (*builder).kaiQueue},
}

func translate(r *Report, w *kueueWorld, d node, o Options) {
	if !d.IsMap() {
		r.Problems = append(r.Problems, d.Problem("a configuration is a mapping, this is %s", cmp.Or(shown(d), "empty")))
		return
	}
	group, kind := kindOf(d)
	if kind != "" {
		d.Part = objectName(d)
	}
	if k, ok := kinds[group+"/"+kind]; ok {
		k.read(builderFor(r, k.system, o), d)
		return
	}
	switch {
	case kind == "List":
		for _, item := range d.Get("items").Items() {
			translate(r, w, item.Named(""), o)
		}
	case group == "kueue.x-k8s.io" && w.add(kind, d):
	case kind == "ConfigMap":
		configMap(r, d, o)
	case kind != "":
		r.Skipped = append(r.Skipped, d.File()+": "+objectName(d)+" is no configuration of a scheduler; tangram migrate check looks at its words")
	case !plainConfig(r, d, o):
		r.Problems = append(r.Problems, d.Problem("neither volcano-scheduler.conf, KAI's configuration nor HAMi's values: it has %s; --from says which it is", keysOf(d)))
	}
}

func keysOf(d node) string {
	var keys []string
	for _, e := range d.Entries() {
		keys = append(keys, e.Key)
	}
	if len(keys) > 8 {
		keys = append(keys[:8], "...")
	}
	return strings.Join(keys, ", ")
}

// configMap looks at the entries of a ConfigMap for configurations.
func configMap(r *Report, d node, o Options) {
	found := false
	for _, e := range d.Get("data").Entries() {
		if !strings.HasSuffix(e.Key, ".conf") && !strings.HasSuffix(e.Key, ".yaml") && !strings.HasSuffix(e.Key, ".json") {
			continue
		}
		docs, problems := e.Inside()
		r.Problems = append(r.Problems, problems...)
		found = found || len(problems) > 0
		for _, doc := range docs {
			if _, kind := kindOf(doc); kind == "KubeSchedulerConfiguration" {
				found = true
				kubeScheduler(builderFor(r, cmp.Or(o.From, "hami"), o), doc)
				continue
			}
			found = doc.IsMap() && plainConfig(r, doc, o) || found
		}
	}
	if !found {
		r.Skipped = append(r.Skipped, d.File()+": "+objectName(d)+" has no configuration of a scheduler")
	}
}

// plainConfig reads a configuration that is no object; false when it is none.
func plainConfig(r *Report, d node, o Options) bool {
	has := func(keys ...string) bool { return d.Get(keys...).Has() }
	tiers := has("actions") || has("tiers")
	switch {
	case tiers && (o.From == "kai" || o.From == "" && isKAI(d)):
		builderFor(r, "kai", o).kaiConf(d)
	case tiers && o.From == "", o.From == "volcano":
		builderFor(r, "volcano", o).volcano(d)
	case has("nodeconfig"):
		builderFor(r, "hami", o).hamiNodes(d)
	case has("nvidia", "resourceCountName") || d.Get("nvidia").IsMap() && !has("devicePlugin") || has("vnpus"):
		builderFor(r, "hami", o).hamiDevices(d)
	case has("devicePlugin") || has("scheduler", "defaultSchedulerPolicy") || o.From == "hami":
		builderFor(r, "hami", o).hamiValues(d)
	default:
		return false
	}
	return true
}

// isKAI says whether a configuration is KAI's: it names an action or a plugin that only KAI has.
func isKAI(d node) bool {
	only := func(path string) bool {
		return len(about("kai", path)) > 0 && len(about("volcano", path)) == 0
	}
	for a := range strings.SplitSeq(d.Get("actions").Text(), ",") {
		if only("action/" + strings.TrimSpace(a)) {
			return true
		}
	}
	for _, tier := range d.Get("tiers").Items() {
		for _, p := range tier.Get("plugins").Items() {
			if only("plugin/" + p.Get("name").Text()) {
				return true
			}
		}
	}
	return false
}

// kubeScheduler reads a KubeSchedulerConfiguration with an extender, as HAMi installs.
func kubeScheduler(b *builder, d node) {
	for _, e := range d.Entries() {
		switch e.Key {
		case "apiVersion", "kind":
		case "profiles":
			for _, p := range e.Items() {
				b.Result.profile(p.Get("schedulerName").Text())
				for _, f := range p.Entries() {
					a := answer{Set, "profiles[].schedulerName", "a profile of that name"}
					if f.Key != "schedulerName" {
						a = answer{Differs, f.Path, "fields of kube-scheduler itself: take them over by hand"}
					}
					b.row(of(f.Node), a)
				}
			}
		case "extenders":
			b.row(of(e.Node), answer{Always, "", "not needed: what HAMi's extender does is done by GPUFilter, GPUScore, GPUReserve and GPUBind"})
		case "leaderElection":
			b.row(of(e.Node), answer{Always, "leaderElection", "a Lease of its own"})
		default:
			b.row(of(e.Node), answer{Differs, e.Key, "a field of kube-scheduler itself: take it over by hand"})
		}
	}
}

// queueObject is a queue as an object of Volcano's kind.
func queueObject(q arbiter.Queue) map[string]any {
	spec, annotations := map[string]any{"weight": q.Weight, "reclaimable": q.Reclaimable}, map[string]any{}
	if q.Parent != "" {
		spec["parent"] = q.Parent
	}
	if q.Priority != 0 {
		spec["priority"] = int64(q.Priority)
	}
	for field, amounts := range map[string]map[arbiter.Resource]int64{"deserved": q.Deserved, "capability": q.Capability} {
		list := map[string]any{}
		for name, amount := range dialect.Quantities(amounts) {
			list[string(name)] = amount.String()
		}
		if len(amounts) > 0 {
			spec[field] = list
		}
	}
	if len(q.Namespaces) > 0 {
		annotations[names.AnnotationNamespaces] = strings.Join(q.Namespaces, ",")
	}
	return volcanoQueue(q.Name, annotations, spec)
}

// volcanoQueue is a Queue object.
func volcanoQueue(name string, annotations, spec map[string]any) map[string]any {
	metadata := map[string]any{"name": name}
	if len(annotations) > 0 {
		metadata["annotations"] = annotations
	}
	return map[string]any{"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": metadata, "spec": spec}
}

// Validate says whether a system is known.
func (o Options) Validate() error {
	if o.From != "" && !slices.Contains(Systems(), o.From) {
		return fmt.Errorf("--from: %q is not one of %s", o.From, strings.Join(Systems(), ", "))
	}
	return nil
}
