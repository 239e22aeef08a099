package chart

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// There is no container engine in the tests: what can go wrong in the Dockerfile is read
// from it.

// instruction is one line of a Dockerfile.
type instruction struct{ verb, rest string }

// stage is what one FROM begins.
type stage struct {
	from, name string
	lines      []instruction
}

func dockerfile(t *testing.T) (args map[string]string, stages []stage) {
	t.Helper()
	data, err := os.ReadFile(root + "/build/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	args = map[string]string{}
	for n, line := range strings.Split(strings.ReplaceAll(string(data), "\\\n", " "), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		verb, rest, _ := strings.Cut(line, " ")
		switch {
		case verb == "FROM":
			fields := strings.Fields(rest)
			if len(fields) != 3 || fields[1] != "AS" {
				t.Fatalf("line %d: %s: want FROM image AS name", n+1, line)
			}
			stages = append(stages, stage{from: fields[0], name: fields[2]})
		case len(stages) == 0 && verb == "ARG":
			name, value, _ := strings.Cut(rest, "=")
			args["${"+name+"}"] = value
		case len(stages) == 0:
			t.Fatalf("line %d: %s before FROM", n+1, verb)
		default:
			s := &stages[len(stages)-1]
			s.lines = append(s.lines, instruction{verb, rest})
		}
	}
	return args, stages
}

func (s stage) get(t *testing.T, verb string) string {
	t.Helper()
	for _, l := range s.lines {
		if l.verb == verb {
			return l.rest
		}
	}
	t.Errorf("stage %s has no %s", s.name, verb)
	return ""
}

// TestImages holds the images to what the guide and the chart say.
func TestImages(t *testing.T) {
	t.Parallel()
	args, stages := dockerfile(t)
	find := func(name string) stage {
		i := slices.IndexFunc(stages, func(s stage) bool { return s.name == name })
		if i < 0 {
			t.Fatalf("no stage %s", name)
		}
		return stages[i]
	}
	for _, program := range []string{"gpu-scheduler", "gpu-controller", "gpu-extender", "gpu-agent"} {
		if run := find("build-"+program).get(t, "RUN"); run != fmt.Sprintf("hack/build.sh release %s /out/%s", program, program) {
			t.Errorf("%s is built by %q: want hack/build.sh, whose flags are those of a release", program, run)
		}
		s := find(program)
		if got, want := s.get(t, "COPY"), fmt.Sprintf("--from=build-%s /out/%s /%s", program, program, program); got != want {
			t.Errorf("%s: COPY %s, want %s", program, got, want)
		}
		if got, want := s.get(t, "ENTRYPOINT"), fmt.Sprintf("[%q]", "/"+program); got != want {
			t.Errorf("%s: ENTRYPOINT %s, want %s", program, got, want)
		}
		base, user := args[s.from], "65532:65532" // as the chart's runAsUser
		want := "gcr.io/distroless/static-"
		if program == "gpu-agent" {
			user, want = "0:0", "gcr.io/distroless/base-"
		}
		if got := s.get(t, "USER"); got != user {
			t.Errorf("%s runs as %s, want %s", program, got, user)
		}
		if !strings.HasPrefix(base, want) {
			t.Errorf("%s is based on %q, want %s...", program, base, want)
		}
	}
	// The agent's C library is that of the image it is built in.
	debian := func(image string) string { return regexp.MustCompile(`debian12|bookworm`).FindString(image) }
	if debian(args["${GO}"]) != "bookworm" || debian(args["${GLIBC}"]) != "debian12" {
		t.Errorf("built on %s, run on %s: not the same Debian", args["${GO}"], args["${GLIBC}"])
	}
	if out, err := exec.Command("go", "env", "GOVERSION").Output(); err != nil || !strings.HasPrefix(args["${GO}"], "golang:"+strings.TrimPrefix(strings.TrimSpace(string(out)), "go")+"-") {
		t.Errorf("images are built with %s, everything else with %s (%v)", args["${GO}"], strings.TrimSpace(string(out)), err)
	}
}

// TestImageSources copies what the Dockerfile copies, and asks Go whether every program can
// be built from it: each package, each embedded file.
func TestImageSources(t *testing.T) {
	t.Parallel()
	_, stages := dockerfile(t)
	ignored, err := os.ReadFile(root + "/.dockerignore")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, l := range stages[0].lines {
		if l.verb != "COPY" {
			continue
		}
		fields := strings.Fields(l.rest)
		to := fields[len(fields)-1]
		for _, from := range fields[:len(fields)-1] {
			if slices.Contains(strings.Split(string(ignored), "\n"), strings.Split(from, "/")[0]) {
				t.Errorf("COPY %s: .dockerignore leaves it out", from)
			}
			target := filepath.Join(dir, to)
			if to == "./" {
				target = filepath.Join(dir, from)
			}
			copyTree(t, filepath.Join(root, from), target)
		}
	}
	cmd := exec.Command("go", "list", "-deps", "-mod=readonly", "./cmd/...")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("what the Dockerfile copies is not all that is needed: %v\n%s", err, out)
	}
	if _, err := os.Stat(filepath.Join(dir, "hack", "build.sh")); err != nil {
		t.Error(err)
	}
}

// copyTree copies a file, or a folder as git has it.
func copyTree(t *testing.T, from, to string) {
	t.Helper()
	info, err := os.Stat(from)
	if err != nil {
		t.Errorf("COPY: %v", err)
		return
	}
	if info.IsDir() {
		if err := os.CopyFS(to, os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
		return
	}
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, data, info.Mode()); err != nil {
		t.Fatal(err)
	}
}
