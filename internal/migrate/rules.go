package migrate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// rule is one row of a table: what a setting of another system is here.
type rule struct {
	// path names the setting: its parts, separated by slashes. | separates alternatives of a
	// part, * stands for any characters in it. Case does not matter.
	path string
	// when is the value that the rule is about, empty for any: words (binpack|spread), whole numbers
	// (2..48), true, false, bool, number, duration. A value that no rule is about is a problem.
	when    string
	verdict Verdict
	// here is the counterpart, in which * is the setting's own name. Of the verdict Set with =
	// it is also set, to what follows, in which $ is the value, or to the value itself:
	// GPUScore.placement=$. Several are separated by ;.
	here, do string
}

// tables are the rules of all systems.
var tables = map[string][]rule{"volcano": volcanoRules, "kai": kaiRules, "hami": hamiRules, "kueue": kueueRules}

// matches says whether a rule's path is about a setting.
func matches(pattern, path string) bool {
	parts := strings.Split(pattern, "/")
	have := strings.SplitN(path, "/", len(parts)) // the last part may be a key with slashes
	if len(have) < len(parts) {
		return false
	}
	for i, part := range parts {
		if !slices.ContainsFunc(strings.Split(part, "|"), func(word string) bool {
			begin, end, pattern := strings.Cut(word, "*")
			rest, ok := strings.CutPrefix(have[i], begin)
			return ok && strings.HasSuffix(rest, end) && (pattern || rest == "")
		}) {
			return false
		}
	}
	return true
}

// about are the rules of a system that are about a setting.
func about(system, path string) []rule {
	var out []rule
	for _, r := range tables[system] {
		if matches(strings.ToLower(r.path), strings.ToLower(path)) {
			out = append(out, r)
		}
	}
	return out
}

// fits says whether a rule is about a value, and reads it.
func fits(when, text string) (value any, ok bool) {
	text = strings.TrimSpace(text)
	low, high, isRange := strings.Cut(when, "..")
	flag, notBool := strconv.ParseBool(text)
	switch {
	case when == "":
		if n, err := strconv.Atoi(text); err == nil {
			return n, true
		}
		if notBool == nil {
			return flag, true
		}
		return text, true
	case isRange:
		n, err := strconv.Atoi(text)
		return n, err == nil && n >= atoi(low) && n <= atoi(high)
	case when == "true" || when == "false" || when == "bool":
		return flag, notBool == nil && (when == "bool" || flag == (when == "true"))
	case when == "number":
		x, err := strconv.ParseFloat(text, 64)
		return x, err == nil
	case when == "duration":
		d, err := time.ParseDuration(text)
		return d.String(), err == nil && d > 0
	}
	return text, slices.Contains(strings.Split(when, "|"), text)
}

func atoi(s string) int {
	n, _ := strconv.Atoi(s) // of a table
	return n
}

// wanted says what a value should be, from the rules of its setting.
func wanted(rules []rule) string {
	least, most, numbers := 0, 0, false
	var words []string
	for _, r := range rules {
		low, high, isRange := strings.Cut(r.when, "..")
		switch {
		case isRange && !numbers:
			least, most, numbers = atoi(low), atoi(high), true
		case isRange:
			least, most = min(least, atoi(low)), max(most, atoi(high))
		case r.when == "bool":
			words = append(words, "true", "false")
		case r.when == "duration":
			words = append(words, "a duration like 1h2m")
		case r.when == "number":
			return "a number"
		default:
			for word := range strings.SplitSeq(r.when, "|") {
				if !slices.Contains(words, word) {
					words = append(words, word)
				}
			}
		}
	}
	if numbers {
		return fmt.Sprintf("a whole number from %d to %d", least, most)
	}
	last := len(words) - 1
	return strings.TrimPrefix(strings.Join(words[:last], ", ")+" or "+words[last], " or ")
}

// at is where a row is.
type at struct {
	node
	field, value string
}

// of is the place of a value itself.
func of(n node) at { return at{n, n.Path, shown(n)} }

// judge adds the row of a setting and does what it says; false when no rule is about it.
func (b *builder) judge(path string, p at) bool {
	rules := about(b.from, path)
	for _, r := range rules {
		value, ok := fits(r.when, p.Text())
		if !p.IsScalar() {
			ok = r.when == ""
		}
		if ok {
			b.carryOut(path, p, r, value)
			return true
		}
	}
	if len(rules) > 0 {
		b.problem(p.Problem("%q is not %s", p.Text(), wanted(rules)))
	}
	return len(rules) > 0
}

// carryOut sets what a rule says and adds its rows.
func (b *builder) carryOut(path string, p at, r rule, value any) {
	key := path
	if parts := strings.SplitN(path, "/", 3); len(parts) == 3 {
		key = parts[2]
	}
	for here := range strings.SplitSeq(r.here, ";") {
		target, to, sets := here, "", false
		if r.verdict == Set {
			target, to, sets = strings.Cut(here, "=")
		}
		target = strings.Replace(target, "*", key, 1)
		a := answer{r.verdict, target, r.do}
		if to != "" {
			value = strings.ReplaceAll(to, "$", p.Text())
			a.here += ": " + value.(string)
		}
		switch {
		case sets && strings.HasPrefix(target, "agent.") && !b.serve:
			a.verdict, a.do = Differs, hamiStays
		case sets:
			b.assign(p.node, target, value)
		}
		b.row(p, a)
	}
}

// assign sets a counterpart; that an earlier input set it to another value is a problem.
func (b *builder) assign(n node, target string, value any) {
	r := &b.Result
	name, key, keyed := strings.Cut(strings.TrimSuffix(target, "]"), "[")
	path := strings.Split(name, ".")
	if keyed {
		path = append(path, key)
	}
	into := &r.args
	if path[0] == "agent" {
		into = &r.values
	}
	score, scores := strings.CutPrefix(target, "plugins.score: ")
	switch {
	case scores:
		r.score(score, value.(int))
	case target == "profiles[].schedulerName":
		r.profile(fmt.Sprint(value))
	case target == "agent.extraArgs":
		r.flag(value.(string))
	case !setAt(into, value, path...):
		b.problem(n.Problem("%s is set to another value by an earlier input", target))
	}
}

// walk judges every setting of a mapping: what a rule is about, and the leaves of everything
// else. other may take a setting over; what nothing is about is a problem, what says of what.
func (b *builder) walk(n node, path, what string, other func(path string, n node) bool) {
	each := func(path string, n node) {
		switch {
		case other != nil && other(path, n), b.judge(path, of(n)):
		case isLeaf(n):
			b.unknown(n, what)
		default:
			b.walk(n, path, what, other)
		}
	}
	for _, e := range n.Entries() {
		each(strings.TrimPrefix(path+"/"+e.Key, "/"), e.Node)
	}
	for _, i := range n.Items() {
		each(path+"/[]", i)
	}
}
