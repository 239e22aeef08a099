package plugin

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/tangram-dev/tangram/core/measure"
	"github.com/tangram-dev/tangram/core/model"
)

// TestMetricsArgs: what the arguments about metrics mean, and each mistake by its field.
func TestMetricsArgs(t *testing.T) {
	read := func(text string) (a QueueArgs, err error) {
		if err = decodeArgs(&runtime.Unknown{Raw: []byte(`{"metrics": ` + text + `}`)}, &a); err != nil {
			return a, err
		}
		if _, _, err = a.Metrics.idle(); err != nil {
			return a, err
		}
		_, err = a.Metrics.targets()
		return a, err
	}
	a, err := read(`{"idleBelow": 5, "idleAfter": "1h", "targets": {"completion": {"target": 99}, "inferenceLatency": {"alert": "1s", "metric": "serving:seconds"}}}`)
	if err != nil {
		t.Fatal(err)
	}
	if below, after, _ := a.Metrics.idle(); below != 5 || after != time.Hour {
		t.Errorf("idle %d %s", below, after)
	}
	targets, _ := a.Metrics.targets()
	if targets.Target.Completion != .99 || targets.Alert.Completion != .90 || targets.Alert.Inference != time.Second || targets.Target.Inference != 100*time.Millisecond ||
		targets.InferenceMetric != "serving:seconds" || targets.Alert.Allocation != time.Minute {
		t.Errorf("targets %+v", targets)
	}
	for text, want := range map[string]string{
		`{"idleBelow": 100}`:                                     "metrics.idleBelow: 100",
		`{"idleBelow": -1}`:                                      "metrics.idleBelow: -1",
		`{"idleAfter": "soon"}`:                                  `metrics.idleAfter: "soon"`,
		`{"idleAfter": "1ms"}`:                                   `metrics.idleAfter: "1ms"`,
		`{"prices": "x"}`:                                        "prices",
		`{"targets": {"completion": {"target": 101}}}`:           "metrics.targets.completion.target",
		`{"targets": {"completion": {"target": 80}}}`:            "metrics.targets.completion.alert",
		`{"targets": {"completion": {"aim": 80}}}`:               "aim",
		`{"targets": {"allocation": {"target": "half"}}}`:        `metrics.targets.allocation.target: "half"`,
		`{"targets": {"allocation": {"target": "-1s"}}}`:         "metrics.targets.allocation.target",
		`{"targets": {"inferenceLatency": {"alert": "1ms"}}}`:    "metrics.targets.inferenceLatency.alert",
		`{"targets": {"inferenceLatency": {"metric": "a b{}"}}}`: "metrics.targets.inferenceLatency.metric",
	} {
		if _, err := read(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", text, err, want)
		}
	}
}

// TestPriceTable: a table is read, followed, and a broken one changes nothing.
func TestPriceTable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "prices.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var tables []measure.Prices
	p := &prices{file: file, set: func(m measure.Prices) { tables = append(tables, m) }}
	if err := p.read(); err == nil {
		t.Error("a file that is not there was read")
	}
	write("currency: CNY\nperGPUHour: {T4: 8.5, V100: 26, A10: 18, A100: 65}\n")
	for range 2 { // once only
		if err := p.read(); err != nil {
			t.Fatal(err)
		}
	}
	if len(tables) != 1 {
		t.Fatalf("set %d times", len(tables))
	}
	if micro, ok := tables[0].Of(model.ParseModel("Tesla-T4")); !ok || micro != 8_500_000 {
		t.Errorf("a T4 costs %d", micro)
	}
	for text, want := range map[string]string{
		"currency: CNY\nperGPUHour: {T4: -1}":           "perGPUHour[T4]: -1",
		"currency: CNY\nperGPUHour: {T4: .nan}":         "",
		"currency: CNY\nperGPUHour: {T4: 1e30}":         "perGPUHour[T4]",
		"currency: CNY\nperGPUHour: {T4: free}":         "perGPUHour",
		"perGPUHour: {T4: 1}":                           "currency",
		"currency: CNY\nperHour: {T4: 1}":               "perHour",
		"currency: CNY\nperGPUHour: {T4: 1, nvidia: 2}": "perGPUHour[nvidia]",
		"[]":                                "",
		strings.Repeat("#", maxPriceFile+1): "more than",
	} {
		write(text)
		if err := p.read(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: error %v, want %q", text, err, want)
		}
	}
	if len(tables) != 1 {
		t.Errorf("a broken table was set")
	}
	write("currency: USD\nperGPUHour: {}\n")
	if err := p.read(); err != nil || len(tables) != 2 || tables[1].Currency != "USD" {
		t.Errorf("after it was repaired: %v, %d", err, len(tables))
	}
}

// lockRecord is what a lock that another replica holds says.
type lockRecord struct {
	resourcelock.Interface
	resourcelock.LeaderElectionRecord
}

func (r *lockRecord) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	out := r.LeaderElectionRecord
	return &out, nil, nil
}

// TestFresh: a replica that follows sees whether another one leads.
func TestFresh(t *testing.T) {
	other := &lockRecord{LeaderElectionRecord: resourcelock.LeaderElectionRecord{HolderIdentity: "other", RenewTime: metav1.Now()}}
	le := &leaderelection.LeaderElectionConfig{Lock: other, RenewDeadline: time.Second, LeaseDuration: time.Minute}
	f := &fence{}
	f.watch(le)
	look := func() {
		t.Helper()
		if _, _, err := le.Lock.Get(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	fresh := func(when string, want bool) {
		t.Helper()
		if f.fresh() != want {
			t.Errorf("%s: fresh is %t", when, !want)
		}
	}
	fresh("before anything is known", false)
	look()
	fresh("the other holds the lease", true)
	f.ago(2 * time.Minute)
	look()
	fresh("the other has not renewed it", false)
	other.RenewTime = metav1.NewTime(other.RenewTime.Add(time.Second))
	look()
	fresh("the other has renewed it", true)
	if !(&fence{}).fresh() {
		t.Error("without leader election")
	}
}
