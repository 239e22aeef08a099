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

// view is what a page is framed with.
type view struct {
	// Page is the page's path in the repository, or the site's file of a source.
	Page, Title, Body string
	// Order is the reading order; empty for sources.
	Order    []string
	Pages    map[string]*page
	Contents []part
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
{{if .Parts}}<nav class="contents" aria-label="Contents">
<details open><summary>Contents</summary>
{{range .Parts}}<h2>{{.Title}}</h2>
<ol>{{range .Lines}}<li><a href="{{.To}}"{{if .Here}} aria-current="page"{{end}}>{{.Text}}</a></li>{{end}}</ol>
{{end}}</details>
</nav>
{{end}}<main id="text">
{{.Body}}
{{if or .Previous.To .Next.To}}<nav class="turn" aria-label="Previous and next page">
{{if .Previous.To}}<a rel="prev" href="{{.Previous.To}}">&larr; {{.Previous.Text}}</a>{{else}}<span></span>{{end}}
{{if .Next.To}}<a rel="next" href="{{.Next.To}}">{{.Next.Text}} &rarr;</a>{{end}}
</nav>
{{end}}</main>
</body>
</html>
`))

type line struct {
	To, Text string
	Here     bool
}

type lines struct {
	Title string
	Lines []line
}

// frame is a whole HTML file.
func frame(v view) ([]byte, error) {
	data := struct {
		Title, Lang, Home string
		Style             template.CSS
		Body              template.HTML
		Parts             []lines
		Previous, Next    line
	}{Title: v.Title, Lang: "en", Home: relative(v.Page, address(index)), Style: template.CSS(style), Body: template.HTML(v.Body)}
	if v.Page == "README.zh-CN.md" {
		data.Lang = "zh-CN"
	}
	for _, p := range v.Contents {
		part := lines{Title: p.Title}
		for _, i := range p.Items {
			part.Lines = append(part.Lines, line{To: relative(v.Page, address(i.File)), Text: i.Text, Here: i.File == v.Page})
		}
		data.Parts = append(data.Parts, part)
	}
	to := func(i int) line {
		if i < 0 || i >= len(v.Order) {
			return line{}
		}
		name := v.Order[i]
		return line{To: relative(v.Page, address(name)), Text: v.Pages[name].title}
	}
	if at := slices.Index(v.Order, v.Page); at >= 0 {
		data.Previous, data.Next = to(at-1), to(at+1)
	}
	var b bytes.Buffer
	err := layout.Execute(&b, data)
	return b.Bytes(), err
}
