package arbiter_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tangram-dev/tangram/core/arbiter"
)

// machine drives a tree with random calls beside a naive model of it, which
// remembers jobs in a map and searches all of them.
type machine struct {
	tree    *arbiter.Tree
	queues  map[string]arbiter.Queue
	quotas  map[string]arbiter.Quota
	total   amounts
	jobs    map[arbiter.JobID]arbiter.Job
	charged map[arbiter.JobID]amounts
	served  map[string]int // by queue and user
	clock   int
	now     int64

	// balances by queue and resource; the queues that compete, with what they hold and their part; and
	// the time.
	owed      map[string]*big.Int
	competing map[string][2]int64
	elapsed   int64
}

var resources = []arbiter.Resource{cpu, gpu, "model/a100"}

func drawAmounts(t *rapid.T, label string, most int64) amounts {
	m := amounts{}
	for _, r := range resources {
		if v := rapid.Int64Range(-most, most).Draw(t, label); v > 0 {
			m[r] = v
		}
	}
	return m
}

// drawQueues draws a valid tree of up to three levels.
func drawQueues(t *rapid.T) map[string]arbiter.Queue {
	queues := map[string]arbiter.Queue{"root": {Name: "root"}, "default": {Name: "default", Reclaimable: true}}
	names := []string{"root"}
	for i := range rapid.IntRange(1, 7).Draw(t, "queues") {
		q := arbiter.Queue{
			Name:        fmt.Sprint("q", i),
			Parent:      rapid.SampledFrom(names).Draw(t, "parent"),
			Weight:      rapid.Int64Range(0, 4).Draw(t, "weight"),
			Priority:    rapid.SampledFrom([]int32{0, 0, 0, 1}).Draw(t, "priority"),
			Reclaimable: rapid.Bool().Draw(t, "reclaimable"),
			Closed:      rapid.IntRange(0, 9).Draw(t, "closed") == 0,
			Order:       rapid.SampledFrom(arbiter.Policies()).Draw(t, "order"),
			Aging:       time.Duration(rapid.Int64Range(-1, 8).Draw(t, "aging")),
		}
		if rapid.IntRange(0, 3).Draw(t, "listed") == 0 {
			q.Namespaces = []string{fmt.Sprint("n", rapid.IntRange(0, 2).Draw(t, "namespace"))}
		}
		if rapid.Bool().Draw(t, "limited") {
			q.Capability = drawAmounts(t, "capability", 20)
		}
		switch rapid.IntRange(0, 3).Draw(t, "promised") {
		case 0:
			q.Guarantee = drawAmounts(t, "guarantee", 4)
		case 1:
			q.Deserved = drawAmounts(t, "deserved", 10)
		}
		queues[q.Name] = q
		// Keep what makes a valid tree; a bad draw becomes a plain queue.
		if arbiter.ValidateQueues(slices.Collect(maps.Values(queues))) != nil {
			q.Guarantee, q.Deserved, q.Capability = nil, nil, nil
			queues[q.Name] = q
		}
		names = append(names, q.Name)
	}
	return queues
}

func newMachine(t *rapid.T) *machine {
	m := &machine{
		queues: drawQueues(t), quotas: map[string]arbiter.Quota{}, total: drawAmounts(t, "total", 40),
		jobs: map[arbiter.JobID]arbiter.Job{}, charged: map[arbiter.JobID]amounts{}, served: map[string]int{},
		owed: map[string]*big.Int{}, competing: map[string][2]int64{},
	}
	m.tree = m.fresh(t)
	return m
}

// fresh builds a tree from the machine's configuration, without jobs.
func (m *machine) fresh(t *rapid.T) *arbiter.Tree {
	tree, err := arbiter.NewTree(slices.Collect(maps.Values(m.queues)), m.total)
	if err != nil {
		t.Fatal(err)
	}
	if err := tree.SetQuotas(slices.Collect(maps.Values(m.quotas))); err != nil {
		t.Fatal(err)
	}
	return tree
}

