package archtest

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// document is a Markdown file, by what links and commands in it can be checked against.
type document struct {
	text string
	// prose is the text without fenced code, fences the fenced code alone, line by line.
	prose  string
	fences []string
	// headings are the words of headings behind their #, anchors what links can name.
	headings []string
	anchors  map[string]bool
}

var (
	fenceLine   = regexp.MustCompile("^\\s*(```+|~~~+)(\\w*)")
	headingLine = regexp.MustCompile(`^(#{1,6})\s+(.*?)\s*#*$`)
	linkText    = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	docLink     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
)

// slug is the anchor that GitHub makes of a heading.
func slug(heading string) string {
	heading = linkText.ReplaceAllString(heading, "$1")
	var b strings.Builder
	for _, r := range strings.ToLower(heading) {
		switch {
		case r == ' ':
			b.WriteByte('-')
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			b.WriteRune(r)
		}
	}
	return b.String()
}

// parse reads a Markdown file.
func parse(text string) *document {
	d := &document{text: text, anchors: map[string]bool{}}
	seen := map[string]int{}
	fence := ""
	var prose strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if m := fenceLine.FindStringSubmatch(line); m != nil && (fence == "" || strings.HasPrefix(m[1], fence)) {
			if fence == "" {
				fence = m[1]
			} else {
				fence = ""
			}
			d.fences = append(d.fences, "") // two blocks are not one command
			continue
		}
		if fence != "" {
			d.fences = append(d.fences, line)
			continue
		}
		prose.WriteString(line + "\n")
		if m := headingLine.FindStringSubmatch(line); m != nil {
			d.headings = append(d.headings, m[1]+" "+m[2])
			s := slug(m[2])
			if n := seen[s]; n > 0 {
				d.anchors[fmt.Sprintf("%s-%d", s, n)] = true
			} else {
				d.anchors[s] = true
			}
			seen[s]++
		}
	}
	d.prose = prose.String()
	return d
}

// documents are the repository's Markdown files by their path in it, with slashes.
func documents(t *testing.T) map[string]*document {
	t.Helper()
	root := filepath.Join("..", "..")
	out := map[string]*document{}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && name != root && ignored(name) {
			return fs.SkipDir
		}
		// hack has parts of pages, which are whole only in docs.
		if d.IsDir() && name == filepath.Join(root, "hack") {
			return fs.SkipDir
		}
		if d.IsDir() || filepath.Ext(name) != ".md" {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		out[filepath.ToSlash(rel)] = parse(string(text))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if out["README.md"] == nil || out["docs/index.md"] == nil {
		t.Fatal("README.md or docs/index.md is missing")
	}
	return out
}

// targets are the relative links of a document: path in the repository, anchor.
func targets(name string, d *document) [][2]string {
	var out [][2]string
	for _, m := range docLink.FindAllStringSubmatch(d.prose, -1) {
		if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
			continue
		}
		file, anchor, _ := strings.Cut(m[1], "#")
		if file == "" {
			file = name
		} else {
			file = path.Join(path.Dir(name), file)
		}
		out = append(out, [2]string{file, anchor})
	}
	return out
}

// TestLinks checks that documents link to files and headings that exist: renaming a
// package, a page or a heading must not leave a dead end.
func TestLinks(t *testing.T) {
	all := documents(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		for _, to := range targets(name, all[name]) {
			if _, err := os.Stat(filepath.Join("..", "..", filepath.FromSlash(to[0]))); err != nil {
				t.Errorf("%s links to %s, which does not exist", name, to[0])
				continue
			}
			if to[1] == "" || all[to[0]] == nil {
				continue
			}
			if !all[to[0]].anchors[to[1]] {
				t.Errorf("%s links to %s#%s, and there is no such heading", name, to[0], to[1])
			}
		}
	}
}

// TestReachable checks that every page of docs can be found from docs/index.md.
func TestReachable(t *testing.T) {
	all := documents(t)
	found := map[string]bool{}
	next := []string{"docs/index.md"}
	for len(next) > 0 {
		name := next[0]
		next = next[1:]
		if found[name] || all[name] == nil {
			continue
		}
		found[name] = true
		for _, to := range targets(name, all[name]) {
			next = append(next, to[0])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if strings.HasPrefix(name, "docs/") && !found[name] {
			t.Errorf("no chain of links leads from docs/index.md to %s", name)
		}
	}
}

// TestOrder checks that docs/index.md names each page once, which is what gives the site
// its order. Pages of alerts stand in their own list.
func TestOrder(t *testing.T) {
	all := documents(t)
	times := map[string]int{}
	for _, to := range targets("docs/index.md", all["docs/index.md"]) {
		times[to[0]]++
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !strings.HasPrefix(name, "docs/") || name == "docs/index.md" ||
			strings.HasPrefix(name, "docs/runbooks/") && name != "docs/runbooks/README.md" {
			continue
		}
		if times[name] != 1 {
			t.Errorf("docs/index.md links to %s %d times; once is right", name, times[name])
		}
	}
}

// command is one of tangram's, as docs/reference/command-line.md has it.
type command struct{ flags map[string]bool }

var (
	commandHead = regexp.MustCompile(`^### (tangram(?: [a-z-]+)*)$`)
	flagLine    = regexp.MustCompile(`^\s+(?:(-\w), )?(--[a-z0-9-]+)`)
)

// commands reads the reference page, which a test of hack/docs keeps true.
func commands(text string) map[string]command {
	out := map[string]command{}
	var shared []string
	var now string
	inShared := false
	wantShared := map[string]bool{}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "## "):
			inShared = line == "## Which cluster, as which user"
			now = ""
		case commandHead.MatchString(line):
			now = commandHead.FindStringSubmatch(line)[1]
			out[now] = command{flags: map[string]bool{"--help": true, "-h": true}}
		case strings.Contains(line, "(#which-cluster-as-which-user)"):
			wantShared[now] = true
		}
		if m := flagLine.FindStringSubmatch(line); m != nil {
			for _, f := range m[1:] {
				switch {
				case f == "":
				case inShared:
					shared = append(shared, f)
				case now != "":
					out[now].flags[f] = true
				}
			}
		}
	}
	for name := range wantShared {
		for _, f := range shared {
			if out[name].flags != nil {
				out[name].flags[f] = true
			}
		}
	}
	return out
}

