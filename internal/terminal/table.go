package terminal

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Between columns are gap spaces, in a terminal that is too narrow narrowGap.
const (
	gap       = 3
	narrowGap = 2
)

// Of a last column that has text, not words, at least leastText columns are shown beside the
// others; with less, text that is longer than aWord goes under its row.
const (
	leastText = 40
	aWord     = 20
	underText = 4 // how far that is indented
)

// Cell is one field of a table.
type Cell struct {
	Text  string
	Style Style
}

// Table is rows under a header. Every cell is cleaned when it is written.
type Table struct {
	columns  []Column
	rows     [][]Cell
	optional []string
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
		t.columns = append(t.columns, Column{Clean(strings.TrimPrefix(name, ">")), strings.HasPrefix(name, ">")})
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

// Optional names the columns that a terminal too narrow for all of them does not show, the
// first of them first. A line under the table then says which.
func (t *Table) Optional(names ...string) { t.optional = append(t.optional, names...) }

// Empty says that there are no rows.
func (t *Table) Empty() bool { return len(t.rows) == 0 }

// Write writes the table: columns as wide as their widest cell, nothing behind the last.
// Outside a terminal that is all. A terminal that is too narrow gets smaller gaps; the text
// of the last column wrapped, or under its row; and no optional columns. Names are never cut:
// people copy them.
func (t *Table) Write(s *Screen) {
	width, _ := s.Size()
	l := t.fit(width)
	header := make([]Cell, len(t.columns))
	for i, c := range t.columns {
		header[i] = Cell{c.Name, Bold}
	}
	t.line(s, l, header)
	for _, row := range t.rows {
		t.line(s, l, row)
		t.under(s, l, row)
	}
	if len(l.dropped) > 0 {
		s.Line(Dim, "Not shown, for the terminal is too narrow: %s.", strings.Join(l.dropped, ", "))
	}
}

// layout is how a table fits a terminal.
type layout struct {
	widths  []int
	shown   []int // columns, by index; without the last when it goes under its row
	gap     int
	wrapAt  int // the last column's text is wrapped at this width; 0: it is not
	under   int // the column that goes under its row; -1: none
	width   int
	dropped []string
}

// fit decides how the table is written into so many columns; 0: there is no bound.
func (t *Table) fit(width int) layout {
	l := layout{widths: make([]int, len(t.columns)), gap: gap, under: -1, width: width}
	for i, c := range t.columns {
		l.widths[i] = utf8.RuneCountInString(c.Name)
		l.shown = append(l.shown, i)
	}
	for _, row := range t.rows {
		for i, c := range row {
			l.widths[i] = max(l.widths[i], utf8.RuneCountInString(Clean(c.Text)))
		}
	}
	if width <= 0 || len(t.columns) == 0 || l.total() <= width {
		return l
	}
	l.gap = narrowGap
	last := len(t.columns) - 1
	if !t.columns[last].Right && l.widths[last] > aWord {
		room := width - (l.total() - l.widths[last])
		if room >= min(leastText, l.widths[last]) {
			l.wrapAt = room
			return l
		}
		l.under, l.shown = last, l.shown[:last]
	}
	for _, name := range t.optional {
		if l.total() <= width {
			break
		}
		if i := slices.IndexFunc(l.shown, func(i int) bool { return t.columns[i].Name == name }); i >= 0 {
			l.shown = slices.Delete(l.shown, i, i+1)
			l.dropped = append(l.dropped, name)
		}
	}
	return l
}

// total is how wide a row is.
func (l *layout) total() int {
	sum := l.gap * max(len(l.shown)-1, 0)
	for _, i := range l.shown {
		sum += l.widths[i]
	}
	return sum
}

func (t *Table) line(s *Screen, l layout, row []Cell) {
	last := -1
	for at, i := range l.shown {
		if row[i].Text != "" {
			last = at
		}
	}
	var b strings.Builder
	indent := 0
	for at, i := range l.shown[:last+1] {
		if at > 0 {
			b.WriteString(strings.Repeat(" ", l.gap))
			indent += l.gap
		}
		c := row[i]
		pad := strings.Repeat(" ", l.widths[i]-utf8.RuneCountInString(Clean(c.Text)))
		switch {
		case t.columns[i].Right:
			b.WriteString(pad + s.Paint(c.Style, c.Text))
		case l.wrapAt > 0 && i == len(t.columns)-1:
			for n, part := range wrap(Clean(c.Text), l.wrapAt) {
				if n > 0 {
					b.WriteString("\n" + strings.Repeat(" ", indent))
				}
				b.WriteString(s.Paint(c.Style, part))
			}
		case at == last:
			b.WriteString(s.Paint(c.Style, c.Text))
		default:
			b.WriteString(s.Paint(c.Style, c.Text) + pad)
		}
		indent += l.widths[i]
	}
	s.raw(b.String() + "\n")
}

// under writes the text that has no room beside the other columns.
func (t *Table) under(s *Screen, l layout, row []Cell) {
	if l.under < 0 || row[l.under].Text == "" || row[l.under].Text == "-" {
		return
	}
	c := row[l.under]
	for _, part := range wrap(strings.ToLower(t.columns[l.under].Name)+": "+Clean(c.Text), l.width-underText) {
		s.raw(strings.Repeat(" ", underText) + s.Paint(c.Style, part) + "\n")
	}
}
