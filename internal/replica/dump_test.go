package replica

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/internal/dialect"
	kubeengine "github.com/tangram-dev/tangram/internal/kube/engine"
)

// lived is a random state of a scheduler that has decided for a while.
func lived(t *testing.T, r *rand.Rand) *kubeengine.Snapshot {
	t.Helper()
	s := world(2 + r.IntN(3))
	for i := range 5 + r.IntN(20) {
		size, runtime, level := 1+r.IntN(3), []string{"10m", "1h", "7h"}[r.IntN(3)], int32(r.IntN(3))
		for m := range size {
			p := pod(fmt.Sprintf("g%d-%d", i, m), []int{1, 2, 4, 8}[r.IntN(4)], priorityOf(level))
			if r.IntN(2) == 0 {
				lasting(runtime)(p)
			}
			if size > 1 {
				p.Labels[names.LabelGang], p.Labels[names.LabelGangSize] = fmt.Sprintf("g%d", i), fmt.Sprint(size)
			}
			s.Pods = append(s.Pods, p)
		}
	}
	x, err := NewRun(s, Limits{Steps: 100, Horizon: time.Duration(r.IntN(5)) * time.Hour})
	must(t, err)
	_, err = x.Forward(t.Context(), func() bool { return false })
	must(t, err)
	out, err := x.Snapshot()
	must(t, err)
	return out
}

// future is what becomes of a state, in words.
func future(t *testing.T, s *kubeengine.Snapshot) string {
	t.Helper()
	x, err := NewRun(s, Limits{Steps: 60, Horizon: 24 * time.Hour})
	must(t, err)
	_, err = x.Forward(t.Context(), func() bool { return false })
	must(t, err)
	var lines []string
	for uid, p := range x.places {
		lines = append(lines, fmt.Sprintf("%s %s %b %s", uid, p.Node.ID, p.Grant.Set, x.Starts[p.Gang].UTC()))
	}
	for by, v := range x.evicted {
		for _, v := range v {
			lines = append(lines, by+" evicts "+v.Pod.Name)
		}
	}
	for _, id := range x.Waiting() {
		why := reasonOf(x.Replica, id)
		lines = append(lines, string(id)+" waits: "+why.String())
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// TestDumpDecides: a state that was dumped and read has the same future.
func TestDumpDecides(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	for range 20 {
		s := lived(t, r)
		var b bytes.Buffer
		must(t, WriteDump(&b, s, "test"))
		read, err := ReadDump(&b)
		must(t, err)
		if want, got := future(t, s), future(t, read); got != want {
			t.Fatalf("live:\n%s\n\nfrom the dump:\n%s", want, got)
		}
	}
}

// text is the JSON of a dump.
func text(t *testing.T, s *kubeengine.Snapshot) string {
	t.Helper()
	var b bytes.Buffer
	must(t, WriteDump(&b, s, "test"))
	z, err := gzip.NewReader(&b)
	must(t, err)
	out, err := io.ReadAll(z)
	must(t, err)
	return string(out)
}

// TestDumpLeavesOut: no program, environment or secret is in a dump, and images only as
// digests.
func TestDumpLeavesOut(t *testing.T) {
	s := world(1)
	p := pod("a", 1, on("n0", time.Hour))
	c := &p.Spec.Containers[0]
	c.Command, c.Args = []string{"hunter2-command"}, []string{"hunter2-arg"}
	p.Spec.ImagePullSecrets = []v1.LocalObjectReference{{Name: "hunter2-pull"}}
	p.Spec.Volumes = []v1.Volume{{Name: "s", VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "hunter2-volume"}}}}
	p.Spec.ServiceAccountName = "hunter2-account"
	p.Annotations["kubectl.kubernetes.io/last-applied-configuration"] = "hunter2-applied"
	p.Annotations["example.com/note"] = "hunter2-note"
	p.Annotations["description"] = "hunter2-plain"
	s.Pods = append(s.Pods, p)
	job := `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"j","namespace":"default","annotations":{"a":"hunter2"},"managedFields":[{"manager":"hunter2"}]},"spec":{"parallelism":2,
		"template":{"spec":{"containers":[{"name":"main","image":"registry.example/secret:2","command":["hunter2"],"env":[{"name":"A","value":"hunter2"}],"resources":{"limits":{"nvidia.com/gpu":1}}}],"volumes":[{"name":"hunter2"}]}}}}`
	o, err := decodeObject([]byte(job))
	must(t, err)
	s.Groups[dialect.Jobs] = append(s.Groups[dialect.Jobs], o)
	s.Learned.Runtimes = append(s.Learned.Runtimes, arbiter.SavedRuntime{Key: arbiter.RuntimeKey{Owner: "default/", Shape: "1 1 registry.example/secret:1"}, Mean: time.Hour, Runs: 3})
	got := text(t, s)
	for _, word := range []string{"hunter2", "registry.example", "secret"} {
		if strings.Contains(got, word) {
			t.Errorf("%q is in the dump: %s", word, got)
		}
	}
	if !strings.Contains(got, digest("registry.example/secret:1")) || !strings.Contains(got, `"nvidia.com/gpu"`) {
		t.Error("what scheduling reads is missing")
	}
	read, err := ReadDump(strings.NewReader(got))
	must(t, err)
	if n := len(read.Groups[dialect.Jobs]); n != 1 {
		t.Fatalf("%d Jobs", n)
	}
	// A manifest of the same image is expected to run as long.
	state := &State{snapshot: read, offline: true, limits: DefaultLimits()}
	out, err := state.WhatIf(t.Context(), Question{Manifest: []byte(strings.Replace(gpus("1"), "train:1", "registry.example/secret:1", 1))})
	must(t, err)
	if g := out.Gangs[0].Gang; g.RuntimeSeconds != 3600 || !g.Learned {
		t.Errorf("got %+v", g)
	}
}

