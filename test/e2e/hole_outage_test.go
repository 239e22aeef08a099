package e2e

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/lab/local"
	"github.com/tangram-dev/tangram/test/cluster"
)

// TestHoleOutage: the API server is away for some seconds while pods start and wait. The
// scheduler tries again with pauses: nothing that it retries fails more often than outages
// and back-off steps explain, and it goes on afterwards.
func TestHoleOutage(t *testing.T) {
	t.Parallel()
	w := newGangWorld(t, local.Options{}, `pools: [{name: n, count: 50, gpu: {model: A100-80GB, count: 8}}]`)
	scheduler := w.Scheduler(nil)
	// A burst of pods, more than fit, is under way when the outage begins.
	const fit = 400
	var pods []*v1.Pod
	for i := range fit + 80 {
		pods = append(pods, pod(fmt.Sprintf("p-%d", i), 1, cluster.Gang(fmt.Sprintf("g-%d", i/4), 4)))
	}
	signal(t, scheduler, syscall.SIGSTOP)
	w.CreateAll(pods)
	signal(t, scheduler, syscall.SIGCONT)
	w.Eventually("pods start", func() (bool, string) { return w.boundIn("p-") > 0, "none" })
	t.Logf("%d of %d pods are bound when the outage begins", w.boundIn("p-"), fit)
	_, from := w.logLines(scheduler, 0)
	server := w.Process("kube-apiserver")
	const outages = 3
	for range outages { // it is started again at once, and needs seconds to serve
		w.Must(syscall.Kill(server.Pid(), syscall.SIGKILL))
		time.Sleep(3 * time.Second)
	}
	w.Eventually("the API server serves again", func() (bool, string) {
		_, err := w.Client.Discovery().ServerVersion()
		return err == nil, fmt.Sprint(err)
	})
	lines, _ := w.logLines(scheduler, from)
	failures := map[string]int{}
	for _, line := range lines {
		if strings.HasPrefix(line, "E") {
			failures[failureOf(line)]++
		}
	}
	often := sortedKeys(failures)
	slices.SortFunc(often, func(a, b string) int { return failures[b] - failures[a] })
	for _, what := range often[:min(5, len(often))] {
		t.Logf("%5d %s", failures[what], what)
	}
	// Pauses double from less than a second to half a minute: of one outage a retrier fails
	// at once and then about once per step. Events are written once per pod.
	const most = outages * 6
	for what, n := range failures {
		if limit := map[bool]int{false: most, true: len(pods)}[strings.Contains(what, "/events")]; n > limit {
			t.Errorf("%d times in %d outages, want at most %d: %s", n, outages, limit, what)
		}
	}
	w.Eventually("what fits is bound after the outage", func() (bool, string) {
		n := w.boundIn("p-")
		return n == fit, fmt.Sprintf("%d of %d", n, fit)
	})
	w.CheckRecords()
}

// Parts of an error line that tell what was tried: the place in the code, and the pod, the
// path or the resource.
var (
	codeOf  = regexp.MustCompile(`\S+\.go:\d+\]`)
	triedOf = regexp.MustCompile(`pod="[^"]*"|://[^/]*(/[^?\\" ]*)|cannot \w+ resource \S+`)
)

// failureOf is what failed, by an error line of a log.
func failureOf(line string) string {
	code, tried := codeOf.FindString(line), triedOf.FindAllString(line, -1)
	for _, what := range tried {
		if strings.HasPrefix(what, "pod=") {
			return code + " " + what
		}
	}
	if len(tried) == 0 {
		_, text, _ := strings.Cut(line, "] ")
		return code + " " + text[:min(60, len(text))]
	}
	return code + " " + tried[0]
}

// TestHoleSelfCheck: on SIGUSR2 the scheduler checks its ledger, the limits of queues,
// gangs and lost pods, and logs the verdict; it does so by itself, too, once a minute at
// the latest.
func TestHoleSelfCheck(t *testing.T) {
	t.Parallel()
	w := newGangWorld(t, local.Options{}, `pools: [{name: n, count: 2, gpu: {model: A100-80GB, count: 8}}]`)
	w.AddQueue("small", "{weight: 1, capability: {nvidia.com/gpu: 4}}")
	scheduler := w.Scheduler(nil)
	w.createGang("g", 4, 1, cluster.Queue("small"))
	w.Create(pod("waits", 1, cluster.Queue("small")))
	w.gangNodes("g-", 4)
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
	w.Eventually("a signal makes it check all four", func() (bool, string) {
		if time.Since(asked) > time.Second { // the first may come before it has seen the Bindings
			signal(t, scheduler, syscall.SIGUSR2)
			asked = time.Now()
		}
		return covered(from)
	})
	_, from = w.logLines(scheduler, 0)
	w.Eventually("it checks by itself", func() (bool, string) { return covered(from) })
}