func (m *machine) step(t *rapid.T) {
	id := arbiter.JobID(fmt.Sprint("j", rapid.IntRange(0, 19).Draw(t, "job")))
	_, runs := m.charged[id]
	switch rapid.SampledFrom([]string{"submit", "submit", "submit", "pass", "pass", "remove", "refund", "shrink", "time", "time", "queues", "total", "quota", "restart"}).Draw(t, "operation") {
	case "submit":
		if !runs {
			m.submit(t, id)
		}
	case "pass":
		m.pass(t)
	case "remove":
		m.tree.Remove(id)
		delete(m.jobs, id)
		delete(m.charged, id)
	case "refund":
		if err := m.tree.Evict(id); err != nil {
			t.Fatal(err)
		}
		delete(m.charged, id)
	case "shrink":
		if runs && m.charged[id][gpu] > 0 {
			m.charged[id][gpu]--
			if err := m.tree.Shrink(id, arbiter.NewAmounts(amounts{gpu: 1})); err != nil {
				t.Fatal(err)
			}
		}
	case "time":
		m.elapse(rapid.Int64Range(0, 200_000).Draw(t, "milliseconds"))
	case "restart": // the model does not notice
		saved := m.tree.Save()
		if err := saved.Validate(); err != nil {
			t.Fatal(err)
		}
		m.tree = m.rebuilt(t)
		m.tree.Restore(saved, m.elapsed, time.Hour)
		if again := m.tree.Save(); normal(saved, m.total) != normal(again, m.total) {
			t.Fatalf("saved %+v, restored %+v", saved, again)
		}
	case "queues":
		old, before := m.leaves(), m.queues
		m.queues = drawQueues(t)
		for name := range before { // balances are among the same siblings
			if q, ok := m.queues[name]; !ok || cmp.Or(q.Parent, "root") != cmp.Or(before[name].Parent, "root") {
				for _, r := range resources {
					delete(m.owed, name+"/"+string(r))
				}
			}
		}
		clear(m.competing)
		if err := m.tree.SetQueues(slices.Collect(maps.Values(m.queues))); err != nil {
			t.Fatal(err)
		}
		now := m.leaves()
		maps.DeleteFunc(m.served, func(key string, _ int) bool { // turns go with their queue
			queue, _, _ := strings.Cut(key, "/")
			return !old[queue] || !now[queue]
		})
	case "total":
		m.total = drawAmounts(t, "total", 40)
		if err := m.tree.SetTotal(m.total); err != nil {
			t.Fatal(err)
		}
	case "quota":
		m.quotas["n0"] = arbiter.Quota{Namespace: "n0", Hard: drawAmounts(t, "hard", 10)}
		if err := m.tree.SetQuotas(slices.Collect(maps.Values(m.quotas))); err != nil {
			t.Fatal(err)
		}
	}
	m.now++
}

// normal is what is saved without balances of resources that nothing names any more: they
// end with the next call of Elapse.
func normal(s arbiter.Saved, total amounts) string {
	out := fmt.Sprint(s.At)
	for _, q := range slices.SortedFunc(slices.Values(s.Queues), func(a, b arbiter.SavedQueue) int { return cmp.Compare(a.Queue, b.Queue) }) {
		for _, m := range []amounts{q.Owed, q.Part, q.Held} {
			maps.DeleteFunc(m, func(r arbiter.Resource, _ int64) bool { return total[r] == 0 })
		}
		if len(q.Owed)+len(q.Part)+len(q.Held) > 0 || q.Turns.Clock > 0 {
			out += fmt.Sprintf("\n%+v", q)
		}
	}
	return out
}

