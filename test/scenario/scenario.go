package scenario

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tangram-dev/tangram/api/v1alpha1"
)

// stepTimeout ends a step that hangs; far above any engine's patience.
const stepTimeout = 2 * time.Minute

// Run runs every file of a folder as a subtest, on whichever of several equal engines is
// free. Files that name other engines only are skipped. With -rewrite the first engine a
// file names writes it, and the others look on: they must agree, not overwrite each
// other.
func Run(t *testing.T, dir string, equal ...Engine) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scenario files in %s (%v)", dir, err)
	}
	left := make(chan string, len(paths))
	for _, path := range paths {
		left <- path
	}
	close(left)
	var running sync.WaitGroup
	for _, e := range equal {
		running.Go(func() {
			for path := range left {
				t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) { tell(t, path, e) })
			}
		})
	}
	running.Wait()
}

// tell runs a file on an engine, if it is for it.
func tell(t *testing.T, path string, e Engine) {
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	engines, err := header(string(text))
	switch {
	case err != nil:
		t.Fatalf("%s: %v", path, err)
	case !slices.Contains(engines, e.Name()):
		t.Skipf("the file runs on %s only", strings.Join(engines, " and "))
	case rewriting() && engines[0] != e.Name():
		t.Skipf("-rewrite leaves the file to the %s engine", engines[0])
	}
	runFile(t, path, e)
}

// allEngines is the order in which engines are asked.
var allEngines = []string{"core", "plugin", "cluster"}

// header checks that a file begins with its story and returns the engines it is
// for: all, unless a line "# engines: plugin cluster" names some.
func header(text string) ([]string, error) {
	if !strings.HasPrefix(text, "# ") {
		return nil, errors.New("a file begins with its story: lines that start with #")
	}
	for l := range strings.Lines(text) {
		if !strings.HasPrefix(l, "#") {
			break
		}
		list, ok := strings.CutPrefix(l, "# engines:")
		if !ok {
			continue
		}
		engines := strings.Fields(list)
		for i, name := range engines {
			at := slices.Index(allEngines, name)
			if at < 0 || i > 0 && at <= slices.Index(allEngines, engines[i-1]) {
				return nil, fmt.Errorf("engines: %q is not some of %q, in that order", engines, allEngines)
			}
		}
		if len(engines) > 0 {
			return engines, nil
		}
	}
	return allEngines, nil
}

func rewriting() bool {
	f := flag.Lookup("rewrite") // datadriven's
	return f != nil && f.Value.String() == "true"
}

// story is one file being told to one engine.
type story struct {
	engine Engine
	// nodes and gpuNodes are as the story last wrote them.
	nodes    map[string]*v1.Node
	gpuNodes map[string]*v1alpha1.GPUNode
	// topologies are NodeResourceTopologies.
	topologies map[string]*unstructured.Unstructured
	queues     map[string]*unstructured.Unstructured
	// markers counts what was made only to see whether the scheduler has seen it.
	markers int
	// order has the pods in the order of their first appearance.
	order []string
	// planted are pods that came with a node: Tangram did not place them.
	planted map[string]bool
	// shown is each pod's line as last printed, so that a step prints what
	// changed, and nothing can change unseen.
	shown  map[string]string
	warned map[Warning]bool
	// created counts pods, for UIDs and for who came first.
	created int
}

func newStory(e Engine) *story {
	return &story{
		engine: e, nodes: map[string]*v1.Node{}, gpuNodes: map[string]*v1alpha1.GPUNode{}, topologies: map[string]*unstructured.Unstructured{},
		queues: map[string]*unstructured.Unstructured{}, planted: map[string]bool{}, shown: map[string]string{}, warned: map[Warning]bool{},
	}
}

func runFile(t *testing.T, path string, e Engine) {
	ctx, cancel := context.WithTimeout(t.Context(), stepTimeout)
	defer cancel()
	if err := e.Reset(ctx); err != nil {
		t.Fatalf("empty the cluster: %v", err)
	}
	s := newStory(e)
	datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
		ctx, cancel := context.WithTimeout(t.Context(), stepTimeout)
		defer cancel()
		out, err := s.step(ctx, d)
		if err != nil {
			t.Fatalf("%s: %s: %v", d.Pos, d.Cmd, err)
		}
		return out
	})
	// Nothing may happen after the last step either.
	if late, err := s.finish(ctx); err != nil || late != nothing {
		t.Fatalf("after the last step: %s (%v)", late, err)
	}
}

// nothing is what a step prints after which no pod's line changed.
const nothing = "ok\n"

// step does what a step says, waits for the answer and returns it.
func (s *story) step(ctx context.Context, d *datadriven.TestData) (string, error) {
	verb, ok := verbs[d.Cmd]
	if !ok {
		return "", errors.New("no such verb")
	}
	view, err := verb(s, ctx, d)
	if err != nil {
		return "", err
	}
	if err := s.engine.Settle(ctx); err != nil {
		return "", err
	}
	return s.answer(ctx, view, d.Expected)
}

func (s *story) finish(ctx context.Context) (string, error) {
	if err := s.engine.Settle(ctx); err != nil {
		return "", err
	}
	return s.answer(ctx, s.changes(), nothing)
}

// view turns the state of the cluster into a step's output.
type view func(*State) (string, error)

// answer looks until the output is the expected one, or for as long as the
// engine may take to get there. It keeps what it saw as shown.
func (s *story) answer(ctx context.Context, view view, expected string) (string, error) {
	var out string
	var failure error
	since := time.Now()
	state, err := await(ctx, s.engine, func(state *State) bool {
		before := out
		out, failure = view(state)
		if out != before {
			since = time.Now()
		}
		if rewriting() {
			return failure != nil || s.engine.Patience() == 0 || time.Since(since) > quietTime
		}
		return failure != nil || out == expected
	})
	if err = errors.Join(err, failure); err != nil {
		return "", err
	}
	s.show(state)
	return out, state.checkRecords(s.planted)
}

// show remembers what has been printed.
func (s *story) show(state *State) {
	clear(s.shown)
	for name, pod := range state.Pods {
		s.shown[name] = podLine(pod)
	}
	for _, w := range state.Warnings {
		s.warned[w] = true
	}
}

// changes prints the pods given, and every other pod whose line changed, in the
// order the story brought them in; then new warnings.
func (s *story) changes(given ...string) view {
	return s.changesBut(nil, given...)
}

// changesBut is changes without some pods, whose change is the step itself.
func (s *story) changesBut(hidden []string, given ...string) view {
	return func(state *State) (string, error) {
		var out strings.Builder
		for _, name := range s.order {
			pod, was := state.Pods[name], s.shown[name]
			switch {
			case slices.Contains(hidden, name):
			case pod == nil && was != "":
				fmt.Fprintf(&out, "%s is gone\n", name)
			case pod != nil && (podLine(pod) != was || slices.Contains(given, name)):
				fmt.Fprintln(&out, podLine(pod))
			}
		}
		warnings := slices.Clone(state.Warnings)
		slices.SortFunc(warnings, Warning.compare)
		for _, w := range slices.Compact(warnings) {
			if !s.warned[w] {
				fmt.Fprintln(&out, w)
			}
		}
		if out.Len() == 0 {
			return nothing, nil
		}
		return out.String(), nil
	}
}
