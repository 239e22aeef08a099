package engine

// effort is what a step may still cost, in units of about ten microseconds as measured
// on a small machine. It counts work and reads no clock, so that the same events give
// the same plans everywhere; a step holds the lock that scheduling cycles wait for.
type effort struct {
	left int
	// futile is what a plan costs that finds no place: it looks at every kind of node.
	futile int
	// spent is what plans that found no place cost by namespace, share what one may spend so: a
	// namespace whose gangs fit nowhere leaves the rest of the step to the others.
	spent map[string]int
	share int
}

const (
	startEffort  = 5  // of a member that gets a place
	futileEffort = 10 // of a plan that finds no place, and one more for so many nodes:
	futileNodes  = 50
	// namespaceShare is which part of a step one namespace may spend so.
	namespaceShare = 2
)

func (e *Engine) newEffort() effort {
	nodes, _ := e.cluster.Ledger().Size()
	return effort{
		left: e.options.Effort, share: max(1, e.options.Effort/namespaceShare),
		futile: futileEffort + nodes/futileNodes, spent: map[string]int{},
	}
}

// offered counts an offer about which nothing had to be found out.
func (f *effort) offered() { f.left-- }

// started counts members that got a place.
func (f *effort) started(members int) { f.left -= startEffort * members }

// failed counts a plan that found no place for a gang. That of a gang with subgroups looks at nodes for
// each of them.
func (f *effort) failed(k *tracked) {
	cost := f.futile * (1 + len(k.Subgroups))
	f.left -= cost
	f.spent[k.Namespace] += cost
}

// usedUp says whether a namespace has spent its share of the step.
func (f *effort) usedUp(namespace string) bool { return f.spent[namespace] >= f.share }

// none says whether the step must end.
func (f *effort) none() bool { return f.left <= 0 }
