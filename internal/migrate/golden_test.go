package migrate

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write testdata/all/*.out anew")

// TestAll: every action, plugin, argument and field that the tables know, and mistakes of
// each kind, with all that is said about them. Each input is read as a device plugin of HAMi
// stays, and as the agent takes its place.
func TestAll(t *testing.T) {
	inputs, err := filepath.Glob(filepath.Join("testdata", "all", "*.yaml"))
	if err != nil || len(inputs) == 0 {
		t.Fatalf("%v, %v", inputs, err)
	}
	said := map[string]bool{}
	for _, input := range inputs {
		data, err := os.ReadFile(input)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		for _, serve := range []bool{false, true} {
			r := Translate([]Input{{Name: "f", Data: data}}, Options{Serve: serve})
			fmt.Fprintf(&b, "serve: %v\n", serve)
			for _, row := range r.Rows {
				said[row.From+string(row.Verdict)+row.Do] = true
				fmt.Fprintf(&b, "%s %d %s %s %q: %s | %s | %s\n", row.From, row.Line, row.Object, row.Field, row.Value, row.Verdict, row.Here, row.Do)
			}
			for _, p := range r.Problems {
				fmt.Fprintf(&b, "problem %s\n", p.Error())
			}
			for _, s := range r.Skipped {
				fmt.Fprintf(&b, "skipped %s\n", s)
			}
			x := &r.Result
			set, err := yaml.Marshal(map[string]any{"profiles": x.profiles, "args": x.args, "scores": x.scores, "values": x.values})
			if err != nil {
				t.Fatal(err)
			}
			queues, err := x.Queues()
			fmt.Fprintf(&b, "%s%s%v\n", set, queues, err)
		}
		golden := strings.TrimSuffix(input, ".yaml") + ".out"
		if *update {
			if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if have := b.String(); have != string(want) {
			t.Errorf("%s is not what %s says; -update writes it:\n%s", input, golden, changed(string(want), have))
		}
	}
	for system, rules := range tables {
		for _, r := range rules {
			if !said[system+string(r.verdict)+r.do] {
				t.Errorf("no input of testdata/all tries the rule %s %s %q", system, r.path, r.when)
			}
			if (r.verdict == None || r.verdict == Differs) && r.do == "" {
				t.Errorf("%s %s %q: %s, and nothing says what to do", system, r.path, r.when, r.verdict)
			}
		}
	}
}

// changed lists the lines that only one of two texts has.
func changed(want, have string) string {
	var out []string
	only := func(sign, a, b string) {
		in := map[string]bool{}
		for _, l := range strings.Split(b, "\n") {
			in[l] = true
		}
		for _, l := range strings.Split(a, "\n") {
			if !in[l] {
				out = append(out, sign+l)
			}
		}
	}
	only("- ", want, have)
	only("+ ", have, want)
	return strings.Join(out, "\n")
}
