// Command site makes a site of the documentation: a page for each Markdown file that
// docs/index.md leads to, in the order of that page, and for each file or folder of the
// repository that they link to. It is read from a server or straight from the disk
// (file://), and needs nothing from elsewhere. It is a module of its own because of its
// Markdown library.
//
//	site REPOSITORY OUTPUT
package main

import (
	"fmt"
	"html/template"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// index is the page that gives the order.
const index = "docs/index.md"

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: site REPOSITORY OUTPUT")
		os.Exit(2)
	}
	files, err := build(os.DirFS(os.Args[1]))
	if err == nil {
		err = write(os.Args[2], files)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
	fmt.Printf("site: %d files; open %s\n", len(files), filepath.Join(os.Args[2], "index.html"))
}

// build is the site: its files by their paths.
func build(repo fs.FS) (map[string][]byte, error) {
	pages := map[string]*page{}
	order, err := collect(repo, pages)
	if err != nil {
		return nil, err
	}
	out := map[string][]byte{"index.html": []byte(redirect)}
	sources := map[string]bool{} // files and folders that pages link to
	contents := contentsOf(pages[index])
	for name, p := range pages {
		html, linked, err := p.render(repo, pages)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for _, l := range linked {
			sources[l] = true
		}
		text, err := frame(view{Page: name, Title: p.Title, Body: template.HTML(html), Order: order, Pages: pages, Contents: contents})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out[address(name)] = text
	}
	if err := addSources(repo, sources, pages, out); err != nil {
		return nil, err
	}
	return out, nil
}

// collect reads the pages that the index leads to, and returns their order: that of the
// index. Pages that only another page links to follow that page if they lie in its folder
// (the page of an alert, after the list of alerts); others are in no order.
func collect(repo fs.FS, pages map[string]*page) ([]string, error) {
	var order []string
	var follow func(name string, depth int) error
	follow = func(name string, depth int) error {
		if pages[name] != nil {
			return nil
		}
		p, err := read(repo, name)
		if err != nil {
			return err
		}
		pages[name] = p
		for _, l := range p.links {
			if l.page() && pages[l.file] == nil && depth < 20 {
				if err := follow(l.file, depth+1); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
			}
		}
		return nil
	}
	if err := follow(index, 0); err != nil {
		return nil, err
	}
	add := func(name string) {
		if pages[name] != nil && !slices.Contains(order, name) {
			order = append(order, name)
		}
	}
	add(index)
	listed := map[string]bool{}
	for _, l := range pages[index].links {
		listed[l.file] = true
	}
	for _, l := range pages[index].links {
		if !l.page() {
			continue
		}
		add(l.file)
		for _, below := range pages[l.file].links {
			if below.page() && !listed[below.file] && path.Dir(below.file) == path.Dir(l.file) && path.Base(l.file) == "README.md" && strings.HasPrefix(l.file, "docs/") {
				add(below.file)
			}
		}
	}
	return order, nil
}

// write replaces the folder's files.
func write(folder string, files map[string][]byte) error {
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	for name, text := range files {
		to := filepath.Join(folder, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(to, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
