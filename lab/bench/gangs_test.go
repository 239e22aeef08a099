package bench

import (
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tangram-dev/tangram/api/names"
)

func newGangs(name string, count, size int) *cohort {
	c := newCohort(name, count*size)
	c.inGangsOf(size)
	return c
}

func TestGangsAreNeighbours(t *testing.T) {
	got := newGangs("pod", 2, 3).gangs()
	want := []gang{
		{"pod-gang-000000", []string{"pod-000000", "pod-000001", "pod-000002"}},
		{"pod-gang-000001", []string{"pod-000003", "pod-000004", "pod-000005"}},
	}
	if !slices.EqualFunc(got, want, func(a, b gang) bool { return a.name == b.name && slices.Equal(a.pods, b.pods) }) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestGangTiming(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newGangs("pod", 3, 2)
		c.markCreated(1)
		time.Sleep(time.Second)
		c.markCreated(0) // the last of its gang: from here on it waits for the scheduler
		c.markCreated(2)
		time.Sleep(time.Second)
		c.markBound(0)
		c.markCreated(3)
		c.markBound(2)
		time.Sleep(2 * time.Second)
		c.markBound(1)
		c.markCreated(4)
		c.markCreated(5)
		time.Sleep(time.Second)
		c.markBound(3)
		c.markBound(4) // pod 5 is never bound: half a gang has no time
		got := c.timing()
		if want := (Latency{P50: 3000, P95: 3000, P99: 3000, Max: 3000}); got.gangs != want {
			t.Errorf("gangs %+v, want %+v", got.gangs, want)
		}
		// Six pods in 4 s, the last two at their end.
		if got.bound != 5 || got.arrival != 1 || got.latency.Max != 4000 {
			t.Errorf("pods %+v", got)
		}
	})
}

func TestPodsAloneAreNoGangs(t *testing.T) {
	c := newCohort("pod", 2)
	for i := range c.size() {
		c.markCreated(i)
		c.markBound(i)
	}
	if got := c.timing().gangs; got != (Latency{}) || c.gangLabels(0) != nil {
		t.Errorf("timing %+v, labels %v", got, c.gangLabels(0))
	}
}

func TestGangsArriveTogether(t *testing.T) {
	sink := &podSink{}
	server := httptest.NewServer(sink)
	defer server.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: protobuf}})
	if err != nil {
		t.Fatal(err)
	}
	l := load{client: client, schedulerName: "some-scheduler", gpus: 1}
	c := newGangs("pod", 3, 4)
	bodies, err := l.prepare(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.create(t.Context(), c, bodies, 20); err != nil {
		t.Fatal(err)
	}
	sizes := map[string]int{}
	for _, pod := range sink.pods {
		i, _ := c.indexOf(pod.Name)
		if got := pod.Labels[names.LabelGang]; got != c.gangName(i/4) || pod.Labels[names.LabelGangSize] != "4" {
			t.Errorf("pod %s has labels %v", pod.Name, pod.Labels)
		}
		sizes[pod.Labels[names.LabelGang]]++
	}
	if len(sink.pods) != 12 || len(sizes) != 3 {
		t.Errorf("%d pods in gangs %v", len(sink.pods), sizes)
	}
	// Never early: gang g is due after g times 4 pods at 20 per second.
	for i, created := range c.created {
		if due := c.created[0] + time.Duration(i/4)*200*time.Millisecond; created < due-50*time.Millisecond {
			t.Errorf("pod %d came at %v, due at %v", i, created, due)
		}
	}
	// The last member does not wait for its place among the pods: that would be
	// 150 ms after the first. A busy machine may delay single ones.
	for first := 0; first < c.size(); first += 4 {
		if c.created[first+3]-c.created[first] < 100*time.Millisecond {
			return
		}
	}
	t.Errorf("pods of every gang came one by one: %v", c.created)
}

