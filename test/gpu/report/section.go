// Package report writes the sections of docs/gpu-report.md, which are in Markdown. It is
// shared by the programs that test/gpu/run.sh runs.
package report

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Section is one part of the report.
type Section struct {
	text strings.Builder
	// Checks is how many claims were checked, Failed how many did not hold.
	Checks, Failed int
}

// Printf adds a line.
func (s *Section) Printf(format string, args ...any) { fmt.Fprintf(&s.text, format+"\n", args...) }

// Check adds a line that says whether a claim held.
func (s *Section) Check(ok bool, format string, args ...any) {
	s.Printf("- %s: %s", s.Count(ok), fmt.Sprintf(format, args...))
}

// Count counts a claim and returns the word for a table's cell.
func (s *Section) Count(ok bool) string {
	s.Checks++
	if ok {
		return "ok"
	}
	s.Failed++
	return "**failed**"
}

// Table adds a table's head; rows follow.
func (s *Section) Table(columns ...string) {
	s.Printf("")
	s.Row(columns...)
	s.Row(strings.Split(strings.Repeat("---,", len(columns)-1)+"---", ",")...)
}

// Row adds a table's row.
func (s *Section) Row(cells ...string) { s.Printf("| %s |", strings.Join(cells, " | ")) }

// Save writes the section as folder/name.md.
func (s *Section) Save(folder, name string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, name+".md"), []byte(s.text.String()+"\n"), 0o644)
}
