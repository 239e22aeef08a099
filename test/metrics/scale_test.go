package metrics

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

// TestScrapeCost measures what a scrape costs at 1,000 nodes, 4,000 running and 5,000
// pending pods. It takes minutes and is for docs/benchmarks.md: set TANGRAM_MEASURE=1.
func TestScrapeCost(t *testing.T) {
	if os.Getenv("TANGRAM_MEASURE") == "" {
		t.Skip("skipped: TANGRAM_MEASURE is not set, and this takes minutes")
	}
	var manifests strings.Builder
	for i := range 20 {
		fmt.Fprintf(&manifests, "{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: q%d}, spec: {weight: 1}}\n---\n", i)
	}
	w := newWorld(t, "pools: [{name: n, count: 1000, gpu: {model: A100-80GB, count: 8}}]", configuration("{}"), manifests.String())
	reader := w.token("prometheus", true)
	w.createAll("run", 4000, func(i int) *v1.Pod {
		return pod(fmt.Sprint("run-", i), 2, inQueue(fmt.Sprint("q", i%20)), ofUser(fmt.Sprint("user-", i%10)))
	})
	w.expect(reader, samples{`tangram_scheduling_attempts_total{reason="",result="scheduled"}`: 4000})
	w.createAll("wait", 5000, func(i int) *v1.Pod {
		return pod(fmt.Sprint("wait-", i), 1+i%8, inQueue(fmt.Sprint("q", i%20)), ofUser(fmt.Sprint("user-", i%10)))
	})
	time.Sleep(time.Minute) // until everything was told why it waits
	pending := 0.0
	got := w.scrape(reader)
	for key, n := range got {
		if strings.HasPrefix(key, "tangram_pending_pods{") {
			pending += n
		}
	}
	_, body := w.get(reader)
	ours, lines := 0, 0
	for line := range strings.SplitSeq(body, "\n") {
		if strings.HasPrefix(line, "tangram_") {
			ours, lines = ours+len(line)+1, lines+1
		}
	}
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	if _, err := z.Write([]byte(body)); err != nil {
		t.Fatal(err)
	}
	must(t, z.Close())
	t.Logf("pending pods: %g", pending)
	t.Logf("scrape: %d bytes, %d gzipped; of it tangram_*: %d bytes, %d series", len(body), zipped.Len(), ours, lines)

	// 200 scrapes in a row share few censuses: what is left is the scrape itself. The census
	// is what the lock is held for.
	const rounds = 200
	began := time.Now()
	used := w.cpu(func() {
		for range rounds {
			if status, _ := w.get(reader); status != http.StatusOK {
				t.Errorf("status %d", status)
			}
		}
	})
	took := time.Since(began)
	idle := w.cpu(func() { time.Sleep(took) })
	for range 10 {
		time.Sleep(2100 * time.Millisecond) // each counts anew
		w.scrape(reader)
	}
	after := w.scrape(reader)
	key := `tangram_engine_lock_seconds_%s{for="metrics"}`
	held := after[fmt.Sprintf(key, "sum")] - got[fmt.Sprintf(key, "sum")]
	n := after[fmt.Sprintf(key, "count")] - got[fmt.Sprintf(key, "count")]
	t.Logf("CPU: %s with %d scrapes, %s without in the same time: %s per scrape; a scrape took %s", used, rounds, idle, (used-idle)/rounds, took/rounds)
	t.Logf("lock held for %.1f ms per census (%g of them)", 1000*held/n, n)
	t.Logf("lock:\n%s", filter(after.of("tangram_engine_lock_seconds_bucket"), `for="metrics"`))
}

func filter(text, part string) string {
	var out []string
	for line := range strings.SplitSeq(text, "\n") {
		if strings.Contains(line, part) {
			out = append(out, line)
		}
	}
	return strings.Join(out, "\n")
}

// createAll creates many pods, several at a time.
func (w *world) createAll(what string, n int, make func(int) *v1.Pod) {
	w.t.Helper()
	numbers := createNumbers(n)
	var workers sync.WaitGroup
	for range 16 {
		workers.Go(func() {
			for i := range numbers {
				w.create(make(i))
			}
		})
	}
	workers.Wait()
	w.t.Logf("%d pods created: %s", n, what)
}

func createNumbers(n int) <-chan int {
	out := make(chan int, n)
	for i := range n {
		out <- i
	}
	close(out)
	return out
}

// cpu is the processor time that the scheduler used during a function.
func (w *world) cpu(during func()) time.Duration {
	w.t.Helper()
	before := w.cpuTime()
	during()
	return w.cpuTime() - before
}

func (w *world) cpuTime() time.Duration {
	w.t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", w.pid))
	must(w.t, err)
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * (time.Second / 100)
}
