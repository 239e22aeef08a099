package migrate

// Verdict is how a setting of another system compares.
type Verdict string

// The verdicts.
const (
	// Set: it has a counterpart, which is in the resulting configuration.
	Set Verdict = "set"
	// Always: Tangram does so without a setting, or reads the same words; nothing to do.
	Always Verdict = "always"
	// Differs: there is something like it, with a difference to know or something to do.
	Differs Verdict = "differs"
	// None: no counterpart; the row says what to do.
	None Verdict = "no counterpart"
)

// Row is one action, plugin, argument or field of the other system.
type Row struct {
	From    string  `json:"from"` // volcano, kai, hami, kueue
	File    string  `json:"file"`
	Line    int     `json:"line,omitempty"`
	Object  string  `json:"object,omitempty"` // kind/name; empty for plain configurations
	Field   string  `json:"field"`
	Value   string  `json:"value,omitempty"`
	Verdict Verdict `json:"verdict"`
	// Here is the counterpart: a field of the configuration, of the chart or of a Queue.
	Here string `json:"counterpart,omitempty"`
	// Do is what to do, or what is different.
	Do string `json:"do,omitempty"`
}

// Report is the comparison of all inputs.
type Report struct {
	Rows     []Row     `json:"rows"`
	Problems []Problem `json:"problems,omitempty"`
	// Skipped are documents that are no configuration.
	Skipped []string `json:"skipped,omitempty"`

	// Result is what the rows with the verdict Set amount to.
	Result Result `json:"-"`
}

// Count is how many rows have a verdict.
func (r *Report) Count(v Verdict) (n int) {
	for _, row := range r.Rows {
		if row.Verdict == v {
			n++
		}
	}
	return n
}

// answer is what a table says of a setting.
type answer struct {
	verdict  Verdict
	here, do string
}

// builder collects rows of one system.
type builder struct {
	*Report
	from string
	// serve: the agent takes the place of another device plugin.
	serve bool
}

// row adds a row.
func (b *builder) row(p at, a answer) {
	b.Rows = append(b.Rows, Row{From: b.from, File: p.File(), Line: p.Line(), Object: p.Part, Field: p.field, Value: p.value, Verdict: a.verdict, Here: a.here, Do: a.do})
}

func (b *builder) problem(p Problem) { b.Problems = append(b.Problems, p) }

// unknown is a setting that no table knows.
func (b *builder) unknown(n node, what string) {
	b.problem(n.Problem("%s; --help says which systems and versions are known", what))
}
