package arbiter_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/test/coretest"
)

// TestEveryPolicy: every policy has its row: a name of its own that parses, and words.
func TestEveryPolicy(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range arbiter.Policies() {
		name := p.String()
		if got, err := arbiter.ParsePolicy(name); name == "" || seen[name] || err != nil || got != p || p.About() == "" {
			t.Errorf("policy %d: name %q, about %q, parses as %v, %v: its row in policies is incomplete", p, name, p.About(), got, err)
		}
		seen[name] = true
		if !strings.Contains(arbiter.PolicyChoice(), name) {
			t.Errorf("%s is not in %q", name, arbiter.PolicyChoice())
		}
	}
	if got, err := arbiter.ParsePolicy(""); err != nil || got != arbiter.FIFO {
		t.Errorf("nothing parses as %v, %v", got, err)
	}
	if _, err := arbiter.ParsePolicy("lifo"); err == nil || !strings.HasPrefix(err.Error(), `"lifo" is not fifo, `) {
		t.Errorf("lifo: %v", err)
	}
	if got := arbiter.Policy(99).String(); got != "unknown" {
		t.Errorf("beyond the last: %q", got)
	}
}

// TestPolicyPage: the page about queues has the policies as the table has them. With -update
// it is written.
func TestPolicyPage(t *testing.T) {
	table := "| order | jobs go |\n|---|---|\n"
	for _, p := range arbiter.Policies() {
		table += fmt.Sprintf("| `%s` | %s |\n", p, p.About())
	}
	coretest.Block(t, "docs/concepts/queues.md", "orders", table)
}
