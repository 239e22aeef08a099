package explain_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tangram-dev/tangram/core/explain"
)

// TestEveryCode: every code has its row (name, class, permanence) and its words. A
// code that is added without them fails here.
func TestEveryCode(t *testing.T) {
	names := map[string]bool{}
	for c := explain.Code(1); c < explain.Codes; c++ {
		name := c.String()
		if name == "Unspecified" || names[name] {
			t.Errorf("code %d has no name of its own: %q", c, name)
		}
		names[name] = true
		if c.Class() == 0 || c.Permanence() == 0 {
			t.Errorf("%s: class %d, permanence %d", name, c.Class(), c.Permanence())
		}
		if c.Class() == explain.OfNode {
			var tally explain.Tally
			tally.Add(explain.Refusal{Code: c, Need: 2, Best: 1, Detail: "x"}, 3)
			if text := tally.String(); !strings.HasPrefix(text, "0/3 nodes fit: 3 ") || strings.Contains(text, "unknown") {
				t.Errorf("%s: %q", name, text)
			}
			continue
		}
		r := explain.Reason{Code: c, Need: 2, Level: "rack", Queue: "q", Namespace: "n", Resource: "cpu", Detail: "x"}
		if text := r.String(); text == "" || text == "waits" {
			t.Errorf("%s has no words", name)
		}
	}
	if got := explain.Codes.String(); got != "Unspecified" {
		t.Errorf("beyond the last code: %q", got)
	}
}

// TestConditions: autoscalers look at pods that are Unschedulable: only those that wait for
// capacity say so. Every code that a gang waits for is listed.
func TestConditions(t *testing.T) {
	words := map[string][]explain.Code{
		"Unschedulable":     {explain.Nodes, explain.NoDomain, explain.Guaranteed, explain.OverTotal, explain.NodesKept},
		"WaitingForQuota":   {explain.OverQuota, explain.OverCapability, explain.QuotaKept},
		"WaitingForMembers": {explain.Members},
		"WaitingForTurn":    {explain.Turn},
		"InvalidQueue":      {explain.NoQueue, explain.InnerQueue},
		"QueueForbidden":    {explain.QueueForbidden},
		"QueueClosed":       {explain.QueueClosed},
		"StartFailed":       {explain.BackOff},
		"Rejected":          {explain.Rejected},
		"Invalid":           {explain.Invalid},
	}
	for c := explain.Code(1); c < explain.Codes; c++ {
		want := ""
		for word, codes := range words {
			if slices.Contains(codes, c) {
				want = word
			}
		}
		if got := c.Condition(); got != want {
			t.Errorf("%s: the condition's reason is %q, want %q: list it here", c, got, want)
		}
	}
	for need, want := range map[int]string{1: "Unschedulable", 2: "Rejected"} {
		if got := (&explain.Reason{Code: explain.Rejected, Need: need}).Condition(); got != want {
			t.Errorf("rejected, of %d: %s, want %s", need, got, want)
		}
	}
}

// TestEveryCodeIsGiven: a code that no package gives to a node or gang is not a reason.
func TestEveryCodeIsGiven(t *testing.T) {
	var given strings.Builder
	for _, folder := range []string{"core", "internal"} {
		err := filepath.WalkDir(filepath.Join("..", "..", folder), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			given.Write(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	named := regexp.MustCompile(`\bexplain\.\w+`).FindAllString(given.String(), -1)
	for c := explain.Code(1); c < explain.Codes; c++ {
		if !slices.Contains(named, "explain."+c.String()) {
			t.Errorf("%s: no package outside of explain names it", c)
		}
	}
}
