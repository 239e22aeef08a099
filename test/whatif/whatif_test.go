package whatif

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/api/names"
	apiquery "github.com/tangram-dev/tangram/api/query"
	"github.com/tangram-dev/tangram/api/record"
	"github.com/tangram-dev/tangram/internal/replica"
	"github.com/tangram-dev/tangram/test/cluster"
)

const pools = `pools:
- {name: a, count: 6, labels: {pool: a}, gpu: {model: A100-80GB, count: 8}}
- {name: b, count: 5, labels: {pool: b}, gpu: {model: V100-32GB, count: 4}}
- {name: c, count: 3, labels: {pool: c}, gpu: {model: H100-80GB, count: 8}}
`

const (
	cases    = 100
	required = 99
)

// TestAgrees: what the scheduler says would become of a manifest is what becomes of it, on a
// cluster with random load on which nothing else happens: its nodes and devices, or that it
// waits and for which reason, or which gangs it displaces.
func TestAgrees(t *testing.T) {
	seed := cluster.Seed(t, "WHATIF_SEED", uint64(time.Now().UnixNano()))
	w := newWorld(t, pools)
	g := &load{world: w, r: rand.New(rand.NewPCG(seed, 0))}
	began := time.Now()
	agreed, kinds := 0, map[string]int{}
	for n := range cases {
		g.change()
		g.settle()
		pods := g.gang("low", "mid", "high", "high")
		manifest := manifestOf(pods)
		var dump string
		keep := os.Getenv("WHATIF_KEEP") // a folder for the state of cases that disagree
		if keep != "" {
			dump = w.askText(http.MethodGet, apiquery.PathDump, "")
		}
		said := ask[apiquery.WhatIf](w, http.MethodPost, apiquery.PathWhatIf, manifest)
		kind, problem := g.compare(pods, said)
		kinds[kind]++
		if problem == "" {
			agreed++
			continue
		}
		if keep != "" {
			w.Must(os.WriteFile(filepath.Join(keep, fmt.Sprintf("%d.dump.gz", n)), []byte(dump), 0o600))
			w.Must(os.WriteFile(filepath.Join(keep, fmt.Sprintf("%d.yaml", n)), []byte(manifest), 0o600))
		}
		answer, _ := json.Marshal(said.Gangs)
		t.Logf("case %d (%s): %s\nsaid %s", n, kind, problem, clip(string(answer), 1500))
	}
	t.Logf("%d of %d agree in %s: %v", agreed, cases, time.Since(began).Round(time.Second), kinds)
	if agreed < required {
		t.Errorf("%d of %d agree, want %d; seed %d", agreed, cases, required, seed)
	}
	for _, kind := range []string{"now", "waits", "displaces"} {
		if kinds[kind] < 5 {
			t.Errorf("only %d cases of %q: the load is not varied enough", kinds[kind], kind)
		}
	}
	g.dumped()
}

func clip(text string, n int) string {
	if len(text) > n {
		return text[:n] + "..."
	}
	return text
}

// load is what runs and waits on the cluster.
type load struct {
	*world
	r      *rand.Rand
	serial int
}

// gang is a random gang that does not exist yet, of one of the PriorityClasses.
func (g *load) gang(classes ...string) (pods []*v1.Pod) {
	g.serial++
	pick := func(values ...string) string { return values[g.r.IntN(len(values))] }
	size, gpus := []int{1, 1, 1, 2, 3, 4}[g.r.IntN(6)], []int{1, 1, 2, 4, 4, 8, 8, 9}[g.r.IntN(8)]
	class, pool, runtime := pick(classes...), pick("", "", "a", "b", "c"), pick("", "20m", "3h")
	for i := range size {
		p := cluster.Pod(fmt.Sprintf("g%d-%d", g.serial, i), gpus, cluster.Priority(class))
		p.TypeMeta, p.Namespace = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, "default"
		p.Spec.Containers[0].Resources.Limits[v1.ResourceCPU] = *resource.NewQuantity(int64(gpus), resource.DecimalSI)
		if size > 1 {
			cluster.Gang(fmt.Sprintf("g%d", g.serial), size)(p)
		}
		if pool != "" {
			cluster.On("pool", pool)(p)
		}
		if runtime != "" {
			p.Annotations[names.AnnotationRuntime] = runtime
		}
		pods = append(pods, p)
	}
	return pods
}

func manifestOf(pods []*v1.Pod) string {
	var docs []string
	for _, p := range pods {
		text, _ := json.Marshal(p)
		docs = append(docs, string(text))
	}
	return strings.Join(docs, "\n---\n")
}

func (g *load) create(pods []*v1.Pod) {
	g.T.Helper()
	for _, p := range pods {
		g.Create(p)
	}
}

// gone deletes pods at once: there is no kubelet to wait for.
func (g *load) gone(pods []*v1.Pod) {
	g.T.Helper()
	for _, p := range pods {
		g.DeleteIf(p.Name)
	}
	if !g.until(func() bool {
		return !slices.ContainsFunc(pods, func(p *v1.Pod) bool { q := g.pod(p.Name); return q != nil && q.UID == p.UID })
	}) {
		g.T.Fatal("deleted pods do not go")
	}
}

