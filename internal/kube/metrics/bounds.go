package metrics

import (
	"slices"
	"sync"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/measure"
)

// How many values labels have at most, beside "other".
const (
	maxQueues  = 200
	maxPlugins = 64
	// maxSpaces bounds namespaces with a quota, maxModels models of the fleet.
	maxSpaces = 200
	maxModels = 64
)

// bounded is measure.Names with a lock, for labels of metrics that count.
type bounded struct {
	mu    sync.Mutex
	label string
	names *measure.Names
	// known are the values that exist; nil: all. Others are "other" at once, so that pods
	// cannot make values up.
	known map[string]bool
}

var (
	queueNames = &bounded{label: "queue", names: measure.NewNames(maxQueues), known: map[string]bool{arbiter.Default: true, arbiter.Root: true}}
	plugins    = &bounded{label: "plugin", names: measure.NewNames(maxPlugins)}
)

// admit is the value under which a name is counted.
func (b *bounded) admit(name string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.known != nil && !b.known[name] {
		return measure.Other
	}
	out := b.names.Admit(name)
	if out != name {
		folded.WithLabelValues(b.label).Inc()
	}
	return out
}

// set says which values exist now, and returns those that are gone.
func (b *bounded) set(names []string) (dropped []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.known = map[string]bool{}
	for _, n := range names {
		b.known[n] = true
	}
	return b.names.Keep(func(name string) bool { return b.known[name] })
}

// SetQueues says which queues exist. Series of queues that are gone end.
func SetQueues(names []string) {
	for _, queue := range queueNames.set(names) {
		queueWait.Delete(map[string]string{"queue": queue})
		lostHours.Delete(map[string]string{"queue": queue})
		for _, cause := range []string{CausePriority, CauseReclaim} {
			preemptions.Delete(map[string]string{"queue": queue, "cause": cause})
		}
	}
}

// fold bounds the values of a gauge that is made anew at each scrape: the first of the
// sorted names are kept, the others are one together.
func fold[T any](list []T, most int, name func(T) string) func(string) string {
	var names []string
	for _, x := range list {
		names = append(names, name(x))
	}
	slices.Sort(names)
	admitted := measure.NewNames(most)
	for _, n := range names {
		admitted.Admit(n)
	}
	return admitted.Admit
}
