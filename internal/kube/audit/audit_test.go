package audit

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics/testutil"

	"github.com/tangram-dev/tangram/core/explain"
)

func count(t *testing.T, cause string) float64 {
	t.Helper()
	RegisterMetrics()
	n, err := testutil.GetCounterMetricValue(dropped.WithLabelValues(cause))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func entry(i int) Entry {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprint("pod-", i), UID: "u"}}
	return Of(Start, pod, time.Unix(1_800_000_000, 0))
}

// read returns the entries of a file, each a whole line.
func read(t *testing.T, path string) (out []Entry) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var e Entry
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatalf("%v: %s", err, lines.Text())
		}
		out = append(out, e)
	}
	return out
}

// TestRotation: files are rotated by size, the oldest is removed, no line is lost or split,
// and a restart goes on in the same file.
func TestRotation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	const max = 1000
	for part := range 4 { // four processes, one after the other
		out, err := Open(path, max, 3)
		if err != nil {
			t.Fatal(err)
		}
		w := &lines{out: out}
		for i := range 10 {
			w.write(entry(10*part + i))
		}
		out.(*File).file.Close()
	}
	files, err := filepath.Glob(path + "*")
	if err != nil || len(files) != 3 {
		t.Fatalf("%v, %v", files, err)
	}
	var all []Entry
	for _, f := range []string{path + ".2", path + ".1", path} {
		info, err := os.Stat(f)
		if err != nil || info.Size() > max || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %d bytes, mode %s, %v", f, info.Size(), info.Mode(), err)
		}
		all = append(all, read(t, f)...)
	}
	for i, e := range all {
		if want := fmt.Sprint("pod-", 40-len(all)+i); e.Pod != want {
			t.Errorf("entry %d is of %s, want %s", i, e.Pod, want)
		}
	}
	if len(all) < 10 {
		t.Errorf("%d entries are left", len(all))
	}
}

// TestHalfLine: a process that was killed in the middle of a line spoils no other.
func TestHalfLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	if err := os.WriteFile(path, []byte(`{"version":1,"ki`), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := Open(path, 1<<20, 2)
	if err != nil {
		t.Fatal(err)
	}
	(&lines{out: out}).write(entry(1))
	text, err := os.ReadFile(path)
	if err != nil || bytes.Count(text, []byte("\n")) != 2 || !strings.HasPrefix(string(text), "{\"version\":1,\"ki\n{") {
		t.Errorf("%s, %v", text, err)
	}
}

// TestUnwritable: a path that cannot be written is an error at the start.
func TestUnwritable(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{filepath.Join(dir, "no", "folder"), dir, "/proc/nothing"} {
		if _, err := Open(path, 1<<20, 2); err == nil {
			t.Errorf("%s: opened", path)
		}
	}
	if out, err := Open(Stdout, 1, 1); err != nil || out != os.Stdout {
		t.Errorf("got %v, %v", out, err)
	}
}

// TestDiskFull: entries that cannot be written are counted, and the log goes on when it
// can. /dev/full is a disk without room.
func TestDiskFull(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip(err)
	}
	out, err := Open("/dev/full", 1<<20, 2)
	if err != nil {
		t.Fatal(err)
	}
	before := count(t, "write")
	w := &lines{out: out}
	for i := range 5 {
		w.write(entry(i))
	}
	if n := count(t, "write") - before; n != 5 {
		t.Errorf("%v drops are counted", n)
	}
	if !strings.Contains(w.problem, "no space left") {
		t.Errorf("the problem is %q", w.problem)
	}
	var good bytes.Buffer
	w.out = &good
	w.write(entry(6))
	if w.problem != "" || good.Len() == 0 {
		t.Errorf("%q, %s", w.problem, good.String())
	}
}

