package terminal

import (
	"strings"
	"unicode/utf8"
)

// gap is between columns.
const gap = "   "

// Cell is one field of a table.
type Cell struct {
	Text  string
	Style Style
}

// Table is rows under a header. Every cell is cleaned when it is written.
type Table struct {
	columns []Column
	rows    [][]Cell
}

// Column is one column; numbers stand at its right.
type Column struct {
	Name  string
	Right bool
}

// NewTable makes a table; a name that begins with ">" is of a column of numbers.
func NewTable(columns ...string) *Table {
	t := &Table{}
	for _, name := range columns {
		t.columns = append(t.columns, Column{strings.TrimPrefix(name, ">"), strings.HasPrefix(name, ">")})
	}
	return t
}

// Add adds a row of texts; what has a style is a Cell. Missing cells are empty.
func (t *Table) Add(cells ...any) {
	row := make([]Cell, len(t.columns))
	for i, c := range cells {
		switch v := c.(type) {
		case Cell:
			row[i] = v
		case string:
			row[i].Text = v
		default:
			panic("terminal: a cell is a string or a Cell")
		}
	}
	t.rows = append(t.rows, row)
}

// Empty says that there are no rows.
func (t *Table) Empty() bool { return len(t.rows) == 0 }

// Write writes the table: columns as wide as their widest cell, nothing behind the last.
func (t *Table) Write(s *Screen) {
	widths := make([]int, len(t.columns))
	for i, c := range t.columns {
		widths[i] = utf8.RuneCountInString(c.Name)
	}
	for _, row := range t.rows {
		for i, c := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(Clean(c.Text)))
		}
	}
	header := make([]Cell, len(t.columns))
	for i, c := range t.columns {
		header[i] = Cell{c.Name, Bold}
	}
	t.line(s, widths, header)
	for _, row := range t.rows {
		t.line(s, widths, row)
	}
}

func (t *Table) line(s *Screen, widths []int, row []Cell) {
	last := -1
	for i, c := range row {
		if c.Text != "" {
			last = i
		}
	}
	var b strings.Builder
	for i := range last + 1 {
		if i > 0 {
			b.WriteString(gap)
		}
		c := row[i]
		pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(Clean(c.Text)))
		switch {
		case t.columns[i].Right:
			b.WriteString(pad + s.Paint(c.Style, c.Text))
		case i == last:
			b.WriteString(s.Paint(c.Style, c.Text))
		default:
			b.WriteString(s.Paint(c.Style, c.Text) + pad)
		}
	}
	s.raw(b.String() + "\n")
}
