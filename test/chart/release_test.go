package chart

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tangram-dev/tangram/test/cluster"
)

// buildAt builds the program that writes SBOMs, as a release is built, from a copy of its
// sources in another folder.
func buildAt(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	copyTree(t, root+"/hack/sbom", filepath.Join(dir, "hack", "sbom"))
	module := []byte("module github.com/tangram-dev/tangram\n\ngo 1.26.0\n") // it needs the standard library alone
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), module, 0o600); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "sbom")
	// The flags of build and release in hack/build.sh; TestReleaseFlags compares.
	cmd := exec.Command("go", append(strings.Fields(releaseFlags), "-ldflags", "-s -w -X github.com/tangram-dev/tangram/internal/version.version=v1.2.3", "-o", out, "./hack/sbom")...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return out
}

const releaseFlags = "build -buildvcs=false -trimpath"

// TestReleaseFlags: the test below builds as releases are built.
func TestReleaseFlags(t *testing.T) {
	t.Parallel()
	script, err := os.ReadFile(root + "/hack/build.sh")
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`go build -C "$1" -buildvcs=false ${trimpath:+"$trimpath"} -tags "${tags:-}" -ldflags "-s -w $3"`, "trimpath=-trimpath ours"} {
		if !strings.Contains(string(script), part) {
			t.Errorf("hack/build.sh has no %q: is releaseFlags still right?", part)
		}
	}
}

// TestReproducible builds one program twice, in two folders.
func TestReproducible(t *testing.T) {
	t.Parallel()
	var sums []string
	for range 2 {
		data, err := os.ReadFile(buildAt(t))
		if err != nil {
			t.Fatal(err)
		}
		sums = append(sums, fmt.Sprintf("%x", sha256.Sum256(data)))
	}
	if sums[0] != sums[1] {
		t.Errorf("the same sources gave %s and %s", sums[0], sums[1])
	}
}

// TestSBOM describes a program that is known: this repository's scheduler.
func TestSBOM(t *testing.T) {
	t.Parallel()
	program := filepath.Join(cluster.Programs(t, "gpu-scheduler"), "gpu-scheduler")
	tool := buildAt(t)
	describe := func() []byte {
		out, err := exec.Command(tool, program).Output()
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	text := describe()
	if !bytes.Equal(text, describe()) {
		t.Error("two documents of one program differ")
	}
	var doc struct {
		BOMFormat, SpecVersion, SerialNumber string
		Metadata                             struct {
			Component struct {
				Name, Version string
				Hashes        []struct{ Alg, Content string }
			}
		}
		Components []struct{ Name, Version, PURL string }
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	c := doc.Metadata.Component
	if doc.BOMFormat != "CycloneDX" || doc.SpecVersion != "1.5" || c.Name != "gpu-scheduler" || c.Version == "" || len(c.Hashes) != 1 || c.Hashes[0].Content != fmt.Sprintf("%x", sha256.Sum256(data)) {
		t.Errorf("%+v", doc.Metadata)
	}
	version := map[string]string{}
	for _, c := range doc.Components {
		version[c.Name] = c.Version
		if c.PURL != "pkg:golang/"+c.Name+"@"+c.Version && !strings.Contains(c.Version, "+") {
			t.Errorf("purl %s of %s %s", c.PURL, c.Name, c.Version)
		}
	}
	// A replaced module is listed as what it was replaced by.
	for name, want := range map[string]string{"k8s.io/kubernetes": "v1.36.3", "k8s.io/kube-scheduler": "v0.36.3", "std": "1."} {
		if !strings.HasPrefix(version[name], want) {
			t.Errorf("%s is %q, want %s", name, version[name], want)
		}
	}
	if len(version) < 50 {
		t.Errorf("only %d components", len(version))
	}
}

// TestVersions asks every program for its version.
func TestVersions(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"gpu-scheduler", "gpu-controller", "gpu-extender", "gpu-agent", "tangram"} {
		out, err := exec.Command(filepath.Join(cluster.Programs(t, name), name), "--version").CombinedOutput()
		text := string(out)
		if err != nil || !strings.HasPrefix(text, name+" version ") || strings.Contains(text, "unknown") || strings.Count(text, "\n") != 1 {
			t.Errorf("%s --version: %q, %v", name, text, err)
		}
	}
}
