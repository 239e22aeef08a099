package controller

import (
	"math/rand/v2"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/internal/dialect"
)

func gpus(n int64) v1.ResourceList {
	return v1.ResourceList{"nvidia.com/gpu": *resource.NewQuantity(n, resource.DecimalSI)}
}

// TestRefusal: which demands a queue takes, and what is said of the others.
func TestRefusal(t *testing.T) {
	all := queuesOf("root default org<root team<org closed<org lost<missing")
	all["team"].Spec.Capability = gpus(8)
	all["org"].Spec.Capability = gpus(16)
	all["closed"].Status.State = scheduling.QueueStateClosing
	all["default"].Annotations = map[string]string{"tangram.dev/namespaces": "others"}
	used := load{}
	used.add("team", 0, dialect.Amounts(gpus(4)))
	used.add("team", -10, dialect.Amounts(gpus(2)))
	used.add("closed", 0, dialect.Amounts(gpus(12))) // above its share, perhaps: org is full
	for name, tt := range map[string]struct {
		d    demand
		want string
	}{
		"fits":             {demand{queue: "team", amounts: dialect.Amounts(gpus(2))}, ""},
		"asks for nothing": {demand{queue: "team"}, ""},
		"may preempt":      {demand{queue: "team", amounts: dialect.Amounts(gpus(4))}, ""},
		"may not preempt": {demand{queue: "team", priority: -10, amounts: dialect.Amounts(gpus(4))},
			"waits for quota: queue team may use 8 nvidia GPUs, 6 nvidia GPUs in use, needs 4 nvidia GPUs"},
		"too much now": {demand{queue: "team", amounts: dialect.Amounts(gpus(5))},
			"waits for quota: queue team may use 8 nvidia GPUs, 4 nvidia GPUs in use, needs 5 nvidia GPUs"},
		"too much ever": {demand{queue: "team", amounts: dialect.Amounts(gpus(9))},
			"can never start: queue team may use 8 nvidia GPUs, 4 nvidia GPUs in use, needs 9 nvidia GPUs"},
		"another resource":       {demand{queue: "team", amounts: dialect.Amounts(v1.ResourceList{"cpu": resource.MustParse("9k"), "memory": resource.MustParse("9Ei")})}, ""},
		"no such queue":          {demand{queue: "nobody"}, `there is no queue "nobody"`},
		"no such parent":         {demand{queue: "lost"}, `queue "lost": spec.parent: queue "missing" does not exist`},
		"not a leaf":             {demand{queue: "org"}, `queue "org" takes no jobs, only the queues below it do`},
		"closed":                 {demand{queue: "closed"}, `queue "closed" is closed`},
		"another namespace's":    {demand{queue: "default", namespace: "mine"}, `namespace "mine" may not use queue "default"`},
		"the right namespace":    {demand{queue: "default", namespace: "others"}, ""},
		"amounts that cannot be": {demand{queue: "team", amounts: dialect.Amounts(v1.ResourceList{"nvidia.com/gpu": resource.MustParse("-5")})}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			why := all.refusal(tt.d, used)
			if why.String() != tt.want {
				t.Errorf("got  %s\nwant %s", why.String(), tt.want)
			}
		})
	}
	delete(all, "closed")
	all["org"].Spec.Capability = gpus(3)
	if why := all.refusal(demand{queue: "team", amounts: dialect.Amounts(gpus(4))}, load{}); why.Code != explain.OverCapability || why.Queue != "org" || !why.Never {
		t.Errorf("more than the queue above may use: got %s", why.String())
	}
}

// TestRefusalMonotone: what is taken stays taken when less is in use, less is asked for, or
// the priority is higher; and a demand within the limit is taken by an empty queue.
func TestRefusalMonotone(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		all := queuesOf("root q<root")
		limit := r.Int64N(20)
		all["q"].Spec.Capability = gpus(limit)
		used, less := load{}, load{}
		for range r.IntN(5) {
			p, n := r.Int32N(3)-1, r.Int64N(8)
			used.add("q", p, dialect.Amounts(gpus(n)))
			less.add("q", p, dialect.Amounts(gpus(r.Int64N(n+1))))
		}
		ask := func(n int64, p int32) demand {
			return demand{queue: "q", priority: p, amounts: map[arbiter.Resource]int64{engine.GPU("nvidia"): n * 1000}}
		}
		n, p := r.Int64N(20), r.Int32N(3)-1
		taken := func(d demand, l load) bool {
			why := all.refusal(d, l)
			return !why.Is()
		}
		if taken(ask(n, p), used) && !(taken(ask(n, p), less) && taken(ask(n/2, p), used) && taken(ask(n, p+1), used)) {
			t.Fatalf("limit %d: %d of priority %d fits beside %v, less does not", limit, n, p, used)
		}
		if taken(ask(n, p), load{}) != (n <= limit) {
			t.Fatalf("limit %d: %d taken %v by an empty queue", limit, n, !(n <= limit))
		}
	}
}

// TestEntrance: a gang that was refused is woken when there is room, and no other.
func TestEntrance(t *testing.T) {
	all := queuesOf("root q<root")
	all["q"].Spec.Capability = gpus(8)
	full, half := load{}, load{}
	full.add("q", 0, dialect.Amounts(gpus(8)))
	half.add("q", 0, dialect.Amounts(gpus(4)))
	e, woken := newEntrance(), ""
	e.wake = func(key string) { woken += key + " " }
	expect := func(want string) {
		t.Helper()
		if woken != want {
			t.Errorf("woken %q, want %q", woken, want)
		}
		woken = ""
	}
	small, large := demand{queue: "q", amounts: dialect.Amounts(gpus(3))}, demand{queue: "q", amounts: dialect.Amounts(gpus(6))}
	if _, known := e.ask("a/early", large); known {
		t.Error("answered before queues were read")
	}
	e.changed(all, full)
	expect("a/early ") // to be told why
	for key, d := range map[string]demand{"a/early": large, "a/small": small, "a/large": large, "a/gone": small} {
		if why, known := e.ask(key, d); !known || !why.Is() {
			t.Errorf("%s was taken by a full queue", key)
		}
	}
	e.forget("a/gone")
	e.changed(all, full)
	expect("")
	e.changed(all, half)
	expect("a/small ")
	if why, _ := e.ask("a/small", small); why.Is() {
		t.Errorf("refused: %s", why.String())
	}
	e.changed(all, half)
	expect("") // it was told
}