// gangOf is what a pod belongs to.
func gangOf(p *v1.Pod) string {
	name, _, _ := strings.Cut(p.Name, "-")
	return name
}

// change makes the load another one: gangs end, gangs come, nodes are cordoned.
func (g *load) change() {
	var ended []*v1.Pod
	ends := map[string]bool{}
	pods := g.pods.Pods()
	for _, p := range pods {
		if _, known := ends[gangOf(p)]; !known {
			ends[gangOf(p)] = g.r.IntN(9) == 0 || len(pods) > 40 && g.r.IntN(3) == 0 || p.Spec.NodeName == "" && g.r.IntN(2) == 0
		}
		if ends[gangOf(p)] {
			ended = append(ended, p)
		}
	}
	g.gone(ended)
	for range g.r.IntN(3) {
		g.create(g.gang("low", "low", "mid", "high"))
	}
	if g.r.IntN(5) == 0 {
		nodes := cluster.ReadAll[v1.Node](g.World, cluster.Nodes)
		n := nodes[g.r.IntN(len(nodes))]
		g.Patch(cluster.Nodes, n.Name, fmt.Sprintf(`{"spec":{"unschedulable":%v}}`, !n.Spec.Unschedulable))
	}
}

// settle waits until the cluster is quiet: each pod is bound or has been told that it waits,
// nothing is leaving, and the scheduler has decided nothing while a pod that came after all
// of them was scheduled. Victims are gone at once.
func (g *load) settle() {
	g.T.Helper()
	for deadline := time.Now().Add(patience); ; {
		var leaving []*v1.Pod
		if !g.until(func() bool {
			leaving = nil
			undecided := false
			for _, p := range g.pods.Pods() {
				switch {
				case p.DeletionTimestamp != nil:
					leaving = append(leaving, p)
				case p.Spec.NodeName == "" && !waits(p):
					undecided = true
				}
			}
			return !undecided || len(leaving) > 0
		}) || time.Now().After(deadline) {
			g.T.Fatal("the cluster does not settle")
		}
		if len(leaving) > 0 {
			g.gone(leaving)
			continue
		}
		before := g.decided(0).Version
		g.barrier()
		going := slices.ContainsFunc(g.pods.Pods(), func(p *v1.Pod) bool {
			return p.DeletionTimestamp != nil || p.Spec.NodeName == "" && !waits(p)
		})
		if !going && g.decided(0).Version == before {
			return
		}
	}
}

// decided is what the scheduler has decided since a version of its timeline.
func (g *load) decided(since uint64) *apiquery.Timeline {
	g.T.Helper()
	return cluster.Ask[apiquery.Timeline](g.T, g.api, fmt.Sprintf("%s?%s=%d", apiquery.PathTimeline, apiquery.ParamSince, since))
}

// barrier waits until kube-scheduler's own cache has heard of all pods that went: it
// schedules a pod without GPUs that came after them.
func (g *load) barrier() {
	g.T.Helper()
	g.serial++
	p := g.Create(cluster.Pod(fmt.Sprintf("barrier%d", g.serial), 0))
	if !g.until(func() bool { q := g.pod(p.Name); return q != nil && q.Spec.NodeName != "" }) {
		g.T.Fatal("a pod without GPUs is not scheduled")
	}
	g.gone([]*v1.Pod{g.pod(p.Name)})
}

