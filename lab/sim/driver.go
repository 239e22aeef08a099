package sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// Output says which policies a replay compares and what it writes. Both configs have one.
type Output struct {
	Policies []string
	JSON     bool
	HTML     string // file; empty for none
}

// flags registers the output's flags. page says what the page shows.
func (o *Output) flags(cmd *cobra.Command, policies []string, page string) {
	flags := cmd.Flags()
	flags.StringSliceVar(&o.Policies, "policy", o.Policies, "policies to compare: "+strings.Join(policies, ", "))
	flags.BoolVar(&o.JSON, "json", o.JSON, "print JSON")
	flags.StringVar(&o.HTML, "html", o.HTML, "write a page with "+page+" to this file")
}

// problems are what is wrong with a config. Each names its flag.
type problems []error

func (p *problems) add(format string, args ...any) { *p = append(*p, fmt.Errorf(format, args...)) }

// count checks a number in 1..most.
func (p *problems) count(flag string, n, most int) {
	if n < 1 || n > most {
		p.add("%s %d is not in 1..%d", flag, n, most)
	}
}

// needs checks that a flag is given.
func (p *problems) needs(flag, value, what string) {
	if value == "" {
		p.add("%s is missing: %s", flag, what)
	}
}

// err is all problems as one InputError, or nil.
func (p problems) err() error { return inputError(errors.Join(p...)) }

// output checks what both configs have.
func (p *problems) output(o *Output, policies []string) {
	if len(o.Policies) == 0 {
		p.add("--policy is empty, want some of %s", strings.Join(policies, ", "))
	}
	for i, policy := range o.Policies {
		if !slices.Contains(policies, policy) {
			p.add("--policy %q is unknown, want some of %s", policy, strings.Join(policies, ", "))
		}
		if slices.Contains(o.Policies[:i], policy) {
			p.add("--policy %q is there twice", policy)
		}
	}
	p.file("--html", o.HTML)
}

// file checks that a file can be written, before minutes of work. An empty name is none.
func (p *problems) file(flag, name string) {
	if name == "" {
		return
	}
	if info, err := os.Stat(filepath.Dir(name)); err != nil || !info.IsDir() {
		p.add("%s %q: there is no such folder", flag, name)
	}
}

// compare replays policies one after the other on one core, so that the processor time of
// one is not spent on another. tell reports progress in 0..1.
func compare[R any](o *Output, log io.Writer, replay func(policy string, tell func(part float64, what string)) (R, error)) ([]R, error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	p := newProgress(log)
	defer p.clear()
	var reports []R
	for i, policy := range o.Policies {
		report, err := replay(policy, func(part float64, what string) {
			p.show((float64(i)+part)/float64(len(o.Policies)), what)
		})
		if err != nil {
			return nil, fmt.Errorf("policy %s: %w", policy, err)
		}
		reports = append(reports, report)
	}
	return reports, nil
}

// deliver writes the page, if there is to be one, and prints JSON (one object for one
// policy, a list for several) or the table.
func deliver[R any](o *Output, out io.Writer, reports []R, page func() error, table func(io.Writer) error) error {
	if o.HTML != "" {
		if err := page(); err != nil {
			return fmt.Errorf("--html: %w", err)
		}
	}
	if !o.JSON {
		return table(out)
	}
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	if len(reports) == 1 {
		return e.Encode(reports[0])
	}
	return e.Encode(reports)
}
