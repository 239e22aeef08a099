package main

import (
	"bytes"
	_ "embed"
	"html/template"
	"slices"
)

//go:embed style.css
var style string

const redirect = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Tangram</title>
<meta http-equiv="refresh" content="0; url=docs/index.html"></head>
<body><a href="docs/index.html">Tangram's documentation</a></body></html>
`

// view is a page in its frame.
type view struct {
	// Page is the page's path in the repository, or the site's file of a source.
	Page, Title string
	Body        template.HTML
	// Order is the reading order; empty for sources.
	Order    []string
	Pages    map[string]*page
	Contents []part
}

// Lang is the page's language.
func (v view) Lang() string {
	if v.Page == "README.zh-CN.md" {
		return "zh-CN"
	}
	return "en"
}

// Home, Link and Style are for the layout.
func (v view) Home() string            { return v.Link(index) }
func (v view) Link(name string) string { return relative(v.Page, address(name)) }
func (v view) Style() template.CSS     { return template.CSS(style) }

// Previous and Next are the pages before and after, if there are any.
func (v view) Previous() *page { return v.beside(-1) }
func (v view) Next() *page     { return v.beside(1) }

func (v view) beside(step int) *page {
	at := slices.Index(v.Order, v.Page)
	if at < 0 || at+step < 0 || at+step >= len(v.Order) {
		return nil
	}
	return v.Pages[v.Order[at+step]]
}

// part is a part of the index, with its pages.
type part struct {
	Title string
	Items []item
}

// item is a line of the contents.
type item struct{ File, Text string }

// contentsOf are the parts of the index.
func contentsOf(index *page) []part {
	var out []part
	for _, l := range index.links {
		if !l.page() || l.anchor != "" {
			continue
		}
		if len(out) == 0 || out[len(out)-1].Title != l.part {
			out = append(out, part{Title: l.part})
		}
		last := &out[len(out)-1]
		last.Items = append(last.Items, item{File: l.file, Text: l.text})
	}
	return out
}

var layout = template.Must(template.New("page").Parse(`<!doctype html>
<html lang="{{.Lang}}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{{.Title}} - Tangram</title>
<style>{{.Style}}</style>
</head>
<body>
<a class="skip" href="#text">Skip to the text</a>
<header><a href="{{.Home}}">Tangram</a></header>
{{if .Contents}}<nav class="contents" aria-label="Contents">
<details open><summary>Contents</summary>
{{range .Contents}}<h2>{{.Title}}</h2>
<ol>{{range .Items}}<li><a href="{{$.Link .File}}"{{if eq .File $.Page}} aria-current="page"{{end}}>{{.Text}}</a></li>{{end}}</ol>
{{end}}</details>
</nav>
{{end}}<main id="text">
{{.Body}}
{{if or .Previous .Next}}<nav class="turn" aria-label="Previous and next page">
{{with .Previous}}<a rel="prev" href="{{$.Link .Name}}">&larr; {{.Title}}</a>{{else}}<span></span>{{end}}
{{with .Next}}<a rel="next" href="{{$.Link .Name}}">{{.Title}} &rarr;</a>{{end}}
</nav>
{{end}}</main>
</body>
</html>
`))

// frame is a whole HTML file.
func frame(v view) ([]byte, error) {
	var b bytes.Buffer
	err := layout.Execute(&b, v)
	return b.Bytes(), err
}
