package cluster

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/tangram-dev/tangram/lab/local"
)

// binVariable names the folder of the programs. make sets it, once it has built them.
const binVariable = "TANGRAM_BIN"

// Bin is Programs for a test that starts a control plane: it needs etcd and kube-apiserver,
// and does not run with -short.
func Bin(t testing.TB, programs ...string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("skipped: -short, and this test starts a control plane")
	}
	return Programs(t, append([]string{"etcd", "kube-apiserver"}, programs...)...)
}

// Programs is the absolute path of the folder that has the programs that a test needs:
// $TANGRAM_BIN, or bin of the repository for tests two folders below it.
func Programs(t testing.TB, names ...string) string {
	t.Helper()
	dir := os.Getenv(binVariable)
	if dir == "" {
		dir = filepath.Join("..", "..", "bin")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	Built(t, local.RequirePrograms(dir, names...))
	return dir
}

// Built ends a test with err, which says what is not built. The test is skipped, but fails
// when make runs it: make has built everything, and a skip would hide a broken build.
func Built(t testing.TB, err error) {
	t.Helper()
	switch {
	case err == nil:
	case os.Getenv(binVariable) != "":
		t.Fatal(err)
	default:
		t.Skipf("skipped: %v", err)
	}
}