func (m *machine) submit(t *rapid.T, id arbiter.JobID) {
	j := arbiter.Job{
		ID: id, Queue: fmt.Sprint("q", rapid.IntRange(0, 7).Draw(t, "queue")),
		Namespace: fmt.Sprint("n", rapid.IntRange(0, 2).Draw(t, "namespace")), User: fmt.Sprint("u", rapid.IntRange(0, 2).Draw(t, "user")),
		Priority: rapid.Int32Range(-1, 1).Draw(t, "priority"), Submitted: m.now,
		ExpectedRuntime: time.Duration(rapid.IntRange(0, 3).Draw(t, "runtime")),
		Demand:          arbiter.NewAmounts(drawAmounts(t, "demand", 5)), Extra: arbiter.NewAmounts(drawAmounts(t, "extra", 2)),
	}
	if err := m.tree.Submit(j); err != nil {
		t.Fatal(err)
	}
	m.jobs[id] = j
}

// rebuilt is a new tree with the same jobs, told in another order.
func (m *machine) rebuilt(t *rapid.T) *arbiter.Tree {
	tree := m.fresh(t)
	ids := slices.Sorted(maps.Keys(m.jobs))
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "shuffle"), 0))
	r.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	for _, id := range ids {
		j := m.jobs[id]
		j.Demand, j.Extra = arbiter.NewAmounts(j.Demand.Map()), arbiter.NewAmounts(j.Extra.Map())
		var err error
		if c, ok := m.charged[id]; ok {
			err = tree.Charge(j, arbiter.NewAmounts(c))
		} else {
			err = tree.Submit(j)
		}
		if err != nil {
			t.Fatal(err)
		}
		m.jobs[id] = j
	}
	return tree
}

// path lists the queues from a leaf to the root; nil for jobs in no queue.
func (m *machine) path(queue string) []arbiter.Queue {
	q, ok := m.queues[queue]
	for _, other := range m.queues {
		ok = ok && other.Parent != queue
	}
	var out []arbiter.Queue
	for ; ok; q, ok = m.queues[cmp.Or(q.Parent, "root")] {
		if out = append(out, q); q.Name == "root" {
			break
		}
	}
	return out
}

// home lists the queues that count a job, from its own to the root; nil for jobs in no
// queue, and for those of a namespace that one of them does not take.
func (m *machine) home(j arbiter.Job) []arbiter.Queue {
	path := m.path(j.Queue)
	for _, q := range path {
		if len(q.Namespaces) > 0 && !slices.Contains(q.Namespaces, j.Namespace) {
			return nil
		}
	}
	return path
}

func (m *machine) leaves() map[string]bool {
	out := map[string]bool{}
	for name := range m.queues {
		out[name] = m.path(name) != nil && name != "root"
	}
	return out
}

func (m *machine) used(queue string, r arbiter.Resource) int64 {
	var sum int64
	for id, c := range m.charged {
		in := slices.ContainsFunc(m.home(m.jobs[id]), func(q arbiter.Queue) bool { return q.Name == queue })
		if in || queue == "root" {
			sum += c[r]
		}
	}
	return sum
}

// booked is what others may not use: use, and idle guarantees.
func (m *machine) booked(queue string, r arbiter.Resource) int64 {
	sum, inner := int64(0), false
	for _, c := range m.queues {
		if c.Name != "root" && cmp.Or(c.Parent, "root") == queue {
			sum, inner = sum+m.booked(c.Name, r), true
		}
	}
	if !inner {
		sum = m.used(queue, r)
	}
	if queue == "root" {
		for id, c := range m.charged {
			if m.home(m.jobs[id]) == nil {
				sum += c[r]
			}
		}
	}
	return max(sum, m.queues[queue].Guarantee[r])
}

