package dialect

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/model"
)

var update = flag.Bool("update", false, "write what follows from the table into the files that TestPlaces compares")

// derived is a part of a file that follows from the table: what stands between two lines.
type derived struct {
	file, begin, end string // without end: to the end of the file
	text             func() string
}

// places are all of them. What the chart has of config is copied with it.
var places = []derived{
	{"config/extender.yaml", "  managedResources:\n", "", managedResources},
	{"config/tenants/policies.yaml", "  # From the table of internal/dialect: go test ./internal/dialect -run Places -update\n", "  # End of what follows from the table.\n", policyVariables},
	{"docs/guides/words.md", "|---|---|---|---|\n", "\n\n", wordTable},
}

var copies = map[string]string{"config/tenants/policies.yaml": "charts/gpu-scheduler/files/tenants/policies.yaml"}

// TestPlaces: files that repeat words say what the table says. A file that does not is
// named, with what is missing; -update writes it.
func TestPlaces(t *testing.T) {
	root := filepath.Join("..", "..")
	for _, p := range places {
		name := filepath.Join(root, p.file)
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		before, rest, ok := strings.Cut(string(data), p.begin)
		have, after := rest, ""
		if ok && p.end != "" {
			have, after, ok = strings.Cut(rest, p.end)
		}
		if !ok {
			t.Fatalf("%s: no line %q", p.file, p.begin)
		}
		want := p.text()
		if have != want && !*update {
			t.Errorf("%s does not follow from the table of internal/dialect: run go test ./internal/dialect -run Places -update\n%s", p.file, difference(have, want))
		}
		whole := before + p.begin + want + p.end + after
		for _, file := range []string{p.file, copies[p.file]} {
			if file == "" {
				continue
			}
			at := filepath.Join(root, file)
			if *update {
				if err := os.WriteFile(at, []byte(whole), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if copied, err := os.ReadFile(at); err != nil || string(copied) != string(data) {
				t.Errorf("%s differs from %s: run make generate", file, p.file)
			}
		}
	}
}

// difference lists the lines of two texts that the other does not have.
func difference(have, want string) string {
	var out []string
	a, b := strings.Split(have, "\n"), strings.Split(want, "\n")
	for _, l := range b {
		if !slices.Contains(a, l) {
			out = append(out, "missing: "+l)
		}
	}
	for _, l := range a {
		if !slices.Contains(b, l) {
			out = append(out, "too much: "+l)
		}
	}
	return strings.Join(out, "\n")
}

// managedResources are the resources about which a stock kube-scheduler asks gpu-extender.
func managedResources() string {
	var b strings.Builder
	b.WriteString("  # From the table of internal/dialect: go test ./internal/dialect -run Places -update\n")
	for _, x := range []struct {
		source        Source
		comment, form string
	}{
		{Plugin, "Published by device plugins: the scheduler counts them too.", "  - name: %s\n"},
		{Tangram, "Amounts that no node need publish: only the extender counts them.", "  - {name: %s, ignoredByScheduler: true}\n"},
	} {
		fmt.Fprintf(&b, "  # %s\n", x.comment)
		for _, w := range DeviceResources() {
			if w.Source == x.source {
				fmt.Fprintf(&b, x.form, w.Name)
			}
		}
	}
	return b.String()
}

// policyVariables are the variables of the policy of pods that name words for devices.
func policyVariables() string {
	var domains, asks, parts []string
	for _, d := range DeviceDomains() {
		domains = append(domains, strings.ReplaceAll(d, ".", "[.]"))
	}
	for _, f := range deviceFamilies {
		for _, w := range f.words {
			if w.Kind != Annotation || w.Counts == "" {
				continue
			}
			if parts = append(parts, "'"+w.Name+"'"); w.Counts == Memory || w.Counts == Cards {
				asks = append(asks, "'"+w.Name+"' in variables.annotations")
			}
		}
	}
	return `  - name: devices
    expression: >-
      (object.spec.containers + object.spec.?initContainers.orValue([])).exists(c,
      c.?resources.?limits.orValue({}).exists(r, string(c.resources.limits[r]) != '0' &&
      r.matches('^(` + strings.Join(domains, "|") + `)/'))) ||
      ` + strings.Join(asks, " || ") + `
  # What annotations ask for is fixed once the pod is bound.
  - name: parts
    expression: >-
      variables.created || oldObject.spec.?nodeName.orValue('') == '' ? [] :
      [` + strings.Join(parts, ", ") + `].filter(k,
      variables.annotations[?k].orValue('') != variables.oldAnnotations[?k].orValue(''))
  # What the scheduler, the agent and device plugins write: the record, the charged queue,
  # and the words of other systems' device plugins.
  - name: record
    expression: >-
      '^(` + strings.Join(recordPatterns(), "'\n      + '|") + `)$'
`
}

// recordPatterns are expressions for the annotations that are written with a Binding, one for
// each domain.
func recordPatterns() []string {
	type group struct {
		domain string
		words  []string
	}
	groups := []group{{domain: names.Group, words: []string{
		strings.TrimPrefix(names.AnnotationDevices, names.Group+"/"), strings.TrimPrefix(names.AnnotationCharged, names.Group+"/")}}}
	for _, w := range Words() {
		if w.Source != Binding {
			continue
		}
		domain, word, ok := strings.Cut(w.Name, "/")
		if !ok {
			domain, word = "", w.Name
		}
		at := slices.IndexFunc(groups, func(g group) bool { return g.domain == domain })
		if at < 0 {
			at = len(groups)
			groups = append(groups, group{domain: domain})
		}
		groups[at].words = append(groups[at].words, word)
	}
	quoted := func(word string) string {
		return strings.ReplaceAll(strings.ReplaceAll(word, ".", "[.]"), "*", ".*")
	}
	var out []string
	for _, g := range groups {
		var list []string
		for _, word := range g.words {
			covered := func(o string) bool { p := Word{Name: o}; return o != word && p.Matches(word) }
			if !slices.ContainsFunc(g.words, covered) {
				list = append(list, quoted(word))
			}
		}
		if text := strings.Join(list, "|"); g.domain == "" {
			out = append(out, text)
		} else {
			out = append(out, quoted(g.domain)+"/("+text+")")
		}
	}
	return out
}

// TestGuide: the guide's table about devices names every word by which pods ask for them:
// whole, or without its domain in a row that names another of the domain.
func TestGuide(t *testing.T) {
	const file = "docs/guides/words.md"
	data, err := os.ReadFile(filepath.Join("..", "..", file))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(data), "| you write |")
	table, _, _ := strings.Cut(rest, "\n\n")
	names := func(row string, w Word) bool {
		domain, short, qualified := strings.Cut(w.Name, "/")
		begin, end, pattern := strings.Cut(short, "*")
		switch {
		case !qualified:
			return strings.Contains(row, "`"+w.Name+"`")
		case pattern:
			return strings.Contains(row, "`"+domain+"/"+begin) && strings.Contains(row, end+"`")
		}
		return strings.Contains(row, "`"+w.Name+"`") || strings.Contains(row, "`"+domain+"/") && strings.Contains(row, "`"+short+"`")
	}
	for _, f := range deviceFamilies {
		for _, w := range f.words {
			if w.Counts != "" && w.Counts != Holder && !slices.ContainsFunc(strings.Split(table, "\n"), func(row string) bool { return names(row, w) }) {
				t.Errorf("%s: the table of what you write does not name %s, a word of %s", file, w.Name, f.name)
			}
		}
	}
}

// wordTable is every word of the table.
func wordTable() string {
	var rows []string
	for _, f := range families {
		cell := func(effects ...Effect) string {
			var kinds []string
			for _, kind := range []WordKind{Resource, Label, Annotation} {
				var list []string
				for _, w := range f.words {
					if w.Kind == kind && slices.Contains(effects, w.Effect) {
						list = append(list, "`"+w.Name+"`")
					}
				}
				if len(list) > 0 {
					kinds = append(kinds, string(kind)+" "+strings.Join(list, ", "))
				}
			}
			return strings.Join(kinds, "; ")
		}
		rows = append(rows, fmt.Sprintf("| %s | %s | %s | %s |", f.name, cell(Reads), cell(Writes), cell(Refuses, Ignores)))
	}
	return strings.Join(rows, "\n")
}

// TestTable: every row says all that others need of it.
func TestTable(t *testing.T) {
	all := map[string]bool{}
	for _, f := range families {
		if all[f.name] {
			t.Errorf("%s is there twice", f.name)
		}
		all[f.name] = true
		for _, w := range f.words {
			if _, _, qualified := strings.Cut(w.Name, "/"); qualified && f.system != "" && SystemOf(w.Kind, w.Name) != f.system {
				t.Errorf("%s: SystemOf(%s) is %q, not %q", f.name, w.Name, SystemOf(w.Kind, w.Name), f.system)
			}
			if (w.Effect == Refuses || w.Effect == Ignores) != (w.Note != "") {
				t.Errorf("%s %s: effect %s, note %q", w.Kind, w.Name, w.Effect, w.Note)
			}
		}
	}
	for name := range behaviours {
		if !slices.ContainsFunc(deviceFamilies, func(f family) bool { return f.name == name }) {
			t.Errorf("behaviours has %q, which no row of deviceFamilies is called", name)
		}
	}
	for _, f := range deviceFamilies {
		if f.system == "" || !slices.Contains(model.Vendors[:], f.vendor) {
			t.Errorf("%s: system %q, vendor %q: one is missing, or the vendor is not in model.Vendors", f.name, f.system, f.vendor)
		}
		for _, w := range f.words {
			domain, _, _ := strings.Cut(w.Name, "/")
			switch {
			case w.Kind != Resource:
			case w.Source == "" || w.Effect == Reads && w.Counts == "":
				t.Errorf("%s: %s: its source or what it counts is missing: use sold, plugin, here or onNodes", f.name, w.Name)
			case SystemOf(Resource, domain+"/gpu-misspelt") == "":
				t.Errorf("%s: no domains cover %s: tangram migrate check would not see a misspelt word", f.name, w.Name)
			case strings.Contains(w.Name, "*") && f.spelt == nil:
				t.Errorf("%s: %s is a pattern, and spelt does not say which names it stands for: kube-scheduler and gpu-extender are told names", f.name, w.Name)
			}
		}
		if _, special := behaviours[f.name]; !special && slices.ContainsFunc(f.words, func(w Word) bool {
			return w.Kind == Resource && w.Effect == Reads && asksAlone[w.Counts] == 0
		}) {
			t.Errorf("%s: words that do not ask by themselves (Devices, Turns, MiB) need a read function in behaviours", f.name)
		}
	}
}

// TestVendors: a GPUNode may describe devices of every vendor.
func TestVendors(t *testing.T) {
	const file = "config/crd/tangram.dev_gpunodes.yaml"
	data, err := os.ReadFile(filepath.Join("..", "..", file))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(data), "vendor:\n")
	enum, _, ok := strings.Cut(rest, "type: string")
	for _, v := range model.Vendors {
		if !ok || !strings.Contains(enum, "- "+string(v)+"\n") {
			t.Errorf("%s: vendor %s is not in its enum: change api/v1alpha1/gpunode.go and run make generate", file, v)
		}
		if !slices.ContainsFunc(deviceFamilies, func(f family) bool { return f.vendor == v }) {
			t.Errorf("no row of deviceFamilies is about vendor %s", v)
		}
	}
}

