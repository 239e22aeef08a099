package sim

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/tangram-dev/tangram/core/pack"
)

// The columns of the openb format (Alibaba's GPU cluster trace of 2023). Pod
// lists may end after gpu_milli; what follows gpu_spec is not read.
var (
	nodeColumns = []string{"sn", "cpu_milli", "memory_mib", "gpu", "model"}
	podColumns  = []string{"name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec"}
)

// podColumnsNeeded is how many of podColumns must be there.
const podColumnsNeeded = 5

// maxAmount bounds CPU and memory of one row: beyond it is a mistake, and sums
// stay far from overflow.
const maxAmount = 1 << 40

// ReadTrace reads a node list and a pod list. Errors name file, line and column.
func ReadTrace(nodes, pods string) (*Trace, error) {
	t := &Trace{}
	if err := readFile("--nodes", nodes, t.ReadNodes); err != nil {
		return nil, err
	}
	if err := readFile("--pods", pods, t.ReadPods); err != nil {
		return nil, err
	}
	return t, nil
}

func readFile(flag, name string, read func(string, io.Reader) error) error {
	f, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("%s: %w", flag, err)
	}
	defer f.Close()
	if err := read(name, f); err != nil {
		return fmt.Errorf("%s: %w", flag, err)
	}
	return nil
}

// ReadNodes adds the nodes of a list. name is for errors.
func (t *Trace) ReadNodes(name string, r io.Reader) error {
	seen := map[string]bool{}
	rows := 0
	err := readRows(name, r, nodeColumns, len(nodeColumns), func(row *row) error {
		n := Node{Name: row.text(0)}
		if n.Name == "" || seen[n.Name] {
			return row.fail(0, fmt.Errorf("node name %q is empty or there twice", n.Name))
		}
		seen[n.Name] = true
		n.Empty.CPU = row.number(1, maxAmount)
		n.Empty.Memory = row.number(2, maxAmount)
		n.Empty.GPUs = uint8(row.number(3, pack.MaxGPUs))
		if model := row.text(4); (model == "") != (n.Empty.GPUs == 0) {
			return row.fail(4, fmt.Errorf("%d GPUs of model %q: one without the other", n.Empty.GPUs, model))
		}
		var err error
		if n.Empty.Model, err = t.model(row.text(4)); err != nil {
			return row.fail(4, err)
		}
		for i := range n.Empty.GPUs {
			n.Empty.Free[i] = pack.Whole
		}
		t.Nodes = append(t.Nodes, n)
		rows++
		return row.err
	})
	if err == nil && rows == 0 {
		return fmt.Errorf("%s: no nodes", name)
	}
	return err
}

// ReadPods adds the pods of a list. name is for errors.
func (t *Trace) ReadPods(name string, r io.Reader) error {
	rows := 0
	err := readRows(name, r, podColumns, podColumnsNeeded, func(row *row) error {
		p := Pod{Name: row.text(0)}
		c := &p.Class
		c.CPU = row.number(1, maxAmount)
		c.Memory = row.number(2, maxAmount)
		c.GPUs = uint8(row.number(3, pack.MaxGPUs))
		c.Milli = uint16(row.number(4, pack.Whole))
		if c.GPUs > 1 && c.Milli != pack.Whole {
			return row.fail(4, fmt.Errorf("%d milli of each of %d GPUs: only one GPU can be shared", c.Milli, c.GPUs))
		}
		if (c.GPUs == 0) != (c.Milli == 0) {
			return row.fail(4, fmt.Errorf("%d milli of %d GPUs: one without the other", c.Milli, c.GPUs))
		}
		if spec := row.text(5); spec != "" {
			for model := range strings.SplitSeq(spec, "|") {
				if model == "" {
					return row.fail(5, fmt.Errorf("%q has an empty model", spec))
				}
				id, err := t.model(model)
				if err != nil {
					return row.fail(5, err)
				}
				c.Models |= pack.Set(id)
			}
		}
		t.Pods = append(t.Pods, p)
		rows++
		return row.err
	})
	if err == nil && rows == 0 {
		return fmt.Errorf("%s: no pods", name)
	}
	return err
}

// row is one line of a list, read column by column. The first bad number is kept
// in err.
type row struct {
	file    string
	line    int
	columns []string
	fields  []string
	err     error
}

// text is a field; empty if the list has no such column.
func (r *row) text(i int) string {
	if i >= len(r.fields) {
		return ""
	}
	return strings.TrimSpace(r.fields[i])
}

// number is a field as a number in 0..most.
func (r *row) number(i int, most int64) int64 {
	n, err := strconv.ParseInt(r.text(i), 10, 64)
	if err != nil {
		r.note(i, fmt.Errorf("%q is not a whole number", r.text(i)))
		return 0
	}
	if n < 0 || n > most {
		r.note(i, fmt.Errorf("%d is not in 0..%d", n, most))
		return 0
	}
	return n
}

func (r *row) note(i int, err error) {
	if r.err == nil {
		r.err = r.fail(i, err)
	}
}

// fail says where an error is. An earlier one on the same line goes first.
func (r *row) fail(i int, err error) error {
	if r.err != nil {
		return r.err
	}
	return fmt.Errorf("%s:%d: column %s: %w", r.file, r.line, r.columns[i], err)
}

// readRows reads a list whose header starts with the columns, at least the first
// needed ones.
func readRows(name string, r io.Reader, columns []string, needed int, each func(*row) error) error {
	lines := csv.NewReader(r)
	lines.ReuseRecord = true
	header, err := lines.Read()
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: empty file, want a header %s", name, strings.Join(columns[:needed], ","))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	header = slices.Clone(header)
	header[0] = strings.TrimPrefix(header[0], "\ufeff")
	for i, want := range columns {
		switch {
		case i >= len(header) && i >= needed:
		case i >= len(header):
			return fmt.Errorf("%s:1: column %s is missing, want %s", name, want, strings.Join(columns[:needed], ","))
		case strings.TrimSpace(header[i]) != want:
			return fmt.Errorf("%s:1: column %d is %q, want %q", name, i+1, header[i], want)
		}
	}
	for {
		fields, err := lines.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err) // csv errors name line and column
		}
		line, _ := lines.FieldPos(0)
		if err := each(&row{file: name, line: line, columns: columns, fields: fields}); err != nil {
			return err
		}
	}
}
