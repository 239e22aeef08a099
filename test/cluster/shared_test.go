package cluster

import (
	"errors"
	"fmt"
	"runtime"
	"testing"
)

// fake is a cluster that tells how it was ended.
type fake struct {
	ends []bool
	err  error
}

func (f *fake) End(failed bool) error {
	f.ends = append(f.ends, failed)
	return f.err
}

// spy is a test that tells how it ended.
type spy struct {
	testing.TB
	ended   string
	skipped bool
}

func (s *spy) Helper()       {}
func (s *spy) Skipped() bool { return s.skipped }
func (s *spy) Fatal(args ...any) {
	s.ended = "failed: " + fmt.Sprint(args...)
	runtime.Goexit()
}
func (s *spy) Skipf(format string, args ...any) {
	s.ended, s.skipped = fmt.Sprintf(format, args...), true
	runtime.Goexit()
}

// within runs what a test does, to its end, and returns how it ended.
func within(test func(t testing.TB)) string {
	s := &spy{ended: "passed"}
	done := make(chan struct{})
	go func() {
		defer close(done)
		test(s)
	}()
	<-done
	return s.ended
}

func TestShared(t *testing.T) {
	for _, tt := range []struct {
		name       string
		code, want int
		err        error // of the end
	}{
		{"tests pass", 0, 0, nil},
		{"tests fail", 2, 2, nil},
		{"the end fails", 0, 1, errors.New("still runs")},
	} {
		s, f := &Shared[*fake]{}, &fake{err: tt.err}
		starts := 0
		for range 2 {
			if got := s.Get(t, func() *fake { starts++; return f }); got != f {
				t.Errorf("%s: got %v", tt.name, got)
			}
		}
		if code := s.end(tt.code); starts != 1 || code != tt.want || len(f.ends) != 1 || f.ends[0] != (tt.code != 0) {
			t.Errorf("%s: %d starts, exit code %d, ends: %v", tt.name, starts, code, f.ends)
		}
	}
}

// TestSharedFails: a cluster that does not start fails every test, is not tried again and
// not ended.
func TestSharedFails(t *testing.T) {
	s, f := &Shared[*fake]{}, &fake{}
	starts := 0
	for _, want := range []string{"failed: no port is free", "failed: the cluster of these tests did not start: the first of them says why"} {
		ended := within(func(t testing.TB) {
			s.Get(t, func() *fake { starts++; t.Fatal("no port is free"); return f })
		})
		if ended != want {
			t.Errorf("the test %s, want %s", ended, want)
		}
	}
	if code := s.end(1); starts != 1 || code != 1 || len(f.ends) != 0 {
		t.Errorf("%d starts, exit code %d, ends: %v", starts, code, f.ends)
	}
	if code := (&Shared[*fake]{}).end(0); code != 0 {
		t.Errorf("a package that needed no cluster: exit code %d", code)
	}
}

// TestSharedSkips: without programs every test is skipped, and none fails.
func TestSharedSkips(t *testing.T) {
	s := &Shared[*fake]{}
	for range 2 {
		ended := within(func(t testing.TB) {
			s.Get(t, func() *fake { t.Skipf("bin lacks %s", "etcd"); return nil })
		})
		if ended != "bin lacks etcd" {
			t.Errorf("the test %s", ended)
		}
	}
}

// TestBuilt: what is not built skips a test of a person, and fails one of make.
func TestBuilt(t *testing.T) {
	missing := errors.New("bin lacks etcd")
	for _, tt := range []struct {
		bin  string
		err  error
		want string
	}{
		{"", nil, "passed"},
		{"/bin", nil, "passed"},
		{"", missing, "skipped: bin lacks etcd"},
		{"/bin", missing, "failed: bin lacks etcd"},
	} {
		t.Setenv(binVariable, tt.bin)
		if got := within(func(t testing.TB) { Built(t, tt.err) }); got != tt.want {
			t.Errorf("%s=%q, %v: %s, want %s", binVariable, tt.bin, tt.err, got, tt.want)
		}
	}
}
