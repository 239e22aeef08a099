package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"regexp"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
)

// page is a Markdown file.
type page struct {
	Name, Title string
	source      []byte
	tree        ast.Node
	links       []link
	anchors     map[string]bool
}

// link is a relative link of a page: to a path of the repository, or a heading there.
type link struct {
	file, anchor string
	text         string
	// part is the heading above it.
	part string
}

// page tells whether it leads to another page, and not to a source file.
func (l link) page() bool { return strings.HasSuffix(l.file, ".md") }

var markdown = goldmark.New(
	goldmark.WithExtensions(extension.GFM),
	goldmark.WithParserOptions(parser.WithAutoHeadingID()),
	// The pages are the repository's own: what HTML they have is meant.
	goldmark.WithRendererOptions(html.WithUnsafe()),
)

// read parses a page.
func read(repo fs.FS, name string) (*page, error) {
	source, err := fs.ReadFile(repo, name)
	if err != nil {
		return nil, err
	}
	ids := &anchors{seen: map[string]int{}, all: map[string]bool{}}
	tree := markdown.Parser().Parse(text.NewReader(source), parser.WithContext(parser.NewContext(parser.WithIDs(ids))))
	p := &page{Name: name, Title: path.Base(name), source: source, tree: tree, anchors: ids.all}
	part := ""
	err = ast.Walk(tree, func(n ast.Node, enter bool) (ast.WalkStatus, error) {
		if !enter {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Heading:
			part = words(n, source)
			if n.Level == 1 {
				p.Title = part
			}
		case *ast.Link:
			if file, anchor, ok := target(name, string(n.Destination)); ok {
				p.links = append(p.links, link{file: file, anchor: anchor, text: words(n, source), part: part})
			}
		}
		return ast.WalkContinue, nil
	})
	return p, err
}

// target is where a relative link leads, by a path of the repository.
func target(from, to string) (file, anchor string, ok bool) {
	u, err := url.Parse(to)
	if err != nil || u.Scheme != "" || u.Host != "" {
		return "", "", false
	}
	if u.Path == "" {
		return from, u.Fragment, true
	}
	return path.Join(path.Dir(from), u.Path), u.Fragment, true
}

// render is the page's HTML, with links that lead to the site's files, and the files and
// folders of the repository that it links to.
func (p *page) render(repo fs.FS, pages map[string]*page) (string, []string, error) {
	var sources []string
	err := ast.Walk(p.tree, func(n ast.Node, enter bool) (ast.WalkStatus, error) {
		if !enter {
			return ast.WalkContinue, nil
		}
		var to *[]byte
		image := false
		switch n := n.(type) {
		case *ast.Link:
			to = &n.Destination
		case *ast.Image:
			to, image = &n.Destination, true
		default:
			return ast.WalkContinue, nil
		}
		file, anchor, ok := target(p.Name, string(*to))
		if !ok {
			return ast.WalkContinue, nil
		}
		if other := pages[file]; other != nil {
			if anchor != "" && !other.anchors[anchor] {
				return ast.WalkStop, fmt.Errorf("links to %s#%s, and there is no such heading", file, anchor)
			}
			*to = []byte(relative(p.Name, address(file)))
			if anchor != "" {
				*to = append(*to, []byte("#"+url.PathEscape(anchor))...)
			}
			return ast.WalkContinue, nil
		}
		if _, err := fs.Stat(repo, file); err != nil {
			return ast.WalkStop, fmt.Errorf("links to %s: %w", file, err)
		}
		sources = append(sources, file)
		if image {
			*to = []byte(relative(p.Name, file))
		} else {
			*to = []byte(relative(p.Name, sourceAddress(repo, file)))
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		return "", nil, err
	}
	var b bytes.Buffer
	err = markdown.Renderer().Render(&b, p.source, p.tree)
	// Pictures in HTML: the site has the repository's folders, so their addresses hold.
	for _, m := range picture.FindAllStringSubmatch(b.String(), -1) {
		file, _, ok := target(address(p.Name), m[1])
		if _, missing := fs.Stat(repo, file); ok && missing != nil {
			return "", nil, fmt.Errorf("shows %s: %w", file, missing)
		}
		sources = append(sources, file)
	}
	return b.String(), sources, err
}

var picture = regexp.MustCompile(`<img [^>]*src="([^"]*)"`)

// address is the site's file for a page.
func address(name string) string { return strings.TrimSuffix(name, ".md") + ".html" }

// relative is the way from a page's file to another file of the site.
func relative(from, to string) string {
	up := strings.Count(path.Dir(from)+"/", "/")
	if path.Dir(from) == "." {
		up = 0
	}
	return strings.Repeat("../", up) + to
}

// words is the text of a node.
func words(n ast.Node, source []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, enter bool) (ast.WalkStatus, error) {
		if t, ok := n.(*ast.Text); ok && enter {
			b.Write(t.Segment.Value(source))
			if t.SoftLineBreak() {
				b.WriteByte(' ')
			}
		}
		return ast.WalkContinue, nil
	})
	return b.String()
}

// anchors names headings as GitHub does, so that links work in both places.
type anchors struct {
	seen map[string]int
	all  map[string]bool
}

// Generate is of goldmark's parser.IDs.
func (a *anchors) Generate(value []byte, _ ast.NodeKind) []byte {
	slug := slugOf(string(value))
	n := a.seen[slug]
	a.seen[slug]++
	if n > 0 {
		slug = fmt.Sprintf("%s-%d", slug, n)
	}
	a.all[slug] = true
	return []byte(slug)
}

// Put is of goldmark's parser.IDs.
func (a *anchors) Put(value []byte) { a.all[string(value)] = true }

// slugOf is GitHub's anchor of a heading.
func slugOf(heading string) string {
	var b strings.Builder
	inTarget := false
	for i, r := range strings.ToLower(strings.TrimSpace(heading)) {
		switch {
		case r == '(' && i > 0 && heading[i-1] == ']':
			inTarget = true
		case inTarget:
			inTarget = r != ')'
		case r == ' ':
			b.WriteByte('-')
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			b.WriteRune(r)
		}
	}
	return b.String()
}