func TestCheckGangs(t *testing.T) {
	c := newGangs("p", 2, 2)
	on := func(i int, node string) corev1.Pod {
		pod := boundPod(t, c.podName(i), node)
		pod.Labels = c.gangLabels(i)
		return pod
	}
	stranger := on(1, "n1")
	stranger.Labels = nil
	for _, tc := range []struct {
		name string
		pods []corev1.Pod
		want gangPlaces
		text []string
	}{
		{
			name: "a node each",
			pods: []corev1.Pod{on(0, "n1"), on(1, "n1"), on(2, "n2"), on(3, "n2")},
			want: gangPlaces{mean: 1, most: 1},
		},
		{
			name: "a node shared by gangs",
			pods: []corev1.Pod{on(0, "n1"), on(1, "n2"), on(2, "n2"), on(3, "n2")},
			want: gangPlaces{mean: 1.5, most: 2},
		},
		{
			name: "half a gang is not counted in the mean",
			pods: []corev1.Pod{on(0, "n1"), on(1, "n2"), on(2, "n2"), on(3, "")},
			want: gangPlaces{mean: 2, most: 2, partial: 1},
			text: []string{"gang p-gang-000001 has 1 of 2 pods bound"},
		},
		{
			name: "a pod that is gone",
			pods: []corev1.Pod{on(0, "n1"), on(2, "n2"), on(3, "n2")},
			want: gangPlaces{mean: 1, most: 1, partial: 1},
			text: []string{"gang p-gang-000000 has 1 of 2 pods bound"},
		},
		{
			name: "a gang that waits as a whole is not in part",
			pods: []corev1.Pod{on(0, "n1"), on(1, "n1"), on(2, ""), on(3, "")},
			want: gangPlaces{mean: 1, most: 1},
		},
		{
			name: "a pod without the labels of a member",
			pods: []corev1.Pod{on(0, "n1"), stranger, on(2, "n2"), on(3, "n2")},
			want: gangPlaces{mean: 1, most: 1},
			text: []string{`pod p-000001 is of gang "" and should be of "p-gang-000000"`},
		},
		{name: "nothing"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, problems := checkGangs(c.gangs(), tc.pods)
			if got != tc.want || !slices.Equal(problems, tc.text) {
				t.Errorf("got %+v, %q, want %+v, %q", got, problems, tc.want, tc.text)
			}
		})
	}
}

func TestGangSummaryKeepsTheWorst(t *testing.T) {
	trials := []Result{
		{Contender: Tangram, Round: 1, Gangs: &GangResult{NodesPerGang: 1, MostNodes: 1, LastCreateToBound: Latency{P50: 10, P99: 30}}},
		{Contender: Tangram, Round: 2, Problems: []string{"it ended"}},
		{Contender: Tangram, Round: 3, Gangs: &GangResult{NodesPerGang: 1.5, MostNodes: 3, Partial: 2, LastCreateToBound: Latency{P50: 20, P99: 50}}},
	}
	got := summarise([]string{Tangram}, trials)[0].Gangs
	want := GangResult{NodesPerGang: 1.25, MostNodes: 3, Partial: 2, LastCreateToBound: Latency{P50: 15, P99: 40}}
	if got == nil || *got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := summarise([]string{Ceiling}, []Result{{Contender: Ceiling}})[0].Gangs; got != nil {
		t.Errorf("gangs of pods that come alone: %+v", got)
	}
}

func TestTableOfGangs(t *testing.T) {
	one := 1.0
	report := Report{
		Machine:  Machine{CPUs: 2},
		Settings: Settings{Nodes: 1000, GPUsPerNode: 8, Pods: 2000, Gangs: 250, GangSize: 8, GPUsPerPod: 1, Rate: 100, Rounds: 1},
		Summary: []Result{
			{
				Contender: Ceiling, PodsPerSecond: 100, OfCeiling: &one, CreateToBound: Latency{P50: 3, P95: 4, P99: 5},
				Gangs: &GangResult{NodesPerGang: 8, MostNodes: 8, LastCreateToBound: Latency{P50: 3, P95: 4.25, P99: 5}},
			},
			{Contender: Tangram, Problems: []string{"it ended"}},
		},
	}
	want := `1000 nodes x 8 GPUs, 250 gangs of 8 pods of 1 GPU, arriving at 100/s, 1 round, 2 CPUs

                                of   of kube-   scheduler  create to bound ms  peak  nodes      client  other
contender          pods/s  ceiling  scheduler  CPU ms/pod       p50  p95  p99   MiB   used  CPU ms/pod    CPU
ceiling               100     1.00          -        0.00       3.0  4.0  5.0     0      0        0.00     0%
tangram (INVALID)       0        -          -        0.00       0.0  0.0  0.0     0      0        0.00     0%

                   last created to bound ms  nodes per gang  partial
contender                     p50  p95  p99      mean  most    gangs
ceiling                       3.0  4.2  5.0      8.00     8        0
tangram (INVALID)               -    -    -         -     -        -

INVALID tangram: it ended
`
	var b strings.Builder
	if err := report.writeTable(&b); err != nil {
		t.Fatal(err)
	}
	if got := b.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
