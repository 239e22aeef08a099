package migrate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/config"
	"github.com/tangram-dev/tangram/core/topology"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// Finding is a word of a manifest that does not do what it did elsewhere.
type Finding struct {
	File   string `json:"file"`
	Line   int    `json:"line,omitempty"`
	Object string `json:"object"`
	Field  string `json:"field"`
	System string `json:"system"`
	// What is unknown, refused, ignored or invalid.
	What string `json:"what"`
	Do   string `json:"do"`
}

// What is wrong with a word.
const (
	Unknown   = "unknown"   // no meaning here
	Refused   = "refused"   // a pod with it does not start
	NoEffect  = "no effect" // known, and without effect
	Malformed = "invalid"   // its value is refused
)

// CheckReport is what a check of manifests found.
type CheckReport struct {
	Findings []Finding `json:"findings"`
	// Known counts the words that Tangram knows, by system.
	Known    map[string]int `json:"known"`
	Objects  int            `json:"objects"`
	Problems []Problem      `json:"problems,omitempty"`
}

// KnownWords is how many words were known in all.
func (r *CheckReport) KnownWords() (n int) {
	for _, k := range r.Known {
		n += k
	}
	return n
}

// Check looks at manifests.
func Check(inputs []Input) *CheckReport {
	c := &checker{CheckReport: CheckReport{Known: map[string]int{}, Findings: []Finding{}}, words: dialect.Words(), kinds: dialect.KnownKinds(), profiles: profileNames()}
	var docs []tree
	for i := range inputs {
		list, problems := parse(&inputs[i])
		c.Problems = append(c.Problems, problems...)
		for _, d := range list {
			docs = append(docs, c.objects(d)...)
		}
	}
	c.levels = levelsOf(docs)
	for _, d := range docs {
		c.object(d)
	}
	return &c.CheckReport
}

// profileNames are the profiles of the default configuration.
func profileNames() []string {
	var conf struct {
		Profiles []struct {
			SchedulerName string `json:"schedulerName"`
		} `json:"profiles"`
	}
	_ = yaml.Unmarshal(config.Scheduler(), &conf) // a file of ours, read by tests
	var out []string
	for _, p := range conf.Profiles {
		out = append(out, p.SchedulerName)
	}
	return out
}

type checker struct {
	CheckReport
	words    []dialect.Word
	kinds    []dialect.KnownKind
	profiles []string
	levels   topology.Levels

	// Of the object that is looked at.
	name     string
	reported map[string]bool
}

// objects are the objects of a document: itself, or those of a List.
func (c *checker) objects(d tree) []tree {
	_, kind := d.kindOf()
	switch {
	case !d.isMap() || kind == "" || d.get("apiVersion").text() == "":
		c.Problems = append(c.Problems, d.problem("not an object: apiVersion and kind are missing"))
		return nil
	case strings.HasSuffix(kind, "List") && d.get("items").isList():
		var out []tree
		for _, item := range d.get("items").items() {
			item.path = ""
			out = append(out, c.objects(item)...)
		}
		return out
	}
	return []tree{d}
}

// levelsOf are the levels of domains that the manifests define besides the default ones.
func levelsOf(docs []tree) topology.Levels {
	levels := topology.DefaultLevels()
	for _, d := range docs {
		group, kind := d.kindOf()
		if kind != "Topology" || group != dialect.KAITopologies.Group && group != dialect.KueueTopologies.Group {
			continue
		}
		object, err := d.asObject()
		if err != nil {
			continue
		}
		more, err := dialect.TopologyLevels(&unstructured.Unstructured{Object: object})
		for _, l := range more {
			if _, known := levels.OfLabel(l.Label); !known && err == nil && len(levels) < topology.MaxLevels {
				levels = append(levels, l)
			}
		}
	}
	return levels
}

func (c *checker) find(t tree, line int, field, system, what, do string) {
	key := field + "|" + what
	if c.reported[key] {
		return
	}
	c.reported[key] = true
	if t.in.Object {
		line = 0
	}
	c.Findings = append(c.Findings, Finding{File: t.in.Name, Line: line, Object: c.name, Field: field, System: system, What: what, Do: do})
}

// object checks one object.
func (c *checker) object(d tree) {
	c.Objects++
	c.name, c.reported = d.objectName(), map[string]bool{}
	group, kind := d.kindOf()
	if system := groupSystem(group); system != "" {
		c.foreign(d, group, kind, system)
	}
	c.walk(d, kind)
}