// TestNoRename: when files cannot be renamed, the log does not grow beyond its bound.
func TestNoRename(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	if err := os.MkdirAll(filepath.Join(path+".1", "x"), 0o700); err != nil { // a file cannot replace it
		t.Fatal(err)
	}
	out, err := Open(path, 1000, 2)
	if err != nil {
		t.Fatal(err)
	}
	before := count(t, "write")
	w := &lines{out: out}
	for i := range 100 {
		w.write(entry(i))
	}
	if info, err := os.Stat(path); err != nil || info.Size() > 1000 {
		t.Errorf("%v, %v", info.Size(), err)
	}
	if n := count(t, "write") - before; n < 80 {
		t.Errorf("%v drops are counted", n)
	}
}

// stuck is a writer that does not return until it is let go.
type stuck struct {
	mu    sync.Mutex
	began chan struct{}
	once  sync.Once
	lines int
}

func (s *stuck) Write(p []byte) (int, error) {
	s.once.Do(func() { close(s.began) })
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines++
	return len(p), nil
}

// TestNeverBlocks: while nothing can be written, Add returns, entries beyond the buffer are
// dropped and counted; what waits is written before Drain returns.
func TestNeverBlocks(t *testing.T) {
	out := &stuck{began: make(chan struct{})}
	out.mu.Lock()
	l := New(out, 10)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go l.Run(ctx)
	l.Add(entry(0))
	<-out.began
	before := count(t, "buffer")
	for i := range 100 {
		l.Add(entry(i))
	}
	if n := count(t, "buffer") - before; n != 90 {
		t.Errorf("%v drops are counted, want 90", n)
	}
	short, end := context.WithTimeout(ctx, 10*time.Millisecond)
	l.Drain(short) // returns though nothing is written
	end()
	out.mu.Unlock()
	l.Drain(ctx)
	if out.mu.Lock(); out.lines != 11 {
		t.Errorf("%d entries written, want 11", out.lines)
	}
	out.mu.Unlock()
	var off *Log
	off.Add(entry(1)) // a log that is off takes none
	if off.On() || !l.On() {
		t.Error("on and off are mixed up")
	}
}

// TestReason: a refusal has the code, the numbers and the causes by node.
func TestReason(t *testing.T) {
	e := entry(1)
	var tally explain.Tally
	tally.Add(explain.Refusal{Code: explain.Cordoned}, 3)
	tally.Add(explain.Refusal{Code: explain.WrongModel, Need: 8, Best: 2, Detail: "a100"}, 5)
	e.Because(&explain.Reason{Code: explain.Nodes, Need: 4, Placed: 1, Nodes: tally})
	if e.Reason != explain.Nodes.String() || e.Class != "capacity" || e.Numbers.Need != 4 || len(e.Nodes) != 2 || e.Message == "" {
		t.Errorf("%+v", e)
	}
	e = entry(1)
	e.Because(&explain.Reason{Code: explain.Invalid, Detail: strings.Repeat("x", 10_000)})
	if len(e.Message) != maxDetail || e.Numbers != nil || e.Class != "owner" {
		t.Errorf("%+v", e)
	}
}

// TestDocumented: docs/formats/audit.md has a row for every field, and none for others.
func TestDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "formats", "audit.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]bool{}
	for _, line := range strings.Split(string(page), "\n") {
		if cells := strings.Split(line, "|"); len(cells) > 2 && strings.HasPrefix(strings.TrimSpace(cells[1]), "`") {
			rows[strings.Trim(cells[1], " `")] = true
		}
	}
	for _, f := range fields(reflect.TypeFor[Entry](), "") {
		if !rows[f] {
			t.Errorf("no row for %s", f)
		}
		delete(rows, f)
	}
	for f := range rows {
		t.Errorf("a row for %s, which no entry has", f)
	}
}

// fields are the JSON paths of a type.
func fields(typ reflect.Type, prefix string) (out []string) {
	for i := range typ.NumField() {
		f := typ.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		path := prefix + name
		out = append(out, path)
		switch of := f.Type; {
		case of.Kind() == reflect.Slice:
			out = append(out, fields(of.Elem(), path+"[].")...)
		case of.Kind() == reflect.Pointer:
			out = append(out, fields(of.Elem(), path+".")...)
		}
	}
	return out
}
