package scenario

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/api/resource"
)

// line is one line of a step's input: names, then fields.
//
//	train-[0-2] gpus=4 model="NVIDIA A10" label=a=b label=c=d
//
// Fields are read by key; the first mistake is kept in err, and done reports it
// or a field that was not read.
type line struct {
	names  []string
	fields []field
	read   map[string]bool
	err    error
}

// field is one key=value; keys may come more than once, and their order counts
// where the reader says so.
type field struct{ key, value string }

// restOfLine is the key whose value is the rest of the line, as it is: records
// are full of quotes and spaces.
const restOfLine = "record"

// parseLine splits a line. A value in double quotes may hold spaces.
func parseLine(text string) (*line, error) {
	words, err := split(text)
	if err != nil {
		return nil, err
	}
	names, err := expand(words[0])
	if err != nil {
		return nil, err
	}
	l := &line{names: names, read: map[string]bool{}}
	for _, w := range words[1:] {
		key, value, ok := strings.Cut(w, "=")
		if !ok || key == "" {
			return nil, fmt.Errorf("%q is not key=value", w)
		}
		l.fields = append(l.fields, field{key, value})
	}
	return l, nil
}

// split cuts a line at spaces outside double quotes, and drops the quotes.
func split(text string) ([]string, error) {
	var words []string
	for text = strings.TrimSpace(text); text != ""; text = strings.TrimLeftFunc(text, unicode.IsSpace) {
		if strings.HasPrefix(text, restOfLine+"=") {
			return append(words, text), nil
		}
		var word strings.Builder
		quoted := false
		end := strings.IndexFunc(text, func(r rune) bool {
			if r == '"' {
				quoted = !quoted
				return false
			}
			if unicode.IsSpace(r) && !quoted {
				return true
			}
			word.WriteRune(r)
			return false
		})
		if quoted {
			return nil, fmt.Errorf("a quote is not closed: %s", text)
		}
		words = append(words, word.String())
		if end < 0 {
			break
		}
		text = text[end:]
	}
	return words, nil
}

var rangePattern = regexp.MustCompile(`^(.*)\[(\d+)-(\d+)\](.*)$`)

// expand turns a-[0-2] into a-0, a-1, a-2.
func expand(word string) ([]string, error) {
	m := rangePattern.FindStringSubmatch(word)
	if m == nil {
		return []string{word}, nil
	}
	from, errFrom := strconv.Atoi(m[2])
	to, errTo := strconv.Atoi(m[3])
	if errFrom != nil || errTo != nil || from > to || to-from > 99 {
		return nil, fmt.Errorf("%q is not a range like a-[0-2]", word)
	}
	var names []string
	for i := from; i <= to; i++ {
		names = append(names, m[1]+strconv.Itoa(i)+m[4])
	}
	return names, nil
}

// all returns the values of a key, in order.
func (l *line) all(key string) []string {
	l.read[key] = true
	var out []string
	for _, f := range l.fields {
		if f.key == key {
			out = append(out, f.value)
		}
	}
	return out
}

// text returns the value of a key that may come once.
func (l *line) text(key, otherwise string) string {
	switch values := l.all(key); len(values) {
	case 0:
		return otherwise
	case 1:
		return values[0]
	default:
		l.fail("%s: given %d times", key, len(values))
		return otherwise
	}
}

// number returns the value of a key as a whole number.
func (l *line) number(key string, otherwise int) int {
	value := l.text(key, strconv.Itoa(otherwise))
	n, err := strconv.Atoi(value)
	if err != nil || n < 0 {
		l.fail("%s: %q is not a number", key, value)
	}
	return n
}

// yes returns the value of a key that is yes or no.
func (l *line) yes(key string, otherwise bool) bool {
	switch value := l.text(key, ""); value {
	case "":
		return otherwise
	case "yes":
		return true
	case "no":
		return false
	default:
		l.fail("%s: %q is neither yes nor no", key, value)
		return otherwise
	}
}

// pairs returns the values of a key that are key=value themselves.
func (l *line) pairs(key string) map[string]string {
	out := map[string]string{}
	for _, value := range l.all(key) {
		k, v, ok := strings.Cut(value, "=")
		if !ok {
			l.fail("%s: %q is not key=value", key, value)
		}
		out[k] = v
	}
	return out
}

// quantity parses an amount, naming the field it comes from.
func (l *line) quantity(key, value string) resource.Quantity {
	q, err := resource.ParseQuantity(value)
	if err != nil {
		l.fail("%s: %q is not an amount", key, value)
	}
	return q
}

// fail keeps the first mistake.
func (l *line) fail(format string, args ...any) {
	if l.err == nil {
		l.err = fmt.Errorf(format, args...)
	}
}

// done reports the first mistake, or the first field that was not read.
func (l *line) done() error {
	if l.err != nil {
		return l.err
	}
	i := slices.IndexFunc(l.fields, func(f field) bool { return !l.read[f.key] })
	if i >= 0 {
		return fmt.Errorf("%s: no such field here", l.fields[i].key)
	}
	return nil
}