// foreign checks kind and fields of an object of another system.
func (c *checker) foreign(d tree, group, kind, system string) {
	at := slices.IndexFunc(c.kinds, func(k dialect.KnownKind) bool { return k.Group == group && k.Kind == kind })
	if at < 0 {
		do := cmp.Or(adviseKind(group, kind), "no counterpart is known")
		c.find(d, d.line(), "kind", system, Unknown, do)
		return
	}
	c.Known[system]++
	k := c.kinds[at]
	for _, e := range d.entries() {
		if slices.Contains([]string{"apiVersion", "kind", "metadata", "status"}, e.key) {
			continue
		}
		walkLeaves(e.tree, e.key, func(leaf tree, path string) {
			if k.Knows(path) || leaf.text() != "" && asHere[group+"/"+kind][path] == leaf.text() {
				c.Known[system]++
				return
			}
			if leaf.isNull() || (leaf.isMap() || leaf.isList()) && leaf.shown() == "{}" {
				return
			}
			what, do := NoEffect, adviseField(group, kind, path)
			if do == "" {
				what, do = Unknown, "not a field that is read"+c.nearField(k, path)
			}
			c.find(leaf, leaf.line(), leaf.path, system, what, do)
		})
	}
	if message := c.reads(d, group, kind); message != "" {
		field, text, _ := strings.Cut(message, ": ")
		at := d.locate(field)
		c.find(at, at.line(), field, system, Malformed, text)
	}
}

