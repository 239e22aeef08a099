package migrate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

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
	c := &checker{CheckReport: CheckReport{Known: map[string]int{}, Findings: []Finding{}}, profiles: profileNames()}
	var docs []node
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
	profiles []string
	levels   topology.Levels

	// Of the object that is looked at.
	name     string
	reported map[string]bool
}

// objects are the objects of a document: itself, or those of a List.
func (c *checker) objects(d node) []node {
	_, kind := kindOf(d)
	switch {
	case !d.IsMap() || kind == "" || d.Get("apiVersion").Text() == "":
		c.Problems = append(c.Problems, d.Problem("not an object: apiVersion and kind are missing"))
		return nil
	case strings.HasSuffix(kind, "List") && d.Get("items").IsList():
		var out []node
		for _, item := range d.Get("items").Items() {
			item.Path = ""
			out = append(out, c.objects(item)...)
		}
		return out
	}
	return []node{d}
}

// levelsOf are the levels of domains that the manifests define besides the default ones.
func levelsOf(docs []node) topology.Levels {
	levels := topology.DefaultLevels()
	for _, d := range docs {
		group, kind := kindOf(d)
		if kind != "Topology" || group != dialect.KAITopologies.Group && group != dialect.KueueTopologies.Group {
			continue
		}
		object, err := asObject(d)
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

// find adds a finding, once for each field and what is wrong with it.
func (c *checker) find(n node, field, system, what, do string) {
	if key := field + "|" + what; !c.reported[key] {
		c.reported[key] = true
		c.Findings = append(c.Findings, Finding{File: n.File(), Line: n.Line(), Object: c.name, Field: field, System: system, What: what, Do: do})
	}
}

// object checks one object.
func (c *checker) object(d node) {
	c.Objects++
	c.name, c.reported = objectName(d), map[string]bool{}
	group, kind := kindOf(d)
	if system := groupSystem(group); system != "" {
		c.foreign(d, group, kind, system)
	}
	c.walk(d, kind)
}

// foreign checks kind and fields of an object of another system.
func (c *checker) foreign(d node, group, kind, system string) {
	k, known := knownKind(group, kind)
	if !known {
		c.find(d, "kind", system, Unknown, cmp.Or(advise("kind/"+group+"/"+kind), "no counterpart is known"))
		return
	}
	c.Known[system]++
	for _, e := range d.Entries() {
		if slices.Contains([]string{"apiVersion", "kind", "metadata", "status"}, e.Key) {
			continue
		}
		walkLeaves(e.Node, e.Key, func(leaf node, path string) {
			if k.Knows(path) || leaf.Text() != "" && asHere[group+"/"+kind+"/"+path] == leaf.Text() {
				c.Known[system]++
				return
			}
			if leaf.IsNull() || (leaf.IsMap() || leaf.IsList()) && shown(leaf) == "{}" {
				return
			}
			what, do := NoEffect, advise("field/"+group+"/"+kind+"/"+path)
			if do == "" {
				what, do = Unknown, "not a field that is read"+nearest(k.Fields, path)
			}
			c.find(leaf, leaf.Path, system, what, do)
		})
	}
	if err := c.reads(d, group, kind); err != nil {
		field, text, _ := strings.Cut(err.Error(), ": ")
		c.find(locate(d, field), field, system, Malformed, text)
	}
}

// reads lets the reader of a kind say what is invalid.
func (c *checker) reads(d node, group, kind string) error {
	object, err := asObject(d)
	if err != nil {
		return fmt.Errorf("object: %w", err)
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
	return err
}

// walk looks for words in an object: labels and annotations, resources of containers, and pods.
func (c *checker) walk(t node, kind string) {
	for _, e := range t.Entries() {
		switch {
		case e.Key == "status" && t.Path == "":
		case e.Key == "managedFields":
		case e.Key == "metadata":
			c.metadata(e.Node, kind, t)
		case e.Key == "resources" && (e.Get("limits").IsMap() || e.Get("requests").IsMap()):
			for _, list := range []node{e.Get("limits"), e.Get("requests")} {
				for _, r := range list.Entries() {
					c.named(dialect.Resource, r.Key, r, list.Path+"["+r.Key+"]")
				}
			}
		case e.Key == "hard" && kind == "ResourceQuota":
			for _, r := range e.Entries() {
				name := strings.TrimPrefix(strings.TrimPrefix(r.Key, "requests."), "limits.")
				c.named(dialect.Resource, name, r, e.Path+"["+r.Key+"]")
			}
		case e.Key == "schedulerName":
			c.scheduler(e)
		default:
			c.walk(e.Node, kind)
		}
	}
	for _, item := range t.Items() {
		c.walk(item, kind)
	}
	if t.Get("spec", "containers").IsList() {
		c.pod(t)
	}
}

// metadata looks at labels and annotations; owner is what they are about.
func (c *checker) metadata(t node, kind string, owner node) {
	kai := speaks(owner)
	for _, x := range []struct {
		words node
		kind  dialect.WordKind
	}{{t.Get("labels"), dialect.Label}, {t.Get("annotations"), dialect.Annotation}} {
		for _, e := range x.words.Entries() {
			field := x.words.Path + "[" + e.Key + "]"
			if !strings.Contains(e.Key, "/") && dialect.SystemOf(x.kind, e.Key) == "" {
				if kai && kind != "Node" {
					c.unprefixed(x.kind, e, field)
				}
				continue
			}
			c.named(x.kind, e.Key, e, field)
		}
	}
}

// speaks says whether labels and annotations, or the scheduler's name, are of KAI.
func speaks(owner node) bool {
	pod := &v1.Pod{}
	pod.Spec.SchedulerName = owner.Get("spec", "schedulerName").Text()
	pod.Labels, pod.Annotations = map[string]string{}, map[string]string{}
	for _, e := range owner.Get("metadata", "labels").Entries() {
		pod.Labels[e.Key] = e.Text()
	}
	for _, e := range owner.Get("metadata", "annotations").Entries() {
		pod.Annotations[e.Key] = e.Text()
	}
	return dialect.SpeaksKAI(pod)
}

// unprefixed is a word without a domain, of a pod that was written for KAI.
func (c *checker) unprefixed(kind dialect.WordKind, e entry, field string) {
	if w, ok := dialect.FindWord(kind, e.Key); ok {
		c.judge(w, "kai", e, field)
	} else if do := advise(string(kind) + "/" + e.Key); do != "" {
		c.find(e.Node, field, "kai", Unknown, do)
	}
}

// named judges a word by its name.
func (c *checker) named(kind dialect.WordKind, name string, e entry, field string) {
	system := dialect.SystemOf(kind, name)
	if system == "" {
		return
	}
	if w, ok := dialect.FindWord(kind, name); ok {
		c.judge(w, system, e, field)
		return
	}
	do := "not read by Tangram" + nearWord(kind, name)
	if kind == dialect.Resource {
		do = "kube-scheduler counts it where nodes publish it, as any extended resource" + nearWord(kind, name)
	}
	do = cmp.Or(advise(string(kind)+"/"+name), do)
	a := map[dialect.WordKind]string{dialect.Label: "a label", dialect.Annotation: "an annotation", dialect.Resource: "a resource"}
	for _, other := range []dialect.WordKind{dialect.Resource, dialect.Annotation, dialect.Label} { // the last that reads it counts
		if w, ok := dialect.FindWord(other, name); other != kind && ok && w.Effect == dialect.Reads {
			do = fmt.Sprintf("known as %s, not as %s: write it there", a[other], a[kind])
		}
	}
	c.find(e.Node, field, system, Unknown, do)
}

func (c *checker) judge(w dialect.Word, system string, e entry, field string) {
	switch w.Effect {
	case dialect.Refuses:
		c.find(e.Node, field, system, Refused, w.Note)
	case dialect.Ignores:
		c.find(e.Node, field, system, NoEffect, w.Note)
	default:
		c.Known[system]++
	}
}
