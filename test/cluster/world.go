package cluster

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tangram-dev/tangram/lab/fleet"
	"github.com/tangram-dev/tangram/lab/local"
	"github.com/tangram-dev/tangram/lab/operators"
	"github.com/tangram-dev/tangram/test/await"
)

// Limit is how long a test waits for what takes a few seconds on a quiet machine: the
// machine may run other tests.
const Limit = 2 * time.Minute

// World is a cluster as one test sees it: an error in one of its methods ends that test.
type World struct {
	*Cluster
	T testing.TB
	// Namespace is that of pods and objects which a method names without one.
	Namespace string
	// runs counts the components that the tests started.
	runs *atomic.Int32
}

// ForTest starts a cluster that ends with the test. Of a test that failed it shows what the
// programs of Tangram and the operators logged last.
func ForTest(t testing.TB, o Options) *World {
	t.Helper()
	o.Kubernetes.Dir = t.TempDir()
	w := Open(t, o)
	t.Cleanup(func() {
		if t.Failed() {
			w.logTails(t)
		}
		if err := w.End(t.Failed()); err != nil {
			t.Error(err)
		}
	})
	return w
}

// Open starts a cluster that the caller, or Shared, ends. The test is skipped when programs
// are not built.
func Open(t testing.TB, o Options) *World {
	t.Helper()
	o.Kubernetes.Bin = Bin(t, o.programs()...)
	for _, op := range o.Operators {
		Built(t, operators.Require(o.Kubernetes.Bin, op.Name))
	}
	c, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	return newWorld(t, c)
}

// Over is the world of a test on a cluster that something else starts and ends.
func Over(t testing.TB, c *local.Cluster, bin string) *World {
	t.Helper()
	w := newWorld(t, &Cluster{Cluster: c, Bin: bin})
	w.Must(w.connect())
	return w
}

func newWorld(t testing.TB, c *Cluster) *World {
	return &World{Cluster: c, T: t, Namespace: "default", runs: &atomic.Int32{}}
}

// In is the world of another test, or of a subtest.
func (w *World) In(t testing.TB) *World {
	out := *w
	out.T = t
	return &out
}

// Within is the world in another namespace.
func (w *World) Within(namespace string) *World {
	out := *w
	out.Namespace = namespace
	return &out
}

// Must ends the test with an error, if there is one.
func (w *World) Must(err error) {
	w.T.Helper()
	if err != nil {
		w.T.Fatal(err)
	}
}

// Eventually waits until a condition holds; the test ends with what was last seen when it
// does not within Limit.
func (w *World) Eventually(what string, holds func() (ok bool, seen string)) {
	w.T.Helper()
	await.Eventually(w.T, what, Limit, holds)
}

// Complete is Eventually for a question whose answer is what is missing.
func (w *World) Complete(what string, missing func() string) {
	w.T.Helper()
	await.Complete(w.T, what, Limit, missing)
}

// Stays checks for a time, and at least once, that a question is answered with "", and not
// with what is wrong.
func (w *World) Stays(during time.Duration, what string, wrong func() string) {
	w.T.Helper()
	for end := time.Now().Add(during); ; time.Sleep(100 * time.Millisecond) {
		if seen := wrong(); seen != "" {
			w.T.Fatalf("%s: %s", what, seen)
		}
		if !time.Now().Before(end) {
			return
		}
	}
}

// Apply applies manifests; tabs in them are indentation.
func (w *World) Apply(manifests string) {
	w.T.Helper()
	w.Must(w.ApplyManifests(context.Background(), []byte(strings.ReplaceAll(manifests, "\t", "  "))))
}

// Refused checks that the API server refuses manifests, with these words among others.
func (w *World) Refused(manifests string, words ...string) {
	w.T.Helper()
	err := w.ApplyManifests(context.Background(), []byte(manifests))
	if err == nil {
		w.T.Errorf("accepted:\n%s", manifests)
	} else if lacks := missing(err.Error(), words); lacks != "" {
		w.T.Errorf("refused without %q: %v", lacks, err)
	}
}

// missing is the first of some words that a text does not have; "" when it has all.
func missing(text string, words []string) string {
	for _, word := range words {
		if !strings.Contains(text, word) {
			return word
		}
	}
	return ""
}

// Fleet creates the nodes of a fleet file, and their GPUNodes where the API has them.
func (w *World) Fleet(text string) {
	w.T.Helper()
	f, err := fleet.Parse("fleet.yaml", []byte(text))
	w.Must(err)
	w.Must(w.CreateFleet(context.Background(), f))
}

// Guide are the manifests of a page of docs/guides, as its readers copy them.
func (w *World) Guide(page string) (manifests []string) {
	w.T.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "docs", "guides", page))
	w.Must(err)
	for _, block := range strings.Split(string(data), "```yaml\n")[1:] {
		if text, _, ok := strings.Cut(block, "```"); ok && strings.HasPrefix(text, "apiVersion:") {
			manifests = append(manifests, text)
		}
	}
	return manifests
}
