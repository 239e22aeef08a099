package cluster

import (
	"os"
	"strconv"
	"testing"
)

// Seed is the number from which a test makes its random load: that of an environment
// variable, or the given one. It is logged, so that a failure can be repeated.
func Seed(t testing.TB, variable string, seed uint64) uint64 {
	t.Helper()
	if text := os.Getenv(variable); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("%s: %v", variable, err)
		}
		seed = n
	}
	t.Logf("%s=%d", variable, seed)
	return seed
}
