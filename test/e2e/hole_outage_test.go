package e2e

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/internal/local"
)

// TestHoleOutage: the API server is away for some seconds while pods start and wait. The
// scheduler tries again with pauses: it does not fill its log, and goes on afterwards.
func TestHoleOutage(t *testing.T) {
	t.Parallel()
	knownHole(t, "H19")
	w := newGangWorld(t, local.Options{}, `pools: [{name: n, count: 50, gpu: {model: A100-80GB, count: 8}}]`)
	scheduler := w.scheduler(nil)
	// A burst of pods, more than fit, is under way when the outage begins.
	const fit = 400
	var pods []*v1.Pod
	for i := range fit + 80 {
		pods = append(pods, pod(fmt.Sprintf("p-%d", i), 1, gangLabels(fmt.Sprintf("g-%d", i/4), 4)))
	}
	signal(t, scheduler, syscall.SIGSTOP)
	w.createAll(pods)
	signal(t, scheduler, syscall.SIGCONT)
	w.eventually("pods start", 30*time.Second, func() (bool, string) { return w.boundIn("p-") > 0, "none" })
	before := w.boundIn("p-")
	t.Logf("%d of %d pods are bound when the outage begins", before, fit)
	_, from := w.logLines(scheduler, 0)
	start := time.Now()
	server := w.Process("kube-apiserver")
	for range 3 { // it is started again at once, and needs seconds to serve
		if err := syscall.Kill(server.Pid(), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
	}
	w.eventually("the API server serves again", time.Minute, func() (bool, string) {
		_, err := w.client.Discovery().ServerVersion()
		return err == nil, fmt.Sprint(err)
	})
	outage := time.Since(start)
	lines, _ := w.logLines(scheduler, from)
	kinds, errors := map[string]int{}, 0
	for _, line := range lines {
		if strings.HasPrefix(line, "E") {
			errors++
			if _, text, ok := strings.Cut(line, "] "); ok {
				kinds[text[:min(60, len(text))]]++
			}
		}
	}
	// Each pod whose Binding was under way fails once, which the framework logs; what is
	// tried again is what counts.
	rate := float64(max(0, errors-(fit-before))) / outage.Seconds()
	t.Logf("%d error lines in %s: %.1f a second", errors, outage.Round(time.Second), rate)
	often := sortedKeys(kinds)
	slices.SortFunc(often, func(a, b string) int { return kinds[b] - kinds[a] })
	for _, kind := range often[:min(5, len(often))] {
		t.Logf("%5d %s", kinds[kind], kind)
	}
	if rate > 15 {
		t.Errorf("%.1f error lines a second", rate)
	}
	w.eventually("what fits is bound after the outage", time.Minute, func() (bool, string) {
		n := w.boundIn("p-")
		return n == fit, fmt.Sprintf("%d of %d", n, fit)
	})
	w.checkRecords()
}

// TestHoleSelfCheck: on SIGUSR2 the scheduler checks its ledger, the limits of queues,
// gangs and lost pods, and logs the verdict; it does so by itself, too, once a minute at
// the latest.
func TestHoleSelfCheck(t *testing.T) {
	t.Parallel()
	knownHole(t, "H20")
	w := newGangWorld(t, local.Options{}, `pools: [{name: n, count: 2, gpu: {model: A100-80GB, count: 8}}]`)
	w.queueOf("small", "{weight: 1, capability: {nvidia.com/gpu: 4}}")
	scheduler := w.scheduler(nil)
	w.createGang("g", 4, 1, inQueue("small"))
	w.create(pod("waits", 1, inQueue("small")))
	w.gangNodes("g-", 4, 20*time.Second)
	covered := func(from int64) (bool, string) {
		lines, _ := w.logLines(scheduler, from)
		var seen []string
		for _, line := range lines {
			if strings.Contains(strings.ToLower(line), "check") {
				seen = append(seen, line)
			}
		}
		text := strings.ToLower(strings.Join(seen, "\n"))
		for _, word := range []string{"passed", "holders=4", "limits", "gangs", "lost"} {
			if !strings.Contains(text, word) {
				return false, fmt.Sprintf("no %q in %q", word, text)
			}
		}
		return true, ""
	}
	_, from := w.logLines(scheduler, 0)
	var asked time.Time
	w.eventually("a signal makes it check all four", 10*time.Second, func() (bool, string) {
		if time.Since(asked) > time.Second { // the first may come before it has seen the Bindings
			signal(t, scheduler, syscall.SIGUSR2)
			asked = time.Now()
		}
		return covered(from)
	})
	_, from = w.logLines(scheduler, 0)
	w.eventually("it checks by itself", 75*time.Second, func() (bool, string) { return covered(from) })
}
