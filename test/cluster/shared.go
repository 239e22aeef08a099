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
//	func sharedWorld(t *testing.T) *world { return shared.Get(t, startWorld) }
type Shared[C interface{ End(failed bool) error }] struct {
	mu      sync.Mutex
	started bool
	cluster C
	err     error
}

// Get is the cluster, which start starts. When that fails, it fails for all tests: none
// tries again.
func (s *Shared[C]) Get(t testing.TB, start func() (C, error)) C {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.started {
		s.started = true
		s.cluster, s.err = start()
	}
	if s.err != nil {
		t.Fatal(s.err)
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
	if !s.started || s.err != nil {
		return code
	}
	if err := s.cluster.End(code != 0); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}