// pass takes offers, checks each against the naive choice, and says random things.
func (m *machine) pass(t *rapid.T) {
	offered, full, closed, visited := map[arbiter.JobID]bool{}, map[string]bool{}, map[string]bool{}, map[string]int{}
	for o := range m.tree.Candidates(m.now) {
		if err := m.tree.AuditPass(); err != nil {
			t.Fatal(err)
		}
		j := o.Job
		if want := m.choose(offered, full, closed, visited); want != j.ID {
			t.Fatalf("offered %s, want %s", j.ID, want)
		}
		offered[j.ID] = true
		m.clock++
		visited[j.Queue+"/"+j.User] = m.clock
		switch rapid.IntRange(0, 5).Draw(t, "outcome") {
		case 0:
			o.NoCapacity()
			full[fmt.Sprint(j.Demand.Map())] = true
		case 1:
			o.CloseQueue()
			closed[j.Queue] = true
		case 2: // skip
		default:
			before := map[arbiter.Resource]int64{}
			for _, r := range resources {
				before[r] = m.booked("root", r)
			}
			o.Place(nil)
			m.charged[j.ID] = j.Demand.Map()
			if m.queues[j.Queue].Order == arbiter.RoundRobin {
				m.served[j.Queue+"/"+j.User] = m.clock
			}
			m.checkLimits(t, j, before)
		}
	}
	if want := m.choose(offered, full, closed, visited); want != "" {
		t.Fatalf("the pass ended before %s was offered", want)
	}
}

// checkLimits: nothing that counts a placed job is above its limit.
func (m *machine) checkLimits(t *rapid.T, j arbiter.Job, before map[arbiter.Resource]int64) {
	for r := range j.Demand.Map() {
		for _, q := range m.home(j) {
			if c, ok := q.Capability[r]; ok && m.used(q.Name, r) > c {
				t.Fatalf("%s uses %d %s of %d", q.Name, m.used(q.Name, r), r, c)
			}
		}
		if h, ok := m.quotas[j.Namespace].Hard[r]; ok {
			var sum int64
			for id, c := range m.charged {
				if m.jobs[id].Namespace == j.Namespace {
					sum += c[r]
				}
			}
			if sum > h {
				t.Fatalf("%s uses %d %s of %d", j.Namespace, sum, r, h)
			}
		}
		if after := m.booked("root", r); m.total[r] > 0 && after > before[r] && after > m.total[r] {
			t.Fatalf("%d %s of %d in use or kept", after, r, m.total[r])
		}
	}
}

// choose is the naive order: all jobs that may go, compared level by level.
func (m *machine) choose(offered map[arbiter.JobID]bool, full, closed map[string]bool, visited map[string]int) arbiter.JobID {
	best := map[string]arbiter.Job{} // by queue, inner ones too
	for _, id := range slices.Sorted(maps.Keys(m.jobs)) {
		j := m.jobs[id]
		if _, runs := m.charged[id]; runs || offered[id] || closed[j.Queue] || full[fmt.Sprint(j.Demand.Map())] || m.tree.Why(id) != (arbiter.Wait{}) {
			continue
		}
		if b, ok := best[j.Queue]; !ok || m.jobBefore(j, b, visited) {
			best[j.Queue] = j
		}
	}
	for { // carry the best child's job up, deepest queues first
		name := ""
		for q := range best {
			if q != "root" && (name == "" || cmp.Or(cmp.Compare(len(m.above(q)), len(m.above(name))), cmp.Compare(q, name)) > 0) {
				name = q
			}
		}
		if name == "" {
			return best["root"].ID
		}
		parent := cmp.Or(m.queues[name].Parent, "root")
		first := name
		for q := range best {
			if q != "root" && cmp.Or(m.queues[q].Parent, "root") == parent && m.queueBefore(q, best[q], first, best[first]) {
				first = q
			}
		}
		job := best[first]
		maps.DeleteFunc(best, func(q string, _ arbiter.Job) bool { return q != "root" && cmp.Or(m.queues[q].Parent, "root") == parent })
		best[parent] = job
	}
}

func (m *machine) above(queue string) []string {
	var out []string
	for q := queue; q != "root"; q = cmp.Or(m.queues[q].Parent, "root") {
		out = append(out, q)
	}
	return out
}

