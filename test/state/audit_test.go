package state

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/internal/kube/audit"
	"github.com/tangram-dev/tangram/lab/local"
	"github.com/tangram-dev/tangram/test/cluster"
)

// entries reads an audit log.
func entries(t *testing.T, path string) (out []audit.Entry) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(data) {
		d := json.NewDecoder(bytes.NewReader(line))
		d.DisallowUnknownFields()
		var e audit.Entry
		if err := d.Decode(&e); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		out = append(out, e)
	}
	return out
}

// TestAuditLog: a start, a refusal (once, however often it is tried), an eviction are one
// line each, with devices, codes and numbers; nothing is logged without being asked for; a
// path that cannot be written ends the start with an error that names the field; a full
// disk later is counted, and pods start all the same.
func TestAuditLog(t *testing.T) {
	t.Parallel()
	w := newWorld(t, `[{name: n, count: 1, gpu: {model: A100-80GB, count: 2}}]`)
	w.AddPriorityClass("high", 1000)
	path, began := filepath.Join(t.TempDir(), "audit.log"), time.Now()
	p := w.Scheduler(cluster.QueueArguments("audit: {path: "+path+"}", "reportEvery: 200ms", "stepEvery: 100ms"))
	w.Create(pod("first", "", 2))
	w.Bound("first")
	w.Create(pod("second", "", 1))
	find := func(kind, name string) (out []audit.Entry) {
		for _, e := range entries(t, path) {
			if e.Kind == kind && e.Pod == name {
				out = append(out, e)
			}
		}
		return out
	}
	w.Eventually("the second pod is refused", func() (bool, string) { return len(find(audit.Refuse, "second")) > 0, "" })
	time.Sleep(3 * time.Second) // it is tried thirty times meanwhile
	w.Create(cluster.Pod("high", 1, cluster.Queue(""), cluster.Priority("high")))
	w.Eventually("the first pod is evicted", func() (bool, string) { return len(find(audit.Evict, "first")) > 0, "" })
	w.Delete("first") // no kubelet ends it
	w.Bound("high")
	w.Bound("second")
	w.Must(p.Stop())

	for _, e := range entries(t, path) {
		line, _ := json.Marshal(e)
		t.Log(string(line))
		if e.Version != audit.Version || e.Time.Before(began.Truncate(time.Second)) || e.Time.After(time.Now()) || e.UID == "" || e.Namespace != "default" || e.Scheduler != names.SchedulerName {
			t.Errorf("%+v", e)
		}
	}
	if got := find(audit.Start, "first"); len(got) != 1 || got[0].Node != "n-0" || len(got[0].Devices) != 2 || got[0].Devices[0].UUID == "" || got[0].Queue != "default" || got[0].Gang != "default/first" {
		t.Errorf("the start is %+v", got)
	}
	if got := find(audit.Refuse, "second"); len(got) != 1 || got[0].Class != "capacity" || got[0].Reason == "" || len(got[0].Nodes) != 1 || got[0].Nodes[0].Need != 1 || got[0].Members != 1 {
		t.Errorf("the refusals are %+v", got)
	}
	if got := find(audit.Evict, "first"); len(got) != 1 || got[0].For != "default/high" || got[0].Node != "n-0" || len(got[0].Devices) != 2 || got[0].Reason != "Preempted" {
		t.Errorf("the eviction is %+v", got)
	}
	for _, name := range []string{"high", "second"} {
		if len(find(audit.Start, name)) != 1 {
			t.Errorf("%s has %d starts", name, len(find(audit.Start, name)))
		}
	}

	// Every pod that was bound has one start.
	for _, p := range w.Pods("") {
		if p.Spec.NodeName != "" && len(find(audit.Start, p.Name)) != 1 {
			t.Errorf("%s has no start", p.Name)
		}
	}

	t.Run("unwritable", func(t *testing.T) {
		w := w.In(t)
		file := filepath.Join(w.Dir(), "bad.yaml")
		w.Must(os.WriteFile(file, cluster.QueueArguments("audit: {path: /no/folder/audit.log}"), 0o600))
		kubeconfig, err := w.KubeconfigFor(cluster.SchedulerUser)
		w.Must(err)
		out := output(t, filepath.Join(w.Bin, "gpu-scheduler"), "--kubeconfig="+kubeconfig, "--secure-port=0", "--config="+file, cluster.Alone)
		if !strings.Contains(out, "audit.path: open /no/folder/audit.log") {
			t.Errorf("got %s", out)
		}
	})
	t.Run("full", func(t *testing.T) {
		w := w.In(t)
		p := w.Scheduler(cluster.QueueArguments("audit: {path: /dev/full}"))
		for _, name := range []string{"high", "second"} {
			w.Delete(name)
		}
		w.Create(pod("full", "", 1))
		w.Bound("full")
		w.Eventually("the log says that the disk is full", func() (bool, string) {
			return len(w.Log(p.Process, "no space left")) == 1, local.LastLines(p.Log(), 5)
		})
		w.Must(p.Stop())
	})
}
