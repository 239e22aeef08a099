package record

import (
	"slices"
	"strconv"
	"strings"
)

// scanner reads JSON tokens from s. encoding/json is not used because it accepts what a record
// must refuse (repeated keys, keys in the wrong case, null, broken UTF-8) and cannot say which
// field is wrong. It is also four times slower before any of that is checked, and a scheduler
// decodes every pod of the cluster when it starts.
//
// The first problem is kept in err; after it nothing more is read.
type scanner struct {
	s   string
	pos int
	err error

	at    place  // the container and device being read
	field string // the member being read, empty between members
}

// object reads an object, calling value with the name of each member at its value. Every name
// may occur once; the first required ones must.
func (s *scanner) object(names []string, required int, value func(field string)) {
	var seen uint
	s.elements('{', '}', "object", func() {
		key := s.string()
		s.field = printable(key)
		i := slices.Index(names, key)
		switch {
		case i < 0:
			s.wrong("unknown field")
			return
		case seen&(1<<i) != 0:
			s.wrong("is given twice")
		}
		seen |= 1 << i
		s.want(':', "a colon")
		value(key)
	})
	for i, name := range names[:required] {
		if seen&(1<<i) == 0 && s.err == nil {
			s.field = name
			s.wrong("is missing")
		}
	}
}

// array reads an array, calling element for each, with its number in *at.
func (s *scanner) array(at *int, element func()) {
	field := s.field
	s.elements('[', ']', "array", func() {
		*at++
		element()
	})
	*at, s.field = -1, field
}

// elements reads an object or an array: what is between the brackets, with commas.
func (s *scanner) elements(open, end byte, what string, element func()) {
	switch {
	case !s.take(open):
		s.unexpected("an " + what)
		return
	case s.take(end):
		return
	}
	for more := true; more && s.err == nil; more = s.take(',') {
		s.field = ""
		element()
		s.field = ""
	}
	if !s.take(end) {
		s.unexpected("a comma or the end of the " + what)
	}
}

// string reads a string. Characters outside the alphabet of names are passed on as they are
// found, for validate to refuse by name; none of them can be part of a valid record.
func (s *scanner) string() string {
	s.want('"', "a string")
	var before strings.Builder // what is before start, if there are escapes
	for start := s.pos; s.err == nil; {
		switch {
		case s.pos >= len(s.s):
			s.unexpected("the end of the string")
		case s.s[s.pos] == '"':
			s.pos++
			if before.Len() == 0 {
				return s.s[start : s.pos-1]
			}
			return before.String() + s.s[start:s.pos-1]
		case s.s[s.pos] < ' ':
			s.unexpected("a string without control characters")
		case s.s[s.pos] == '\\':
			before.WriteString(s.s[start:s.pos])
			before.WriteByte(s.escape())
			start = s.pos
		default:
			s.pos++
		}
	}
	return ""
}

// escape reads \/ or \u00xx: only ASCII characters can be part of a name.
func (s *scanner) escape() byte {
	rest := s.s[s.pos+1:]
	if strings.HasPrefix(rest, "/") {
		s.pos += 2
		return '/'
	}
	if len(rest) >= 5 && rest[0] == 'u' {
		if v, err := strconv.ParseUint(rest[1:5], 16, 7); err == nil && isName(byte(v)) {
			s.pos += 6
			return byte(v)
		}
	}
	s.unexpected("an escape of a letter, digit or one of -_.:/")
	return 0
}

// maxDigits keeps integers inside an int on every machine.
const maxDigits = 9

// integer reads a whole number, spelled the one way JSON and Go agree on.
func (s *scanner) integer() int {
	s.space()
	start := s.pos
	for s.pos < len(s.s) && strings.IndexByte("+-.0123456789eE", s.s[s.pos]) >= 0 {
		s.pos++
	}
	token := s.s[start:s.pos]
	v, err := strconv.Atoi(token)
	switch {
	case token == "":
		s.unexpected("a whole number")
	case len(strings.TrimPrefix(token, "-")) > maxDigits:
		s.wrong("must be a whole number of at most %d digits, is %s", maxDigits, clip(token))
	case err != nil || token != strconv.Itoa(v):
		s.wrong("must be a whole number, is %s", token)
	}
	return v
}

// end makes sure that nothing follows.
func (s *scanner) end() {
	if s.space(); s.pos < len(s.s) {
		s.unexpected("nothing after the record")
	}
}

// want reads one character, after spaces.
func (s *scanner) want(c byte, what string) {
	if !s.take(c) {
		s.unexpected(what)
	}
}

// take reads one character, after spaces, if it is c.
func (s *scanner) take(c byte) bool {
	if s.space(); s.err != nil || s.pos >= len(s.s) || s.s[s.pos] != c {
		return false
	}
	s.pos++
	return true
}

func (s *scanner) space() {
	for s.pos < len(s.s) && strings.IndexByte(" \t\n\r", s.s[s.pos]) >= 0 {
		s.pos++
	}
}

// unexpected reports what stands at the current position in place of want.
func (s *scanner) unexpected(want string) {
	if s.pos >= len(s.s) {
		s.wrong("want %s, found the end of the text", want)
	} else {
		s.wrong("want %s, found %q at byte %d", want, s.s[s.pos:s.pos+1], s.pos)
	}
}

// wrong reports a problem with the field being read.
func (s *scanner) wrong(format string, args ...any) {
	if s.err == nil {
		s.err = problem(s.at, s.field, format, args...)
	}
}

// printable is a key as a path may show it: hostile ones are quoted and cut.
func printable(key string) string {
	for i := range len(key) {
		if !isName(key[i]) {
			return strconv.Quote(clip(key))
		}
	}
	if key == "" {
		return `""`
	}
	return clip(key)
}

// clip cuts what an error quotes: events and logs carry it.
func clip(s string) string {
	const limit = 40
	if len(s) > limit {
		return s[:limit] + "..."
	}
	return s
}