func (m *machine) jobBefore(a, b arbiter.Job, visited map[string]int) bool {
	q := m.queues[a.Queue]
	fifo := cmp.Or(cmp.Compare(a.Submitted, b.Submitted), cmp.Compare(a.ID, b.ID))
	aging := int64(q.Aging)
	if aging == 0 {
		aging = int64(arbiter.DefaultAging)
	}
	aged := func(j arbiter.Job) int {
		if aging > 0 && j.Submitted <= m.now-aging {
			return 0
		}
		return 1
	}
	if q.Order != arbiter.FIFO && (aged(a) == 0 || aged(b) == 0) {
		return cmp.Or(cmp.Compare(aged(a), aged(b)), fifo) < 0
	}
	turn := func(j arbiter.Job) int { return max(m.served[j.Queue+"/"+j.User], visited[j.Queue+"/"+j.User]) }
	runtime := func(j arbiter.Job) uint64 { return uint64(j.ExpectedRuntime) - 1 } // 0, unknown, is the largest
	switch q.Order {
	case arbiter.Priority:
		fifo = cmp.Or(cmp.Compare(b.Priority, a.Priority), fifo)
	case arbiter.ShortestFirst:
		fifo = cmp.Or(cmp.Compare(runtime(a), runtime(b)), fifo)
	case arbiter.RoundRobin:
		fifo = cmp.Or(cmp.Compare(turn(a), turn(b)), cmp.Compare(b.Priority, a.Priority), fifo)
	case arbiter.FIFO:
	default:
		panic(fmt.Sprintf("policy %s: say here, in a naive way, which of two jobs goes first", q.Order))
	}
	return fifo < 0
}

func (m *machine) queueBefore(a string, aj arbiter.Job, b string, bj arbiter.Job) bool {
	x, y := m.queues[a], m.queues[b]
	ag, ae, as := m.position(a, aj)
	bg, be, bs := m.position(b, bj)
	switch {
	case ag != bg:
		return ag
	case x.Priority != y.Priority:
		return x.Priority > y.Priority
	case ae != be:
		return ae
	}
	return cmp.Or(as.Cmp(bs), cmp.Compare(a, b)) < 0
}

// position is whether a queue is within its guarantee, below its share, and its
// dominant share per weight.
func (m *machine) position(queue string, j arbiter.Job) (guaranteed, entitled bool, dominant *big.Rat) {
	within := true
	entitled, dominant = true, new(big.Rat)
	for r, v := range j.Demand.Map() {
		u := m.used(queue, r)
		if f := m.floor(queue, r); f > 0 {
			guaranteed, within = true, within && u+v <= f
		}
		if m.total[r] > 0 {
			held := u
			if !m.leaves()[queue] {
				held = m.booked(queue, r)
			}
			credit := m.credit(queue, r, v)
			entitled = entitled && held-credit < share(m.tree, queue, r)
			if s := big.NewRat(u-credit, m.total[r]*max(1, m.queues[queue].Weight)); s.Cmp(dominant) > 0 {
				dominant = s
			}
		}
	}
	return guaranteed && within, entitled, dominant
}

