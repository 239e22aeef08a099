package dra

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/dynamic-resource-allocation/cel"

	"github.com/tangram-dev/tangram/internal/dialect"
)

// Set is the devices that all of some CEL expressions match, node by node. It is safe for
// concurrent use.
type Set struct {
	key         string
	expressions []string
	matcher     *Matcher
	// Guarded by the matcher's lock: namespace asked first, wanted is when it last was.
	namespace string
	wanted    int64
	// queued: it waits for its turn. change is the last change of a node that it knows.
	queued bool
	change int64
	// begun: its turn has come, and todo are the nodes that are still to be looked at;
	// programs are its expressions, compiled, until then. Only who evaluates uses them.
	begun    bool
	todo     []string
	programs []cel.CompilationResult

	mu      sync.RWMutex
	known   bool  // every node has been looked at once
	problem error // the first error of an expression; such devices do not match
	byNode  map[string]*Matched
	sum     *summary // what all nodes amount to; nil: to be computed
}

// summary is what a set matches on all nodes together.
type summary struct {
	// any: something matches. cards is the least number of whole cards on a node with any.
	any   bool
	cards int
	// shared: all cards that match may be had by several claims at once.
	shared  bool
	profile string // the smallest MIG profile that matches; empty when none does
	// partial: on some node only some cards match. named are these, sorted and bounded.
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
	Parts  []dialect.Published // the MIG devices that match
	All    []dialect.Published // all of them, for constraints between devices
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
// expressions cost that goroutine's time and nothing else: namespaces take turns, which are
// short, for nodes that changed as well as for new expressions.
type Matcher struct {
	cache   *cel.Cache
	devices func(node string) []dialect.Published
	nodes   func() []string
	// known is called with the key of an evaluated set, changed with a node to match anew.
	known, changed func(string)

	mu   sync.Mutex
	sets map[string]*Set
	// wants counts questions, so that the set wanted least recently is known.
	wants int64
	// waiting are sets to be evaluated, by namespace; turns are the namespaces.
	waiting map[string][]*Set
	turns   []string
	// changes are nodes whose devices changed, by number; change is the last number.
	changes map[string]int64
	change  int64
	wake    chan struct{}

	turn  time.Duration // how long a turn is: a node is always looked at to the end
	clock func() time.Time
}

// turnFor is how long one namespace's selectors are evaluated before another's.
const turnFor = 20 * time.Millisecond

func newMatcher(devices func(string) []dialect.Published, nodes func() []string, known, changed func(string)) *Matcher {
	return &Matcher{
		cache: cel.NewCache(64, cel.Features{EnableConsumableCapacity: true}), devices: devices, nodes: nodes, known: known, changed: changed,
		sets: map[string]*Set{}, waiting: map[string][]*Set{}, changes: map[string]int64{}, wake: make(chan struct{}, 1),
		turn: turnFor, clock: time.Now,
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
	m.enqueue(s)
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
	if len(m.sets) == 0 {
		return
	}
	m.change++
	m.changes[node] = m.change
	for _, s := range m.sets {
		m.enqueue(s)
	}
	m.kick()
}

// enqueue has a set looked at in its namespace's turn. The caller holds the lock.
func (m *Matcher) enqueue(s *Set) {
	if s.queued {
		return
	}
	s.queued = true
	if len(m.waiting[s.namespace]) == 0 {
		m.turns = append(m.turns, s.namespace)
	}
	m.waiting[s.namespace] = append(m.waiting[s.namespace], s)
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

// Work takes one turn: it evaluates a set of the namespace whose turn it is, for as long as
// a turn is; false when there is nothing to do. Classes alone, which administrators write and
// all tenants use, go before any namespace.
func (m *Matcher) Work(ctx context.Context) bool {
	m.mu.Lock()
	if len(m.turns) == 0 {
		clear(m.changes) // every set knows all of them
		m.mu.Unlock()
		return false
	}
	turn := max(0, slices.Index(m.turns, ""))
	namespace := m.turns[turn]
	m.turns = slices.Delete(m.turns, turn, turn+1)
	s := m.waiting[namespace][0]
	if !s.begun {
		s.begun, s.todo, s.change = true, m.todo(s), m.change
	}
	m.mu.Unlock()
	ends := m.clock().Add(m.turn)
	for len(s.todo) > 0 && ctx.Err() == nil {
		node := s.todo[0]
		s.todo = s.todo[1:]
		if s.look(ctx, node, m.devices(node)) {
			m.changed(node)
		}
		if !m.clock().Before(ends) {
			break
		}
	}
	done := len(s.todo) == 0
	m.mu.Lock()
	if done {
		s.begun, s.todo, s.queued, s.programs = false, nil, false, nil
		m.waiting[namespace] = m.waiting[namespace][1:]
		if s.change < m.change && m.sets[s.key] == s { // last in its namespace's turn, which goes on
			s.queued = true
			m.waiting[namespace] = append(m.waiting[namespace], s)
		}
	}
	if len(m.waiting[namespace]) > 0 {
		m.turns = append(m.turns, namespace)
	} else {
		delete(m.waiting, namespace)
	}
	m.mu.Unlock()
	if done && s.setKnown() {
		m.known(s.key)
	}
	return true
}

// todo are the nodes that a set has to look at: all, or those that changed since it did. The
// caller holds the lock.
func (m *Matcher) todo(s *Set) (out []string) {
	if known, _ := s.Known(); !known {
		return m.nodes()
	}
	for node, change := range m.changes {
		if change > s.change {
			out = append(out, node)
		}
	}
	return out
}

// setKnown takes note that every node has been looked at; false when that was known.
func (s *Set) setKnown() (first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first, s.known = !s.known, true
	return first
}

// look finds what a set matches on a node, and says whether that is something else than was
// known before.
func (s *Set) look(ctx context.Context, node string, devices []dialect.Published) (changed bool) {
	var found Matched
	var problem error
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
	any := len(found.All) > 0
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.byNode[node]
	changed = s.known && (any != (before != nil) || any && !equality.Semantic.DeepEqual(before, &found))
	s.sum = nil
	if problem != nil && s.problem == nil {
		s.problem, changed = problem, s.known
	}
	if delete(s.byNode, node); any {
		s.byNode[node] = &found
	}
	return changed
}

// matches says whether all expressions match a device.
func (s *Set) matches(ctx context.Context, p *dialect.Published) (bool, error) {
	device := cel.Device{Driver: p.Driver, AllowMultipleAllocations: p.Device.AllowMultipleAllocations, Attributes: p.Device.Attributes, Capacity: p.Device.Capacity}
	if s.programs == nil {
		for _, text := range s.expressions {
			s.programs = append(s.programs, s.matcher.cache.GetOrCompile(text))
		}
	}
	for i := range s.programs {
		compiled := &s.programs[i]
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
