package archtest

import (
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	// pathName is a path of the repository in code, for example `go test ./core/engine`.
	pathName = regexp.MustCompile(`(?:^|[\s("'=,])(?:\./)?((?:api|build|charts|cmd|config|core|docs|examples|hack|internal|lab|test)/[^\s"'(),;:]+)`)
	// goFile is a Go file in code, with as much of its path as is needed: `plugin/loop.go`.
	goFile = regexp.MustCompile(`([\w/.-]*\w)\.go\b`)
	// identifier is what may follow a package: the Engine of `core/engine.Engine`.
	identifier = regexp.MustCompile(`\.[A-Z]\w*(?:\.\w+)*$`)
	// pictured is a folder or a Go file in a picture: "records: next.go", "core/engine/step.go".
	pictured = regexp.MustCompile(`([a-z][\w/]*)(\.go\b|:)`)
)

// namedPaths are the paths in a piece of code. Those with a placeholder are left out.
func namedPaths(code string) (out []string) {
	for _, m := range pathName.FindAllStringSubmatch(code, -1) {
		p := m[1]
		if strings.ContainsAny(p, "<>*{}[]$|…") {
			continue
		}
		p = strings.TrimRight(strings.TrimSuffix(p, "/..."), "./")
		out = append(out, identifier.ReplaceAllString(p, ""))
	}
	return out
}

// goFiles are the repository's Go files and their folders, with slashes.
func goFiles(t *testing.T) (files, folders []string) {
	t.Helper()
	all, err := sources(root)
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		files, folders = append(files, all[i].File), append(folders, all[i].Folder)
	}
	slices.Sort(folders)
	return files, slices.Compact(folders)
}

// ending are the paths that end in another one.
func ending(all []string, with string) (out []string) {
	for _, p := range all {
		if p == with || strings.HasSuffix(p, "/"+with) {
			out = append(out, p)
		}
	}
	return out
}

// TestPaths checks that documents name files and folders of the repository that exist. The
// changelog may name what is gone.
func TestPaths(t *testing.T) {
	files, _ := goFiles(t)
	all := documents(t)
	delete(all, "CHANGELOG.md")
	for _, name := range slices.Sorted(maps.Keys(all)) {
		for _, span := range codeSpan.FindAllStringSubmatch(all[name].prose, -1) {
			paths := namedPaths(span[1])
			for _, p := range paths {
				if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(p))); err != nil {
					t.Errorf("%s names %s, which does not exist", name, p)
				}
			}
			if len(paths) > 0 || strings.ContainsAny(span[1], "<>*") {
				continue
			}
			for _, m := range goFile.FindAllStringSubmatch(span[1], -1) {
				if len(ending(files, m[1]+".go")) == 0 {
					t.Errorf("%s names %s.go, which does not exist", name, m[1])
				}
			}
		}
	}
}

// TestNamedPaths: the check sees what it is for.
func TestNamedPaths(t *testing.T) {
	for code, want := range map[string]string{
		"core/engine/event.go":             "core/engine/event.go",
		"go test ./core/engine -run X":     "core/engine",
		"core/engine.Engine":               "core/engine",
		"go test ./internal/...":           "internal",
		"docs/runbooks/<Name>.md":          "",
		"remedies_*.go, core/*/doc.go":     "",
		"/var/lib/kubelet/config/x":        "",
		"a=config/scheduler.yaml, lab/sim": "config/scheduler.yaml lab/sim",
	} {
		if got := strings.Join(namedPaths(code), " "); got != want {
			t.Errorf("%q names %q, want %q", code, got, want)
		}
	}
}

// TestPackages checks that docs/architecture.md names every package of product and
// laboratory: by its path, or by its name in the row of a package above it.
func TestPackages(t *testing.T) {
	_, folders := goFiles(t)
	text := documents(t)["docs/architecture.md"].prose
	for _, f := range folders {
		switch top, _, _ := strings.Cut(f, "/"); top {
		case "api", "core", "internal", "lab":
			if !strings.Contains(text, "`"+f+"`") && !strings.Contains(text, "`"+path.Base(f)+"`") {
				t.Errorf("docs/architecture.md does not name %s", f)
			}
		}
	}
}

// TestPictures checks the file names in pictures of docs/architecture.md. In the left column
// they are of the package whose name stands above them at the start of a line, in the right
// one of the folder before them.
func TestPictures(t *testing.T) {
	files, folders := goFiles(t)
	var left, right []string
	found := 0
	for _, line := range documents(t)["docs/architecture.md"].fences {
		words := strings.Fields(line)
		if len(words) == 0 {
			left, right = nil, nil
			continue
		}
		if slices.Contains(folders, words[0]) {
			left, right = words[:1], nil
		}
		for _, m := range pictured.FindAllStringSubmatch(line, -1) {
			if m[2] == ":" {
				if at := ending(folders, m[1]); len(at) > 0 {
					right = at
				}
				continue
			}
			found++
			name := m[1] + ".go"
			if strings.Contains(name, "/") {
				right = nil
				for _, f := range ending(files, name) {
					right = append(right, path.Dir(f))
				}
				if len(right) == 0 {
					t.Errorf("a picture names %s, which does not exist:\n%s", name, line)
				}
				continue
			}
			in := func(folder string) bool { return slices.Contains(files, folder+"/"+name) }
			if !slices.ContainsFunc(left, in) && !slices.ContainsFunc(right, in) {
				t.Errorf("a picture names %s, which is neither in %v nor in %v:\n%s", name, left, right, line)
			}
		}
	}
	if found < 50 {
		t.Fatalf("%d files in the pictures of docs/architecture.md; their form must have changed", found)
	}
}