// TestAnnotationsKept: what names and dialects read is not left out.
func TestAnnotationsKept(t *testing.T) {
	for _, key := range []string{
		names.AnnotationDevices, names.AnnotationRuntime, names.AnnotationUseModel, names.AnnotationUseIndex, names.AnnotationKubeGroup, names.AnnotationVolcanoGroup,
		names.AnnotationVolcanoQueue, names.AnnotationQuota, "gpu-fraction", "pod-group-name", "hami.io/vgpu-time", "kai.scheduler/topology", "jobset.sigs.k8s.io/jobset-name",
		"alpha.jobset.sigs.k8s.io/exclusive-topology", "leaderworkerset.sigs.k8s.io/size", "kueue.x-k8s.io/pod-group-total-count", "gang.scheduling.koordinator.sh/name", "batch.kubernetes.io/job-completion-index",
		"huawei.com/vnpu-mode", "pod-group.scheduling.sigs.k8s.io/name", "scheduling.run.ai/x",
	} {
		if !keeps(key) {
			t.Errorf("%s is left out", key)
		}
	}
	for _, key := range []string{"kubectl.kubernetes.io/last-applied-configuration", "example.com/a", "nvidia.com.evil.example/a", "a", ""} {
		if keeps(key) {
			t.Errorf("%s is kept", key)
		}
	}
}

