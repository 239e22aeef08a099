package cluster

import (
	"fmt"
	"os"
	"sync"
	"testing"
)

// Shared is the cluster that all tests of a package use. The first test that needs it starts
// it, Run ends it after the last.
//
//	var shared cluster.Shared[*world]
//
//	func TestMain(m *testing.M) { os.Exit(shared.Run(m)) }
//
//	func sharedWorld(t *testing.T) *world {
//		return shared.Get(t, func() *world { return &world{cluster.Open(t, options)} })
//	}
type Shared[C interface{ End(failed bool) error }] struct {
	mu      sync.Mutex
	tried   bool
	started bool
	cluster C
}

// Get is the cluster, which start starts. A start that fails its test fails all others, too:
// it is not tried again. One that skips its test, as Open does without programs, skips each.
func (s *Shared[C]) Get(t testing.TB, start func() C) C {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.tried {
		s.tried = true
		defer func() { s.tried = s.started || !t.Skipped() }()
		s.cluster = start()
		s.started = true
	}
	if !s.started {
		t.Fatal("the cluster of these tests did not start: the first of them says why")
	}
	return s.cluster
}

// Run runs the tests of a package, ends the cluster if one of them started it, and returns
// the exit code.
func (s *Shared[C]) Run(m *testing.M) int {
	return s.end(m.Run())
}

// end ends the cluster after tests with an exit code, and returns that of the package.
func (s *Shared[C]) end(code int) int {
	if !s.started {
		return code
	}
	if err := s.cluster.End(code != 0); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}
