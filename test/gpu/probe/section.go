package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// section is one part of the report, in Markdown.
type section struct {
	text           strings.Builder
	checks, failed int
}

func (s *section) printf(format string, args ...any) { fmt.Fprintf(&s.text, format+"\n", args...) }

// check adds a line that says whether a claim held.
func (s *section) check(ok bool, format string, args ...any) {
	s.printf("- %s: %s", s.count(ok), fmt.Sprintf(format, args...))
}

func (s *section) count(ok bool) string {
	s.checks++
	if ok {
		return "ok"
	}
	s.failed++
	return "**failed**"
}

// table adds a table's head; rows follow.
func (s *section) table(columns ...string) {
	s.printf("")
	s.row(columns...)
	s.row(strings.Split(strings.Repeat("---,", len(columns)-1)+"---", ",")...)
}

func (s *section) row(cells ...string) { s.printf("| %s |", strings.Join(cells, " | ")) }

func (s *section) save(folder, name string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, name+".md"), []byte(s.text.String()+"\n"), 0o644)
}