// compare creates the pods and says what became of them other than was said.
func (g *load) compare(pods []*v1.Pod, said *apiquery.WhatIf) (kind, problem string) {
	g.T.Helper()
	if len(said.Gangs) != 1 || len(said.Refused) > 0 {
		return "refused", fmt.Sprintf("%d gangs, refused %+v", len(said.Gangs), said.Refused)
	}
	s := &said.Gangs[0]
	since := g.decided(0).Version
	g.create(pods)
	bound := func(p *v1.Pod) bool { q := g.pod(p.Name); return q != nil && q.Spec.NodeName != "" }
	// evicted are the gangs that go for this one: others may find victims meanwhile, since
	// they look for some only now and then.
	evicted := func() (out []string) {
		for _, e := range g.decided(since).Items {
			if e.Kind == apiquery.EventEvicted && e.For != nil && e.For.Name == s.Gang.Name {
				out = append(out, e.Gang.Name)
			}
		}
		slices.Sort(out)
		return slices.Compact(out)
	}
	soon := s.Start.Known == apiquery.StartsForecast && s.Start.At.Sub(said.At) <= 31*time.Second
	// Decided: all are bound, or others go, or, where that was said, all have been told that
	// they wait. A pod that was told so may still be bound a moment later: kube-scheduler may
	// not have heard yet of pods that are gone.
	if !g.until(func() bool {
		some, told := 0, 0
		for _, p := range pods {
			if q := g.pod(p.Name); bound(p) {
				some++
			} else if q != nil && waits(q) {
				told++
			}
		}
		waited := s.Start.Known != apiquery.StartsNow && !(soon && len(s.Displaces) > 0) && some+told == len(pods)
		return some == len(pods) || waited || s.Start.Known != apiquery.StartsNow && len(evicted()) > 0
	}) {
		return "undecided", fmt.Sprintf("said %s, displaces %v; nothing of that happens", s.Start.Known, s.Displaces)
	}
	switch {
	case s.Start.Known == apiquery.StartsNow:
		for i, p := range pods {
			q := g.pod(p.Name)
			if !bound(p) {
				return "now", fmt.Sprintf("%s is not bound", p.Name)
			}
			if got, want := placeOf(q), saidPlace(s.Members, p.Name); got != want {
				return "now", fmt.Sprintf("pod %d is at %s, said %s", i, got, want)
			}
		}
		return "now", ""
	case soon && len(s.Displaces) > 0:
		var want []string
		for _, v := range s.Displaces {
			want = append(want, v.Name)
		}
		slices.Sort(want)
		var got []string
		g.until(func() bool {
			got = evicted()
			return len(got) >= len(want)
		})
		if !slices.Equal(got, want) {
			return "displaces", fmt.Sprintf("evicted %v, said %v", got, want)
		}
		return "displaces", ""
	}
	for _, p := range pods {
		if bound(p) {
			return "waits", fmt.Sprintf("%s is bound, said that it waits", p.Name)
		}
	}
	if e := evicted(); len(e) > 0 {
		return "waits", fmt.Sprintf("%v were evicted, said that it waits", e)
	}
	why := cluster.Ask[apiquery.Why](g.T, g.api, apiquery.PathWhy+"?namespace=default&name="+pods[0].Name)
	if s.Reason == nil || why.Reason.Code != s.Reason.Code || why.Reason.Never != s.Reason.Never {
		return "waits", fmt.Sprintf("waits for %s, said %+v", why.Reason.Code, s.Reason)
	}
	return "waits", ""
}

// placeOf is where a pod is: node and devices.
func placeOf(p *v1.Pod) string {
	rec, err := record.Decode(p.Annotations[names.AnnotationDevices])
	if err != nil {
		return err.Error()
	}
	var devices []int
	for _, c := range rec.Containers {
		for _, d := range c.Devices {
			devices = append(devices, d.Index)
		}
	}
	slices.Sort(devices)
	return fmt.Sprint(p.Spec.NodeName, devices)
}

func saidPlace(members []apiquery.Member, pod string) string {
	for _, m := range members {
		if m.Pod.Name == pod {
			var devices []int
			for _, d := range m.Devices {
				devices = append(devices, d.Index)
			}
			slices.Sort(devices)
			return fmt.Sprint(m.Node, devices)
		}
	}
	return "nowhere"
}

// dumped takes a dump, and asks it offline what the live scheduler is asked.
func (g *load) dumped() {
	t := g.T
	t.Helper()
	g.settle()
	file := filepath.Join(t.TempDir(), "dump.gz")
	g.Must(os.WriteFile(file, []byte(g.askText(http.MethodGet, apiquery.PathDump, "")), 0o600))
	state, err := replica.Load(file)
	g.Must(err)
	same := 0
	for range 5 {
		manifest := manifestOf(g.gang("low", "mid", "high"))
		live := ask[apiquery.WhatIf](g.world, http.MethodPost, apiquery.PathWhatIf, manifest)
		offline, err := state.WhatIf(t.Context(), replica.Question{Manifest: []byte(manifest)})
		g.Must(err)
		a, _ := json.Marshal(live.Gangs[0].Members)
		b, _ := json.Marshal(offline.Gangs[0].Members)
		if bytes.Equal(a, b) && live.Gangs[0].Start.Known == offline.Gangs[0].Start.Known {
			same++
		} else {
			if keep := os.Getenv("WHATIF_KEEP"); keep != "" {
				g.Must(os.WriteFile(filepath.Join(keep, "dumped.yaml"), []byte(manifest), 0o600))
			}
			t.Logf("live %s %s\noffline %s %s", live.Gangs[0].Start.Known, a, offline.Gangs[0].Start.Known, b)
		}
	}
	if keep := os.Getenv("WHATIF_KEEP"); same < 5 && keep != "" {
		text, err := os.ReadFile(file)
		g.Must(err)
		g.Must(os.WriteFile(filepath.Join(keep, "dumped.dump.gz"), text, 0o600))
	}
	if same < 5 {
		t.Errorf("the dump answers %d of 5 questions as the scheduler does", same)
	}
	for _, p := range g.pods.Pods() {
		if waits(p) {
			why, err := state.Why(t.Context(), "default", "Pod", p.Name)
			g.Must(err)
			if !why.Found || why.Reason.Code == "" {
				t.Errorf("%s: %+v", p.Name, why)
			}
			break
		}
	}
}
