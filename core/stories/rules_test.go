package stories

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tangram-dev/tangram/core/arbiter"
	"github.com/tangram-dev/tangram/core/score"
)

// shownElsewhere marks rules that are not core's.
const shownElsewhere = "adapter"

// TestRules: every rule of rules.txt is named in the comments of a story, or says where else
// it is shown; and stories name no other rules.
func TestRules(t *testing.T) {
	list, err := os.ReadFile("rules.txt")
	if err != nil {
		t.Fatal(err)
	}
	named := namedRules(t)
	known := map[string]bool{}
	for line := range strings.Lines(string(list)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if len(cells) < 3 {
			t.Errorf("%q is not ID | page | rule | where", line)
			continue
		}
		id := cells[0]
		if known[id] {
			t.Errorf("%s is there twice", id)
		}
		known[id] = true
		page, _, _ := strings.Cut(cells[1], "#")
		checkFile(t, id, "docs/concepts/"+page+".md")
		switch {
		case len(cells) == 3 && len(named[id]) == 0:
			t.Errorf("%s: no story shows: %s", id, cells[2])
		case len(cells) == 4 && cells[3] != shownElsewhere:
			checkFile(t, id, cells[3])
		}
	}
	for id, files := range named {
		if !known[id] {
			t.Errorf("%v: there is no rule %s", files, id)
		}
	}
}

// TestRowsHaveStories: what one row of a table adds to what people may ask for is shown by a
// story: every order of a queue, every objective of placement. Those of protections from
// preemption are asked for by core/preempt.
func TestRowsHaveStories(t *testing.T) {
	files, _ := filepath.Glob("testdata/*.txt")
	var all strings.Builder
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	need := func(form, why string) {
		if !strings.Contains(all.String(), form) {
			t.Errorf("no story of core/stories/testdata has %q: show %s, and name its rule in rules.txt", form, why)
		}
	}
	for _, p := range arbiter.Policies() {
		need(" order="+p.String()+"\n", "the order of jobs "+p.String())
	}
	for _, o := range score.Objectives() {
		need("options weights=("+o.String()+":", "the objective "+o.String())
	}
}

// checkFile fails unless a file of the repository is there.
func checkFile(t *testing.T, id, path string) {
	if _, err := os.Stat(filepath.Join("../..", path)); err != nil {
		t.Errorf("%s: %v", id, err)
	}
}

// namedRules are the files of testdata by the rules that their comments name before a colon:
// "# G1 G2: all of the minimum".
func namedRules(t *testing.T) map[string][]string {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d stories, %v", len(files), err)
	}
	head := regexp.MustCompile(`(?m)^# ((?:[A-Z]\d+ ?)+):`)
	out := map[string][]string{}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		found := head.FindAllStringSubmatch(string(text), -1)
		if len(found) == 0 {
			t.Errorf("%s names no rule", path)
		}
		for _, m := range found {
			for _, id := range strings.Fields(m[1]) {
				if !slices.Contains(out[id], path) {
					out[id] = append(out[id], path)
				}
			}
		}
	}
	return out
}