// reads lets the reader of a kind say what is invalid.
func (c *checker) reads(d tree, group, kind string) string {
	object, err := d.asObject()
	if err != nil {
		return "object: " + err.Error()
	}
	u := &unstructured.Unstructured{Object: object}
	switch {
	case kind == "Queue" && group == dialect.Queues.Group:
		_, err = dialect.QueueOf(u)
	case kind == "Queue" && group == dialect.KAIQueues.Group:
		_, err = dialect.KAIQueueOf(u)
	case kind == "PodGroup" && group != dialect.PodGroups.Group: // Volcano's may name tiers, which HyperNodes define
		_, err = dialect.GroupOf(u, c.levels)
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// walk looks for words in every part of an object: labels and annotations of metadata,
// resources of containers, and pods.
func (c *checker) walk(t tree, kind string) {
	for _, e := range t.entries() {
		switch {
		case e.key == "status" && t.path == "":
		case e.key == "managedFields":
		case e.key == "metadata":
			c.metadata(e.tree, kind, t)
		case e.key == "resources" && (e.get("limits").isMap() || e.get("requests").isMap()):
			for _, list := range []tree{e.get("limits"), e.get("requests")} {
				for _, r := range list.entries() {
					c.word(dialect.Resource, r, list.path+"["+r.key+"]")
				}
			}
		case e.key == "hard" && kind == "ResourceQuota":
			for _, r := range e.entries() {
				name := strings.TrimPrefix(strings.TrimPrefix(r.key, "requests."), "limits.")
				c.named(dialect.Resource, name, r, e.path+"["+r.key+"]")
			}
		case e.key == "schedulerName":
			c.scheduler(e)
		default:
			c.walk(e.tree, kind)
		}
	}
	for _, item := range t.items() {
		c.walk(item, kind)
	}
	if t.get("spec", "containers").isList() {
		c.pod(t)
	}
}

// metadata looks at labels and annotations; owner is what they are about.
func (c *checker) metadata(t tree, kind string, owner tree) {
	kai := speaks(owner)
	for _, x := range []struct {
		words tree
		kind  dialect.WordKind
	}{{t.get("labels"), dialect.Label}, {t.get("annotations"), dialect.Annotation}} {
		for _, e := range x.words.entries() {
			field := x.words.path + "[" + e.key + "]"
			if !strings.Contains(e.key, "/") && systemOf(x.kind, e.key) == "" {
				if kai && kind != "Node" {
					c.unprefixed(x.kind, e, field)
				}
				continue
			}
			c.word(x.kind, e, field)
		}
	}
}

// speaks says whether labels and annotations, or the scheduler's name, are of KAI.
func speaks(owner tree) bool {
	pod := &v1.Pod{}
	pod.Spec.SchedulerName = owner.get("spec", "schedulerName").text()
	pod.Labels, pod.Annotations = map[string]string{}, map[string]string{}
	for _, e := range owner.get("metadata", "labels").entries() {
		pod.Labels[e.key] = e.text()
	}
	for _, e := range owner.get("metadata", "annotations").entries() {
		pod.Annotations[e.key] = e.text()
	}
	return dialect.SpeaksKAI(pod)
}

// unprefixed is a word without a domain, of a pod that was written for KAI.
func (c *checker) unprefixed(kind dialect.WordKind, e entry, field string) {
	if w, ok := c.lookup(kind, e.key); ok {
		c.judge(w, "kai", e, field)
	} else if do := adviseWord(kind, e.key); do != "" {
		c.find(e.tree, e.keyLine(), field, "kai", Unknown, do)
	}
}

func (c *checker) word(kind dialect.WordKind, e entry, field string) { c.named(kind, e.key, e, field) }

// named judges a word by its name.
func (c *checker) named(kind dialect.WordKind, name string, e entry, field string) {
	system := systemOf(kind, name)
	if system == "" {
		return
	}
	if w, ok := c.lookup(kind, name); ok {
		c.judge(w, system, e, field)
		return
	}
	do := ""
	for _, other := range []dialect.WordKind{dialect.Label, dialect.Annotation, dialect.Resource} {
		if w, ok := c.lookup(other, name); do == "" && other != kind && ok && w.Effect == dialect.Reads {
			do = fmt.Sprintf("known as %s, not as %s: write it there", article(other), article(kind))
		}
	}
	if do == "" {
		do = cmp.Or(adviseWord(kind, name), "not read by Tangram"+c.near(kind, name))
	}
	c.find(e.tree, e.keyLine(), field, system, Unknown, do)
}

func article(kind dialect.WordKind) string {
	if kind == dialect.Annotation {
		return "an " + string(kind)
	}
	return "a " + string(kind)
}

func (c *checker) lookup(kind dialect.WordKind, name string) (found dialect.Word, ok bool) {
	for _, w := range c.words {
		if w.Kind == kind && w.Matches(name) && (!ok || w.Name == name) {
			found, ok = w, true
		}
	}
	return found, ok
}

func (c *checker) judge(w dialect.Word, system string, e entry, field string) {
	switch w.Effect {
	case dialect.Refuses:
		c.find(e.tree, e.keyLine(), field, system, Refused, w.Note)
	case dialect.Ignores:
		c.find(e.tree, e.keyLine(), field, system, NoEffect, w.Note)
	default:
		c.Known[system]++
	}
}

// scheduler checks which scheduler a pod asks for: another system's that is not a profile.
func (c *checker) scheduler(e entry) {
	name := e.text()
	if slices.Contains(c.profiles, name) {
		c.Known["schedulerName"]++
		return
	}
	foreign := slices.Contains(names.KAISchedulerNames, name) || slices.ContainsFunc([]string{"volcano", "hami", "vgpu", "koord", "runai", "kai"}, func(w string) bool {
		return strings.Contains(name, w)
	})
	if foreign {
		c.find(e.tree, e.line(), e.path, "schedulerName", Unknown,
			fmt.Sprintf("%q is not a profile: add one of the name to the configuration (profiles, or scheduler.profiles of the chart), or write %s", name, names.SchedulerName))
	}
}

// pod lets Tangram's own readers look at a pod or a pod's template.
func (c *checker) pod(t tree) {
	object, err := t.asObject()
	if err != nil {
		c.Problems = append(c.Problems, t.problem("%v", err))
		return
	}
	text, err := json.Marshal(object)
	if err != nil {
		c.Problems = append(c.Problems, t.problem("%v", err))
		return
	}
	pod := &v1.Pod{}
	if err := json.Unmarshal(text, pod); err != nil {
		c.Problems = append(c.Problems, t.problem("not a pod: %v", err))
		return
	}
	pod.Spec.NodeName = "" // what it asks for, not what it was given
	_, ask := dialect.RequestOn(pod, c.levels)
	_, gang := dialect.MembershipOf(pod)
	for _, err := range []error{ask, gang} {
		if err == nil {
			continue
		}
		field, text, ok := strings.Cut(err.Error(), ": ")
		if !ok {
			field, text = "spec", err.Error()
		}
		full := child(t.path, field)
		if c.reported[full+"|"+Refused] {
			continue
		}
		at := t.locate(field)
		c.find(at, at.line(), full, "tangram", Malformed, text)
	}
}

// locate is the value of a field as Tangram's errors write it, metadata.labels[a/b] or
// spec.weight; t itself when it is not there.
func (t tree) locate(field string) tree {
	path, key, keyed := strings.Cut(strings.TrimSuffix(field, "]"), "[")
	at := t
	for part := range strings.SplitSeq(path, ".") {
		at = at.get(part)
	}
	if keyed {
		at = at.get(key)
	}
	if !at.has() {
		return t
	}
	return at
}

// near suggests the known word that is closest to a name.
func (c *checker) near(kind dialect.WordKind, name string) string {
	best, least := "", 4 // a distance above 3 is another word
	for _, w := range c.words {
		if w.Kind == kind && !strings.Contains(w.Name, "*") && w.Effect == dialect.Reads {
			if d := distance(w.Name, name); d < least {
				best, least = w.Name, d
			}
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean " + best + "?"
}

func (c *checker) nearField(k dialect.KnownKind, path string) string {
	best, least := "", 4
	for _, f := range k.Fields {
		if d := distance(f, path); d < least {
			best, least = f, d
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean " + best + "?"
}

// distance is how many letters must be inserted, removed or replaced; it is only meant for
// names, and gives up on long ones.
func distance(a, b string) int {
	if len(a) > 128 || len(b) > 128 || len(a)-len(b) > 3 || len(b)-len(a) > 3 {
		return 128
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diagonal
			if a[i-1] != b[j-1] {
				cost++
			}
			diagonal = row[j]
			row[j] = min(row[j]+1, row[j-1]+1, cost)
		}
	}
	return row[len(b)]
}