// TestRights: every word that needs a right is read by the policy of pods, and counts as the
// table says.
func TestRights(t *testing.T) {
	const file = "config/tenants/policies.yaml"
	data, err := os.ReadFile(filepath.Join("..", "..", file))
	if err != nil {
		t.Fatal(err)
	}
	policy, _, _ := strings.Cut(string(data), "\n  validations:")
	seen := map[Right]int{}
	for _, w := range Words() {
		if w.Right == "" {
			continue
		}
		seen[w.Right]++
		if !regexp.MustCompile(`'` + regexp.QuoteMeta(w.Name) + `'`).MatchString(policy) {
			t.Errorf("%s: the variables of the policy of pods do not look at %s %s, which needs a right (%s)", file, w.Kind, w.Name, w.Right)
		}
		if w.Right != QueueRight {
			continue
		}
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{}, Annotations: map[string]string{}}, Spec: v1.PodSpec{SchedulerName: names.KAISchedulerName}}
		map[WordKind]map[string]string{Label: pod.Labels, Annotation: pod.Annotations}[w.Kind][w.Name] = "q"
		if NamedQueue(pod) != "q" {
			t.Errorf("NamedQueue does not read %s %s", w.Kind, w.Name)
		}
	}
	if seen[QueueRight] < 7 || seen[ExemptionRight] < 4 || seen[UserRight] < 1 || seen[PriorityRight] < 1 {
		t.Errorf("words with rights: %v", seen)
	}
}
