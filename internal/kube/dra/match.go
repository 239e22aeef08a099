package dra

import (
	"context"
	"slices"
	"strings"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"

	"github.com/tangram-dev/tangram/internal/dialect"
)

// Set is the devices that all of some CEL expressions match, node by node. It is safe for
// concurrent use.
type Set struct {
	key         string
	expressions []string
	matcher     *Matcher
	// namespace asked for it first; wanted is when it was last asked for. Guarded by the
	// matcher's lock.
	namespace string
	wanted    int64

	mu sync.RWMutex
	// known: every node has been looked at once.
	known bool
	// problem is the first error of an expression; such devices do not match.
	problem error
	byNode  map[string]*Matched
	// sum is what all nodes amount to; nil: to be computed.
	sum *summary
}

// summary is what a set matches on all nodes together.
type summary struct {
	// any: something matches. cards is the least number of whole cards that match on a node
	// where any does, 0 when none does anywhere.
	any   bool
	cards int
	// shared: all cards that match may be had by several claims at once.
	shared bool
	// profile is the smallest MIG profile that matches; empty when none does.
	profile string
	// partial: on some node only some cards match. named are the cards that match, sorted;
	// no more than maxNamed and one node's.
	partial bool
	named   []string
}

// summary returns what all nodes amount to; not to be changed.
func (s *Set) summary() *summary {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sum != nil {
		return s.sum
	}
	out := &summary{shared: true}
	size := 0
	for _, m := range s.byNode {
		out.any = true
		for i := range m.Parts {
			if p := &m.Parts[i]; out.profile == "" || p.Size < size || p.Size == size && p.Profile < out.profile {
				out.profile, size = p.Profile, p.Size
			}
		}
		if n := len(m.Whole); n > 0 {
			out.shared = out.shared && m.Shared == n
			if out.cards == 0 || n < out.cards {
				out.cards = n
			}
		}
		out.partial = out.partial || len(m.Whole) < m.Cards
		if len(out.named) <= maxNamed {
			out.named = append(out.named, m.Whole...)
		}
	}
	slices.Sort(out.named)
	s.sum = out
	return out
}

// Matched are the devices of one node that a set matches.
type Matched struct {
	// Whole are the cards that match as whole GPUs, Cards how many the node has.
	Whole []string
	Cards int
	// Shared are those of Whole that several claims may have at once.
	Shared int
	// Parts are the MIG devices that match.
	Parts []dialect.Published
	// All are all of them, for constraints between devices.
	All []dialect.Published
}

// On is what matches on a node; nil when nothing does, or nothing is known yet.
func (s *Set) On(node string) *Matched {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.byNode[node]
}

// Known says whether every node has been looked at, and what is wrong with the
// expressions, if anything.
func (s *Set) Known() (bool, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.known, s.problem
}

// each visits the nodes on which something matches, in no particular order.
func (s *Set) each(visit func(node string, m *Matched)) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for node, m := range s.byNode {
		visit(node, m)
	}
}

// maxSets bounds how many different sets of expressions are remembered. Of the namespace
// that asked for most of them the one is forgotten that was least recently wanted, so that
// no tenant makes another's be forgotten.
const maxSets = 4096

// Matcher evaluates CEL expressions over published devices, in one goroutine. A tenant's
// expressions cost that goroutine's time and nothing else: namespaces take turns.
type Matcher struct {
	cache   *cel.Cache
	devices func(node string) []dialect.Published
	nodes   func() []string
	// known is called with the key of a set that has been evaluated, changed with a node on
	// which sets may match something else than before.
	known, changed func(string)

	mu   sync.Mutex
	sets map[string]*Set
	// wants counts questions, so that the set wanted least recently is known.
	wants int64
	// waiting are sets that nobody has looked at, by namespace; turns are the namespaces.
	waiting map[string][]*Set
	turns   []string
	// stale are nodes whose devices changed.
	stale map[string]bool
	wake  chan struct{}
}

func newMatcher(devices func(string) []dialect.Published, nodes func() []string, known, changed func(string)) *Matcher {
	return &Matcher{
		cache: cel.NewCache(64, cel.Features{EnableConsumableCapacity: true}), devices: devices, nodes: nodes, known: known, changed: changed,
		sets: map[string]*Set{}, waiting: map[string][]*Set{}, stale: map[string]bool{}, wake: make(chan struct{}, 1),
	}
}

