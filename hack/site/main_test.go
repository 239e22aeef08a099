package main

import (
	"net/url"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
)

var attribute = regexp.MustCompile(`(?:href|src)="([^"]*)"`)

// dead are the links of a site that lead nowhere, or out of it while a page loads.
func dead(files map[string][]byte) []string {
	ids := map[string]map[string]bool{}
	id := regexp.MustCompile(`id="([^"]*)"`)
	for name, text := range files {
		ids[name] = map[string]bool{}
		for _, m := range id.FindAllStringSubmatch(string(text), -1) {
			ids[name][m[1]] = true
		}
	}
	var out []string
	for name, text := range files {
		if !strings.HasSuffix(name, ".html") {
			continue
		}
		for _, m := range attribute.FindAllStringSubmatch(string(text), -1) {
			u, err := url.Parse(m[1])
			if err != nil || u.Scheme != "" {
				if err != nil || strings.HasPrefix(m[0], "src") {
					out = append(out, name+": "+m[1])
				}
				continue
			}
			to := name
			if u.Path != "" {
				to = path.Join(path.Dir(name), u.Path)
			}
			if files[to] == nil || u.Fragment != "" && !ids[to][u.Fragment] {
				out = append(out, name+": "+m[1])
			}
		}
	}
	return out
}

// The repository's own documentation has no dead link and needs nothing from elsewhere.
func TestRepository(t *testing.T) {
	files, err := build(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range dead(files) {
		t.Error(d)
	}
	first := string(files["docs/start/first-pod.html"])
	for _, want := range []string{`rel="prev" href="../../docs/guides/local-cluster.html"`, `rel="next" href="../../docs/start/first-gang.html"`, `aria-current="page"`} {
		if !strings.Contains(first, want) {
			t.Errorf("the page of the first pod has no %s", want)
		}
	}
}

// Links lead to the site's files, headings are named as on GitHub, and what is wrong is said.
func TestBuild(t *testing.T) {
	repo := func(more string) fstest.MapFS {
		return fstest.MapFS{
			"docs/index.md": {Data: []byte("# Index\n\n## One\n\n1. [A](a.md)\n2. [B](b/b.md)\n" + more)},
			"docs/a.md":     {Data: []byte("# A page\n\n[there](b/b.md#the-word-x), [code](../x.go), ![p](p.png)\n")},
			"docs/b/b.md":   {Data: []byte("# B page\n\n## The word `x`\n\n<br>\n")},
			"docs/p.png":    {Data: []byte("png")},
			"x.go":          {Data: []byte("package x // <b>\n")},
		}
	}
	files, err := build(repo(""))
	if err != nil {
		t.Fatal(err)
	}
	if d := dead(files); len(d) > 0 {
		t.Errorf("dead links: %q", d)
	}
	a := string(files["docs/a.html"])
	for _, want := range []string{`href="../docs/b/b.html#the-word-x"`, `href="../source/x.go.html"`, `src="../docs/p.png"`, `B page &rarr;`} {
		if !strings.Contains(a, want) {
			t.Errorf("a.html has no %s:\n%s", want, a)
		}
	}
	if !strings.Contains(string(files["source/x.go.html"]), "&lt;b&gt;") {
		t.Error("a source file is not escaped")
	}
	for _, bad := range []string{"[no](c.md)\n", "[no](a.md#nowhere)\n", "[no](../y.go)\n"} {
		if _, err := build(repo(bad)); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}
