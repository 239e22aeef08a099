package dialect

import (
	"strings"
	"sync"

	"github.com/tangram-dev/tangram/core/model"
)

// WordKind is where a manifest writes a word.
type WordKind string

// The kinds of words.
const (
	Label      WordKind = "label"
	Annotation WordKind = "annotation"
	Resource   WordKind = "resource" // of requests and limits
)

// Effect is what a word does.
type Effect string

// The effects.
const (
	// Reads: it counts, as the guides say.
	Reads Effect = "read"
	// Writes: Tangram writes it for others to read; what people write there does not count.
	Writes Effect = "written"
	// Refuses: a pod with it is refused, since it cannot mean the same.
	Refuses Effect = "refused"
	// Ignores: it has no effect, which is reported on the pod.
	Ignores Effect = "ignored"
)

// Counts is what an amount of a resource, or of an annotation in its place, is an amount of.
type Counts string

// What words count. Devices, Turns and MiB are asked for alone, the others with words of their family.
const (
	Devices Counts = "whole devices"
	Turns   Counts = "turns on devices"
	MiB     Counts = "MiB of one device"
	Slices  Counts = "MIG slices"
	Cards   Counts = "devices of which others say how much"
	Memory  Counts = "memory"
	Compute Counts = "compute"
	Holder  Counts = "the container that has them"
)

// Source is what publishes a resource on nodes, or when an annotation is written.
type Source string

// The sources.
const (
	// Plugin: a device plugin publishes it, so kube-scheduler counts it as well.
	Plugin Source = "device plugin"
	// Tangram: no node need publish it; it is counted device by device.
	Tangram Source = "Tangram"
	// NodeOnly: a device plugin publishes it to describe the node; pods do not ask for it.
	NodeOnly Source = "device plugin, on nodes only"
	// Binding: it is written with the pod's Binding, for device plugins.
	Binding Source = "Binding"
)

// Right is what a tenant needs to use a word by which a pod gets more (config/tenants/policies.yaml).
type Right string

// The rights.
const (
	QueueRight     Right = "queue"
	PriorityRight  Right = "priority class"
	UserRight      Right = "user name"
	ExemptionRight Right = "exemption from preemption"
)

// Word is a name that this package knows.
type Word struct {
	Kind WordKind
	// Name is the whole name; one * stands for one or more characters, and case does not matter around it.
	Name   string
	Effect Effect
	// Note says what to do instead, of words that are refused or ignored.
	Note string
	// Counts is set for words by which pods ask for devices, Source for resources and annotations of a Binding.
	Counts Counts
	Source Source
	// Vendor is set for the resource that sells a vendor's devices whole.
	Vendor model.Vendor
	// Right is what a tenant needs to use the word; empty when it is open to all.
	Right Right
}

func listed(kind WordKind, effect Effect, words ...string) []Word {
	out := make([]Word, len(words))
	for i, w := range words {
		out[i] = Word{Kind: kind, Name: w, Effect: effect}
	}
	return out
}

func labelWords(words ...string) []Word      { return listed(Label, Reads, words...) }
func annotationWords(words ...string) []Word { return listed(Annotation, Reads, words...) }

// each changes words and returns them.
func each(words []Word, change func(w *Word)) []Word {
	for i := range words {
		change(&words[i])
	}
	return words
}

// boundWords are annotations that are written with a Binding.
func boundWords(words ...string) []Word {
	return each(listed(Annotation, Writes, words...), func(w *Word) { w.Source = Binding })
}

// refusedWords are annotations that cannot be kept, with what to do instead.
func refusedWords(note string, words ...string) []Word {
	return each(listed(Annotation, Refuses, words...), func(w *Word) { w.Note = note })
}

// granting are words that need a right.
func granting(right Right, words []Word) []Word {
	return each(words, func(w *Word) { w.Right = right })
}

func counted(source Source, counts Counts, words []string) []Word {
	return each(listed(Resource, Reads, words...), func(w *Word) { w.Source, w.Counts = source, counts })
}

// plugin are resources of device plugins, here those that Tangram counts alone, onNodes those that describe nodes.
func plugin(counts Counts, words ...string) []Word  { return counted(Plugin, counts, words) }
func here(counts Counts, words ...string) []Word    { return counted(Tangram, counts, words) }
func onNodes(counts Counts, words ...string) []Word { return counted(NodeOnly, counts, words) }

// sold is the resource that sells a vendor's devices whole.
func sold(vendor model.Vendor, word string) []Word {
	return []Word{{Kind: Resource, Name: word, Effect: Reads, Counts: Devices, Source: Plugin, Vendor: vendor}}
}

// Words are all labels, annotations and resources that this package reads, refuses or writes: those
// that `tangram migrate check` knows. TestWords fails for one that is read and not here.
func Words() []Word {
	var out []Word
	for _, f := range families {
		out = append(out, f.words...)
	}
	return out
}

// Matches says whether the row is about a name.
func (w *Word) Matches(name string) bool {
	begin, end, pattern := strings.Cut(w.Name, "*")
	if !pattern {
		return w.Name == name
	}
	rest, ok := cutPrefixFold(name, begin)
	return ok && len(rest) > len(end) && strings.EqualFold(rest[len(rest)-len(end):], end)
}

// wordIndex finds words without a walk over all of them: every pod is looked at.
type wordIndex struct {
	exact    map[WordKind]map[string]indexedWord
	patterns []Word
}

type indexedWord struct {
	Word
	system string
}

var indexed = sync.OnceValue(func() wordIndex {
	out := wordIndex{exact: map[WordKind]map[string]indexedWord{Label: {}, Annotation: {}, Resource: {}}}
	for _, f := range families {
		for _, w := range f.words {
			if strings.Contains(w.Name, "*") {
				out.patterns = append(out.patterns, w)
			} else {
				out.exact[w.Kind][w.Name] = indexedWord{w, f.system}
			}
		}
	}
	return out
})

// FindWord is the row of a word: names without a pattern first, then patterns in the order of the table.
func FindWord(kind WordKind, name string) (Word, bool) {
	x := indexed()
	if w, ok := x.exact[kind][name]; ok {
		return w.Word, true
	}
	for _, w := range x.patterns {
		if w.Kind == kind && w.Matches(name) {
			return w, true
		}
	}
	return Word{}, false
}

// annotation and label are the fields of a pod that have a word, for messages.
func annotation(key string) string { return "metadata.annotations[" + key + "]" }
func label(key string) string      { return "metadata.labels[" + key + "]" }