// Want returns the set of some expressions, and has it evaluated if it is new.
func (m *Matcher) Want(namespace string, expressions []string) *Set {
	key := strings.Join(expressions, "\x00")
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wants++
	if s := m.sets[key]; s != nil {
		s.wanted = m.wants
		return s
	}
	if len(m.sets) >= maxSets {
		m.forgetOne()
	}
	s := &Set{key: key, namespace: namespace, expressions: slices.Clone(expressions), matcher: m, byNode: map[string]*Matched{}, wanted: m.wants}
	m.sets[key] = s
	if len(m.waiting[namespace]) == 0 {
		m.turns = append(m.turns, namespace)
	}
	m.waiting[namespace] = append(m.waiting[namespace], s)
	m.kick()
	return s
}

// forgetOne forgets a set of the namespace that has most.
func (m *Matcher) forgetOne() {
	counts, most := map[string]int{}, ""
	for _, s := range m.sets {
		counts[s.namespace]++
		if n := counts[s.namespace]; n > counts[most] || n == counts[most] && s.namespace < most {
			most = s.namespace
		}
	}
	var oldest *Set
	for _, s := range m.sets {
		if s.namespace == most && (oldest == nil || s.wanted < oldest.wanted) {
			oldest = s
		}
	}
	delete(m.sets, oldest.key)
}

// Stale says that the devices of a node changed.
func (m *Matcher) Stale(node string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.sets) > 0 {
		m.stale[node] = true
		m.kick()
	}
}

func (m *Matcher) kick() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// Run evaluates until the context ends.
func (m *Matcher) Run(ctx context.Context) {
	for {
		for m.Work(ctx) {
			if ctx.Err() != nil {
				return
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-m.wake:
		}
	}
}

// Work evaluates one set on all nodes, or one node for all sets; false when there is
// nothing to do.
func (m *Matcher) Work(ctx context.Context) bool {
	m.mu.Lock()
	for node := range m.stale {
		delete(m.stale, node)
		var sets []*Set
		for _, s := range m.sets {
			if known, _ := s.Known(); known {
				sets = append(sets, s)
			}
		}
		m.mu.Unlock()
		devices := m.devices(node)
		for _, s := range sets {
			s.look(ctx, node, devices)
		}
		m.changed(node)
		return true
	}
	if len(m.turns) == 0 {
		m.mu.Unlock()
		return false
	}
	namespace := m.turns[0]
	m.turns = m.turns[1:]
	list := m.waiting[namespace]
	s := list[0]
	if len(list) > 1 {
		m.waiting[namespace] = list[1:]
		m.turns = append(m.turns, namespace)
	} else {
		delete(m.waiting, namespace)
	}
	m.mu.Unlock()
	for _, node := range m.nodes() {
		if ctx.Err() != nil {
			return false
		}
		s.look(ctx, node, m.devices(node))
	}
	// What changed meanwhile made its node stale, and is looked at next.
	s.mu.Lock()
	s.known = true
	s.mu.Unlock()
	m.known(s.key)
	return true
}

// look finds what a set matches on a node.
func (s *Set) look(ctx context.Context, node string, devices []dialect.Published) {
	var found Matched
	var problem error
	any := false
	for i := range devices {
		p := &devices[i]
		if p.Whole() {
			found.Cards++
		}
		ok, err := s.matches(ctx, p)
		if err != nil && problem == nil {
			problem = err
		}
		if !ok {
			continue
		}
		any = true
		found.All = append(found.All, *p)
		if p.Whole() {
			found.Whole = append(found.Whole, p.Card)
			if p.Shared() {
				found.Shared++
			}
		} else {
			found.Parts = append(found.Parts, *p)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sum = nil
	if problem != nil && s.problem == nil {
		s.problem = problem
	}
	if !any {
		delete(s.byNode, node)
		return
	}
	s.byNode[node] = &found
}

// matches says whether all expressions match a device.
func (s *Set) matches(ctx context.Context, p *dialect.Published) (bool, error) {
	device := cel.Device{Driver: p.Driver, AllowMultipleAllocations: p.Device.AllowMultipleAllocations, Attributes: p.Device.Attributes, Capacity: p.Device.Capacity}
	for _, text := range s.expressions {
		compiled := s.matcher.cache.GetOrCompile(text)
		if compiled.Error != nil {
			return false, compiled.Error
		}
		ok, _, err := compiled.DeviceMatches(ctx, device)
		if err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}

// expressionsOf are the CEL expressions of selectors; false when one is of another kind.
func expressionsOf(list []resourceapi.DeviceSelector) (out []string, ok bool) {
	for _, s := range list {
		if s.CEL == nil {
			return nil, false
		}
		out = append(out, s.CEL.Expression)
	}
	return out, true
}