// TestDumpWrong: a dump that is broken or hostile is refused, naming the field.
func TestDumpWrong(t *testing.T) {
	s := world(1)
	s.Pods = append(s.Pods, pod("a", 1), pod("b", 1))
	good := text(t, s)
	edit := func(change func(map[string]any)) string {
		var m map[string]any
		must(t, json.Unmarshal([]byte(good), &m))
		change(m)
		out, err := json.Marshal(m)
		must(t, err)
		return string(out)
	}
	object := func(m map[string]any, path ...any) map[string]any {
		var at any = m
		for _, p := range path {
			switch p := p.(type) {
			case string:
				at = at.(map[string]any)[p]
			case int:
				at = at.([]any)[p]
			}
		}
		return at.(map[string]any)
	}
	for name, tt := range map[string]struct{ text, want string }{
		"empty":       {"", "not a dump"},
		"text":        {"hello", "not a dump"},
		"other":       {`{"format":"x"}`, "format"},
		"version":     {edit(func(m map[string]any) { m["version"] = 99 }), "version: 99"},
		"time":        {edit(func(m map[string]any) { delete(m, "at") }), "at: "},
		"learned":     {edit(func(m map[string]any) { m["learned"] = map[string]any{} }), "learned: "},
		"type":        {edit(func(m map[string]any) { m["pods"] = "x" }), "pods: "},
		"null pod":    {edit(func(m map[string]any) { m["pods"] = []any{nil} }), "pods[0]: null"},
		"no uid":      {edit(func(m map[string]any) { delete(object(m, "pods", 0, "metadata"), "uid") }), "pods[0].metadata.uid"},
		"twice":       {edit(func(m map[string]any) { object(m, "pods", 1, "metadata")["uid"] = "uid-a" }), "pods[1].metadata.uid"},
		"node":        {edit(func(m map[string]any) { object(m, "nodes", 0, "metadata")["name"] = "" }), "nodes[0].metadata.name"},
		"kind":        {edit(func(m map[string]any) { m["groups"] = map[string]any{"x": []any{}} }), "groups[x]"},
		"effort":      {edit(func(m map[string]any) { object(m, "settings", "options")["Effort"] = -1 }), "settings.options.Effort"},
		"no profiles": {edit(func(m map[string]any) { object(m, "settings")["profiles"] = map[string]any{} }), "settings.profiles"},
		"level":       {edit(func(m map[string]any) { object(m, "settings")["levels"] = []any{map[string]any{}} }), "settings.levels[0].name"},
		"cut off":     {good[:len(good)/2], "not a dump"},
	} {
		if _, err := ReadDump(strings.NewReader(tt.text)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %s", name, err, tt.want)
		}
	}
	if _, err := ReadDump(bytes.NewReader([]byte{0x1f, 0x8b, 1, 2})); err == nil || !strings.Contains(err.Error(), "gzip") {
		t.Errorf("got %v", err)
	}
}

// FuzzReadDump: no text makes the reader, or the replica of what it read, crash.
func FuzzReadDump(f *testing.F) {
	s := world(1)
	s.Pods = append(s.Pods, pod("a", 1), pod("b", 8, on("n0", time.Hour)))
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
	f.Add(text)
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := ReadDump(bytes.NewReader(text))
		if err != nil {
			return
		}
		x, err := NewRun(s, Limits{Steps: 3, Horizon: time.Hour})
		if err != nil {
			return
		}
		_, _ = x.Settle(t.Context())
	})
}

// TestLoad: a file is read, and asked.
func TestLoad(t *testing.T) {
	s := world(1)
	s.Pods = append(s.Pods, pod("a", 8, on("n0", time.Minute), lasting("1h")), pod("b", 8))
	file := filepath.Join(t.TempDir(), "dump.gz")
	f, err := os.Create(file)
	must(t, err)
	must(t, WriteDump(f, s, "test"))
	must(t, f.Close())
	state, err := Load(file)
	must(t, err)
	why, err := state.Why(t.Context(), "default", "", "b")
	must(t, err)
	if !why.Found || why.Start.At == nil || why.Start.At.Sub(start) != 59*time.Minute || why.Reason.Code == "" {
		t.Errorf("got %+v", why)
	}
	if at := state.snapshot.At; !at.Equal(start) {
		t.Errorf("at %s", at)
	}
	if _, err := Load(file + "x"); err == nil {
		t.Error("no file is no error")
	}
}