var (
	called   = regexp.MustCompile(`(?:^|[\s"'(;|&])(?:\S*/)?(?:kubectl[ -])?tangram ([a-z-][^|;&#>)\n]*)`)
	makeUp   = regexp.MustCompile(`make (up|down|bench) ARGS=(?:"([^"]*)"|(\S+))`)
	codeSpan = regexp.MustCompile("`([^`\n]+)`")
	aFlag    = regexp.MustCompile(`^(--?[A-Za-z][A-Za-z0-9-]*)`)
	aWord    = regexp.MustCompile(`^[a-z][a-z-]*$`)
)

// mistakes are the commands and flags of tangram in a piece of code that do not exist.
func mistakes(known map[string]command, code string) []string {
	var lines []string
	for _, m := range called.FindAllStringSubmatch(code, -1) {
		lines = append(lines, m[1])
	}
	for _, m := range makeUp.FindAllStringSubmatch(code, -1) {
		lines = append(lines, m[1]+" "+m[2]+m[3])
	}
	var out []string
	for _, line := range lines {
		words := strings.Fields(line)
		name := "tangram"
		for len(words) > 0 {
			if _, ok := known[name+" "+words[0]]; !ok {
				break
			}
			name += " " + words[0]
			words = words[1:]
		}
		if name == "tangram" && len(words) > 0 && aWord.MatchString(words[0]) && !builtIn[words[0]] {
			out = append(out, "there is no command tangram "+words[0])
			continue
		}
		if name == "tangram" {
			continue
		}
		for _, w := range words {
			m := aFlag.FindStringSubmatch(strings.Trim(w, `"'[]`+"`"))
			if m == nil {
				continue
			}
			if !known[name].flags[m[1]] {
				out = append(out, fmt.Sprintf("%s has no flag %s", name, m[1]))
			}
		}
	}
	return out
}

// builtIn are cobra's own commands, which have no row in the reference.
var builtIn = map[string]bool{"help": true, "completion": true, "version": true}

// TestCommands checks that no page tells people to run what does not exist.
func TestCommands(t *testing.T) {
	all := documents(t)
	reference := "docs/reference/command-line.md"
	known := commands(all[reference].text)
	if len(known) < 20 {
		t.Fatalf("%s has %d commands; its form must have changed", reference, len(known))
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if name == reference || strings.HasPrefix(name, "test/") {
			continue // written from the commands; not for users
		}
		d := all[name]
		code := strings.ReplaceAll(strings.Join(d.fences, "\n"), "\\\n", " ")
		for _, m := range mistakes(known, code) {
			t.Errorf("%s: %s", name, m)
		}
		for _, m := range codeSpan.FindAllStringSubmatch(d.prose, -1) {
			for _, mistake := range mistakes(known, m[1]) {
				t.Errorf("%s: %s", name, mistake)
			}
		}
	}
}

// The check sees what it is for.
func TestMistakes(t *testing.T) {
	known := commands("## Which cluster, as which user\n\n```\n  -n, --namespace string   namespace\n```\n\n## Ask\n\n### tangram why\n\n```\n      --dump string   file\n```\n\nAnd the flags of [which](#which-cluster-as-which-user).\n\n### tangram up\n\n```\n      --demo   pods\n```\n")
	for code, want := range map[string]int{
		"tangram why x -n a --dump f":      0,
		"bin/tangram why x --dumb f":       1,
		"kubectl tangram whi x":            1,
		"tangram up -n a":                  1,
		`make up ARGS="--demo --detach"`:   1,
		"$ tangram why x | head -3":        0,
		"tangram         499     0.84":     0,
		"helm -n tangram-system install x": 0,
	} {
		if got := mistakes(known, code); len(got) != want {
			t.Errorf("%q: %q, want %d", code, got, want)
		}
	}
}

var shellFence = regexp.MustCompile("(?ms)^```(?:sh|console)\n(.*?)^```")

// TestReadmes checks that the README in Chinese has the structure and the commands of the
// one in English.
func TestReadmes(t *testing.T) {
	all := documents(t)
	english, chinese := all["README.md"], all["README.zh-CN.md"]
	if chinese == nil {
		t.Fatal("README.zh-CN.md is missing")
	}
	levels := func(d *document) string {
		var out []string
		for _, h := range d.headings {
			out = append(out, h[:strings.IndexByte(h, ' ')])
		}
		return strings.Join(out, " ")
	}
	if a, b := levels(english), levels(chinese); a != b {
		t.Errorf("headings differ: README.md %s, README.zh-CN.md %s", a, b)
	}
	blocks := func(d *document) []string {
		var out []string
		for _, m := range shellFence.FindAllStringSubmatch(d.text, -1) {
			out = append(out, m[1])
		}
		return out
	}
	a, b := blocks(english), blocks(chinese)
	if len(a) == 0 {
		t.Fatal("README.md has no commands; their form must have changed")
	}
	if len(a) != len(b) {
		t.Fatalf("README.md has %d blocks of commands, README.zh-CN.md %d", len(a), len(b))
	}
	for i := range a {
		if a[i] != b[i] {
			t.Errorf("commands differ: README.md\n%s\nREADME.zh-CN.md\n%s", a[i], b[i])
		}
	}
}