// elapse settles balances, naively, after so many milliseconds.
func (m *machine) elapse(passed int64) {
	m.elapsed += passed * int64(time.Millisecond)
	m.tree.Elapse(m.elapsed)
	wants := map[string]amounts{}
	for _, s := range m.tree.Status() {
		wants[s.Queue] = s.Want
	}
	const day = int64(24 * time.Hour / time.Millisecond)
	for _, r := range resources {
		sums := map[string][2]int64{}
		for name, q := range m.queues {
			x, parent := m.competing[name+"/"+string(r)], cmp.Or(q.Parent, "root")
			sums[parent] = [2]int64{sums[parent][0] + x[0], sums[parent][1] + x[1]}
		}
		for name, q := range m.queues {
			if name == "root" {
				continue
			}
			key, want, held := name+"/"+string(r), wants[name][r], m.booked(name, r)
			if m.leaves()[name] {
				held = m.used(name, r)
				if slices.ContainsFunc(m.path(name), func(q arbiter.Queue) bool { return q.Closed }) {
					want = held
				}
			}
			if c, ok := q.Capability[r]; ok {
				want = min(want, c)
			}
			if m.owed[key] == nil {
				m.owed[key] = new(big.Int)
			}
			owed, part := m.owed[key], min(share(m.tree, name, r), want)
			if x, sum := m.competing[key], sums[cmp.Or(q.Parent, "root")]; x[1] > 0 {
				owed.Add(owed, big.NewInt(sum[0]*passed*x[1]/sum[1]-x[0]*passed))
			}
			if bound := big.NewInt(part * day); owed.Cmp(bound) >= 0 {
				owed.Set(bound)
			} else if bound.Neg(bound); owed.Cmp(bound) < 0 {
				owed.Set(bound)
			}
			delete(m.competing, key)
			if held < want && owed.Cmp(big.NewInt(part*day)) < 0 {
				m.competing[key] = [2]int64{held, part}
			}
		}
	}
}

// credit is what a balance makes up for in ten seconds, at most one job's.
func (m *machine) credit(queue string, r arbiter.Resource, job int64) int64 {
	owed := m.owed[queue+"/"+string(r)]
	if owed == nil {
		return 0
	}
	c := new(big.Int).Quo(owed, big.NewInt(10_000)).Int64()
	return max(-job, min(job, c))
}

func (m *machine) floor(queue string, r arbiter.Resource) int64 {
	var sum int64
	for _, c := range m.queues {
		if c.Name != "root" && cmp.Or(c.Parent, "root") == queue {
			sum += m.floor(c.Name, r)
		}
	}
	return max(sum, m.queues[queue].Guarantee[r])
}

// check compares sums with the naive ones, and shares with their parents'.
func (m *machine) check(t *rapid.T) {
	if err := m.tree.Audit(); err != nil {
		t.Fatal(err)
	}
	children := map[string]amounts{}
	for _, s := range m.tree.Status() {
		for _, r := range resources {
			if want := m.used(s.Queue, r); s.Used[r] != want {
				t.Fatalf("%s uses %d %s, want %d", s.Queue, s.Used[r], r, want)
			}
			if s.Queue != "root" {
				if children[s.Parent] == nil {
					children[s.Parent] = amounts{}
				}
				children[s.Parent][r] += s.Share[r]
			} else if s.Share[r] > m.total[r] {
				t.Fatalf("the root has a share of %d %s of %d", s.Share[r], r, m.total[r])
			}
			if limit := max(m.floor(s.Queue, r), s.Want[r]); s.Queue != "root" && s.Share[r] > limit {
				t.Fatalf("%s has a share of %d %s, wants %d", s.Queue, s.Share[r], r, s.Want[r])
			}
		}
	}
	for _, s := range m.tree.Status() {
		for _, r := range resources {
			if children[s.Queue][r] > s.Share[r] {
				t.Fatalf("the children of %s share %d %s, it has %d", s.Queue, children[s.Queue][r], r, s.Share[r])
			}
		}
	}
	for id := range m.jobs {
		if got, want := m.tree.Charged(id).Map(), m.charged[id]; !maps.Equal(got, arbiter.NewAmounts(want).Map()) {
			t.Fatalf("%s is charged %v, want %v", id, got, want)
		}
	}
}

// TestHistories: over random histories, every offer is the naive one, no limit is
// passed, every sum is exact, and a tree rebuilt from what is left, told in
// another order, is the same.
func TestHistories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine(t)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			m.step(t)
			m.check(t)
		}
		again := m.rebuilt(t)
		if a, b := fmt.Sprint(m.tree.Status()), fmt.Sprint(again.Status()); a != b {
			t.Fatalf("rebuilt differs:\n%s\n%s", a, b)
		}
		m.tree, m.served, m.owed = again, map[string]int{}, map[string]*big.Int{}
		m.pass(t)
	})
}
