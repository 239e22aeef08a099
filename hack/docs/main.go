// Command docs writes the pages of docs/reference that follow from code. It is a step of
// make generate:
//
//	command-line.md  commands.go  the commands and flags of tangram
//	crds.md          crds.go      config/crd
//	labels.md        labels.go    the constants of api/names
//	metrics.md       metrics.go   the tables of metrics of all programs
//	query.md         query.go     api/query, and the server's table of questions
//	reasons.md       reasons.go   the table of reasons in core/explain
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// pages are the pages and what writes them, given the repository's root.
var pages = []struct {
	file  string
	write func(p *page, root string) error
}{
	{"command-line.md", writeCommands},
	{"crds.md", writeCRDs},
	{"labels.md", writeLabels},
	{"metrics.md", writeMetrics},
	{"query.md", writeQuery},
	{"reasons.md", writeReasons},
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: docs ROOT FOLDER")
		os.Exit(2)
	}
	for _, x := range pages {
		var p page
		err := x.write(&p, os.Args[1])
		if err == nil {
			err = os.WriteFile(filepath.Join(os.Args[2], x.file), []byte(p.String()), 0o644)
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", x.file, err)
			os.Exit(1)
		}
	}
}

// page is a page of Markdown under way.
type page struct{ strings.Builder }

// printf adds text.
func (p *page) printf(format string, args ...any) { fmt.Fprintf(p, format, args...) }

// table begins a table; row adds a row to it.
func (p *page) table(columns ...string) {
	p.row(columns...)
	p.WriteString(strings.Repeat("|---", len(columns)) + "|\n")
}

func (p *page) row(cells ...string) {
	for _, c := range cells {
		if c = strings.ReplaceAll(c, "|", `\|`); c != "" {
			c += " "
		}
		p.WriteString("| " + c)
	}
	p.WriteString("|\n")
}

// code is a word as code.
func code(word string) string { return "`" + word + "`" }

// oneLine is a comment as one line.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
