package metrics

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/test/cluster"
)

// TestScrapeCost measures what a scrape costs at 1,000 nodes, 4,000 running and 5,000
// pending pods. It takes minutes and is for docs/benchmarks.md: set TANGRAM_MEASURE=1.
func TestScrapeCost(t *testing.T) {
	if os.Getenv("TANGRAM_MEASURE") == "" {
		t.Skip("skipped: TANGRAM_MEASURE is not set, and this takes minutes")
	}
	w := newWorld(t, "pools: [{name: n, count: 1000, gpu: {model: A100-80GB, count: 8}}]", configuration("{}"), []byte(metricsRole), readers)
	for i := range 20 {
		w.AddQueue(fmt.Sprint("q", i), "{weight: 1}")
	}
	reader := w.Token("default", "prometheus")
	pod := func(name string, i, gpus int) *v1.Pod {
		return cluster.Pod(fmt.Sprint(name, i), gpus, cluster.Queue(fmt.Sprint("q", i%20)), cluster.Annotate(names.AnnotationUser, fmt.Sprint("user-", i%10)))
	}
	w.CreateAll(numbered(4000, func(i int) *v1.Pod { return pod("run-", i, 2) }))
	w.expect(reader, cluster.Samples{`tangram_scheduling_attempts_total{reason="",result="scheduled"}`: 4000})
	w.CreateAll(numbered(5000, func(i int) *v1.Pod { return pod("wait-", i, 1+i%8) }))
	time.Sleep(time.Minute) // until everything was told why it waits
	got := w.scrape(reader)
	pending := got.Sum("tangram_pending_pods", "")
	ask := func() cluster.Answer { return w.asker.Bearer(reader).Do(t, http.MethodGet, "/metrics", nil) }
	body := ask().Text
	ours, lines := 0, 0
	for line := range strings.SplitSeq(body, "\n") {
		if strings.HasPrefix(line, "tangram_") {
			ours, lines = ours+len(line)+1, lines+1
		}
	}
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, err := z.Write([]byte(body))
	w.Must(err)
	w.Must(z.Close())
	t.Logf("pending pods: %g", pending)
	t.Logf("scrape: %d bytes, %d gzipped; of it tangram_*: %d bytes, %d series", len(body), zipped.Len(), ours, lines)

	// 200 scrapes in a row share few censuses: what is left is the scrape itself. The census
	// is what the lock is held for.
	const rounds = 200
	began := time.Now()
	used := w.cpu(func() {
		for range rounds {
			if a := ask(); a.Status != http.StatusOK {
				t.Errorf("status %d", a.Status)
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
	t.Logf("lock:\n%s", filter(after.Of("tangram_engine_lock_seconds_bucket"), `for="metrics"`))
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

// numbered are n pods.
func numbered(n int, make func(int) *v1.Pod) (out []*v1.Pod) {
	for i := range n {
		out = append(out, make(i))
	}
	return out
}

// cpu is the processor time that the scheduler used during a function.
func (w *world) cpu(during func()) time.Duration {
	w.T.Helper()
	before := w.CPUTime(w.process)
	during()
	return w.CPUTime(w.process) - before
}
