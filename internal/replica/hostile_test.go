package replica

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

// hostile are values that break readers which trust what is written.
var hostile = []any{
	nil, true, "", "-1", "0", "1", "0.5", "1e308", "NaN", "9223372036854775807", "-9223372036854775808", "99999999999999999999", "1Ei", "-1Gi", "100000h", "-5m", "3,3,,-1", "*", "\x00", "{", "[", "a/b/c", "../..",
	strings.Repeat("x", 5000), -1.0, 0.0, 1.0, 2.5, 2147483648.0, 4294967296.0, 9.3e18, -9.3e18, 1e300,
	[]any{}, map[string]any{}, []any{nil}, []any{map[string]any{}}, map[string]any{"": nil},
}

// mangle changes one place of a tree: another value, none, a copy of what is beside it.
func mangle(r *rand.Rand, tree any) any {
	pick := func() any { return hostile[r.IntN(len(hostile))] }
	switch x := tree.(type) {
	case map[string]any:
		if len(x) == 0 {
			return pick()
		}
		keys := make([]string, 0, len(x))
		for k := range x {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		key := keys[r.IntN(len(keys))]
		if (key == "apiVersion" || key == "kind") && r.IntN(16) > 0 {
			key = keys[r.IntN(len(keys))] // what is of no kind is not read any further
		}
		switch r.IntN(24) {
		case 0:
			delete(x, key)
		case 1:
			x[keys[r.IntN(len(keys))]] = x[key]
		case 2:
			x[key] = pick()
		case 3:
			x[key+"x"] = x[key]
		default:
			x[key] = mangle(r, x[key])
		}
		return x
	case []any:
		if len(x) == 0 {
			return pick()
		}
		at := r.IntN(len(x))
		switch r.IntN(16) {
		case 0:
			return slices.Delete(x, at, at+1)
		case 1:
			return append(x, x[at])
		case 2:
			x[at] = pick()
		default:
			x[at] = mangle(r, x[at])
		}
		return x
	}
	return pick()
}

func mangled(t *testing.T, text []byte, seed uint64, edits uint8) []byte {
	t.Helper()
	var tree any
	if err := json.Unmarshal(text, &tree); err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(seed, 1))
	for range 1 + edits%8 {
		tree = mangle(r, tree)
	}
	out, err := json.Marshal(tree)
	if err != nil {
		t.Skip(err) // a tree that contains itself
	}
	return out
}

// soon fails a test that hangs: a question is bounded.
func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// FuzzMangledDump: no dump that was edited makes the reader crash, nor what is asked of
// what it read.
func FuzzMangledDump(f *testing.F) {
	s := world(2)
	s.Pods = append(s.Pods, pod("a", 1), pod("b", 8, on("n0", time.Hour), lasting("2h")), pod("c", 8, lasting("1h"), priorityOf(5)), pod("d", 4))
	class(s, "high", 10)
	var b bytes.Buffer
	if err := WriteDump(&b, s, "test"); err != nil {
		f.Fatal(err)
	}
	z, err := gzip.NewReader(&b)
	if err != nil {
		f.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		f.Fatal(err)
	}
	for seed := range uint64(200) {
		f.Add(seed, uint8(seed))
	}
	f.Fuzz(func(t *testing.T, seed uint64, edits uint8) {
		s, err := ReadDump(bytes.NewReader(mangled(t, text, seed, edits)))
		if err != nil {
			return
		}
		state := &State{snapshot: s, offline: true, limits: DefaultLimits()}
		ctx := soon(t)
		_, _ = state.Why(ctx, "default", "", "a")
		_, _ = state.WhatIf(ctx, Question{Manifest: []byte("apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: 8}}}]}"), Namespace: "default"})
		if ctx.Err() != nil {
			t.Error("not answered in 20 s")
		}
	})
}

// FuzzMangledManifest: no manifest makes the reader of what-if questions crash, or take long.
// The manifests are those of examples, which speak all vocabularies.
func FuzzMangledManifest(f *testing.F) {
	files, err := filepath.Glob("../../examples/documents/*/*.yaml")
	if err != nil || len(files) < 20 {
		f.Fatalf("%d examples, %v", len(files), err)
	}
	var objects [][]byte
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for doc := range strings.SplitSeq(string(text), "\n---\n") {
			if object, err := yaml.YAMLToJSON([]byte(doc)); err == nil && len(object) > 10 {
				objects = append(objects, object)
			}
		}
	}
	for i := range objects {
		f.Add(uint16(i), uint64(i), uint8(0))
		f.Add(uint16(i), uint64(i), uint8(3))
	}
	f.Fuzz(func(t *testing.T, which uint16, seed uint64, edits uint8) {
		s := world(2)
		s.Pods = append(s.Pods, pod("b", 8, on("n0", time.Hour), lasting("2h")))
		state := &State{snapshot: s, limits: DefaultLimits()}
		ctx := soon(t)
		_, _ = state.WhatIf(ctx, Question{Manifest: mangled(t, objects[int(which)%len(objects)], seed, edits), Namespace: "default"})
		if ctx.Err() != nil {
			t.Error("not answered in 20 s")
		}
	})
}
