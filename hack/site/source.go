package main

import (
	"fmt"
	"html"
	"html/template"
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

// most is how large a source file may be to be shown, in bytes.
const most = 300_000

// sourceAddress is the site's file for a file or folder of the repository.
func sourceAddress(repo fs.FS, name string) string {
	if strings.HasSuffix(name, ".md") {
		return address(name)
	}
	if info, err := fs.Stat(repo, name); err == nil && info.IsDir() {
		return path.Join("source", name, "index.html")
	}
	if isPicture(name) {
		return name
	}
	return path.Join("source", name+".html")
}

func isPicture(name string) bool {
	return slices.Contains([]string{".png", ".svg", ".jpg"}, path.Ext(name))
}

// addSources adds a page for each file and folder that pages link to, and for what is in
// those folders. Pictures are copied.
func addSources(repo fs.FS, linked map[string]bool, pages map[string]*page, out map[string][]byte) error {
	var next []string
	for name := range linked {
		next = append(next, name)
	}
	slices.Sort(next)
	done := map[string]bool{}
	for len(next) > 0 {
		name := next[0]
		next = next[1:]
		if done[name] {
			continue
		}
		done[name] = true
		info, err := fs.Stat(repo, name)
		if err != nil {
			return err
		}
		if info.IsDir() {
			below, err := folder(repo, name, pages, out)
			if err != nil {
				return err
			}
			next = append(next, below...)
			continue
		}
		if err := file(repo, name, info, out); err != nil {
			return err
		}
	}
	return nil
}

// folder adds the page of a folder and returns what is in it.
func folder(repo fs.FS, name string, pages map[string]*page, out map[string][]byte) ([]string, error) {
	entries, err := fs.ReadDir(repo, name)
	if err != nil {
		return nil, err
	}
	at := path.Join("source", name, "index.html")
	var b strings.Builder
	var below []string
	fmt.Fprintf(&b, "<h1>%s</h1>\n<ul>\n", html.EscapeString(name))
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		entry := path.Join(name, e.Name())
		to := sourceAddress(repo, entry)
		switch {
		case pages[entry] != nil:
		case strings.HasSuffix(entry, ".md"): // no page leads there: shown as it is
			to = path.Join("source", entry+".html")
			below = append(below, entry)
		default:
			below = append(below, entry)
		}
		fmt.Fprintf(&b, "<li><a href=\"%s\">%s</a></li>\n", html.EscapeString(relative(at, to)), html.EscapeString(e.Name()))
	}
	b.WriteString("</ul>\n")
	text, err := frame(view{Page: at, Title: name, Body: template.HTML(b.String())})
	out[at] = text
	return below, err
}

// file adds the page of a file: its text, or that it has none.
func file(repo fs.FS, name string, info fs.FileInfo, out map[string][]byte) error {
	text, err := fs.ReadFile(repo, name)
	if err != nil {
		return err
	}
	if isPicture(name) {
		out[name] = text
		return nil
	}
	body := "<p>Not shown: it is not text, or too large.</p>"
	if info.Size() <= most && utf8.Valid(text) {
		body = "<pre><code>" + html.EscapeString(string(text)) + "</code></pre>"
	}
	at := path.Join("source", name+".html")
	page, err := frame(view{Page: at, Title: name, Body: template.HTML("<h1>" + html.EscapeString(name) + "</h1>\n" + body)})
	out[at] = page
	return err
}
