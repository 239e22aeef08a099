package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// How a run is shown.
const (
	// quiet is the time after which a line says what is running.
	quiet = time.Minute
	// slow is how long a package takes that gets a line of its own.
	slow = 2 * time.Second
	// maxOutput is how many of the last lines of a failed test are shown.
	maxOutput = 120
)

// lines writes whole lines, each behind the name of its stage: two stages may run at once.
type lines struct {
	r    *runner
	name string
	rest []byte
}

func (l *lines) Write(data []byte) (int, error) {
	l.r.mu.Lock()
	defer l.r.mu.Unlock()
	l.rest = append(l.rest, data...)
	for {
		i := bytes.IndexByte(l.rest, '\n')
		if i < 0 {
			return len(data), nil
		}
		if _, err := fmt.Fprintf(l.r.out, "%-9s %s", l.name, l.rest[:i+1]); err != nil {
			return 0, err
		}
		l.rest = l.rest[i+1:]
	}
}

// console shows a go test while it runs.
type console struct {
	r       *runner
	out     io.Writer
	log     io.Writer
	hold    bool
	verbose bool

	mu     sync.Mutex
	runs   map[key]bool
	last   time.Time // of a line on the console
	quick  int       // packages without a line of their own
	cached int
}

func (c *console) print(format string, args ...any) {
	c.last = time.Now()
	fmt.Fprintf(c.out, format, args...)
}

func (c *console) says(k key, text string) {
	if c.verbose || k.pkg == "" {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.print("%s", text)
	}
}

// keep writes the output of a package into the log, test by test.
func (c *console) keep(pkg string, p *state) {
	for _, test := range slices.Sorted(maps.Keys(p.output)) {
		fmt.Fprintf(c.log, "== %s\n%s\n", key{pkg, test}, strings.Join(p.output[test], "\n"))
	}
}

func (c *console) running(k key, now bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now {
		c.runs[k] = true
	} else {
		delete(c.runs, k)
	}
}

func (c *console) testFails(f failed) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hold && f.retry {
		c.print("once   %s did not pass and runs again after the stage: %s\n", f.key, cut(f.cause))
	}
}

func (c *console) packageEnds(pkg string, p *state, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keep(pkg, p)
	for _, f := range p.failed {
		if !c.hold || !f.retry {
			c.last = time.Now()
			c.r.showFailure(c.out, f)
		}
	}
	switch {
	case p.tests == 0:
	case p.cached:
		c.cached++
	case took < slow && len(p.failed) == 0:
		c.quick++
	case len(p.failed) == 0:
		c.print("ok     %-40s %6s %5d tests\n", short(pkg), clock(took), p.tests)
	}
}

func (c *console) end(out *outcome) {
	for _, pkg := range slices.Sorted(maps.Keys(out.packages)) {
		c.keep(pkg, out.packages[pkg]) // packages that did not end, or did not build
	}
	if c.quick > 0 {
		c.print("ok     packages of less than %s each: %d\n", slow, c.quick)
	}
	if c.cached > 0 {
		c.print("ok     packages from Go's cache: %d\n", c.cached)
	}
}

// beat says from time to time what is running when nothing else is said, until it is closed.
func (c *console) beat() chan<- struct{} {
	done := make(chan struct{})
	go func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(time.Second):
			}
			c.mu.Lock()
			if time.Since(c.last) > quiet {
				var names []string
				for k := range c.runs {
					if k.top() == k {
						names = append(names, k.String())
					}
				}
				slices.Sort(names)
				more := ""
				if len(names) > 4 {
					more = fmt.Sprintf(" and %d more", len(names)-4)
					names = names[:4]
				}
				c.print("...    %s%s\n", cmp.Or(strings.Join(names, ", "), "compiling"), more)
			}
			c.mu.Unlock()
		}
	}()
	return done
}

// showFailure prints a test that failed with the end of its output.
func (r *runner) showFailure(out io.Writer, f failed) {
	fmt.Fprintf(out, "FAIL   %s: %s\n", f.key, cut(f.cause))
	from := max(0, len(f.output)-maxOutput)
	if from > 0 {
		fmt.Fprintf(out, "       (%d lines are in %s only)\n", from, r.log)
	}
	for _, line := range f.output[from:] {
		fmt.Fprintf(out, "       | %s\n", line)
	}
}
