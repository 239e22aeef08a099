package record

import (
	"slices"
	"strconv"
	"strings"
)

// scanner reads JSON tokens from s. encoding/json is not used because it
// accepts what a record must refuse (repeated keys, keys in the wrong case,
// null, broken UTF-8) and cannot say which field is wrong. It is also four times
// slower before any of that is checked, and a scheduler decodes every pod of the
// cluster when it starts.
type scanner struct {
	s   string
	pos int

	at    place  // the container and device being read
	field string // the member being read, empty between members
}

// object reads an object, calling value with the number of each member's name
// in f.names. Every name may occur once.
func (s *scanner) object(f fields, value func(field int) error) error {
	if err := s.want('{', "an object"); err != nil {
		return err
	}
	var seen uint
	for more := !s.take('}'); more; {
		s.field = ""
		key, err := s.string()
		if err != nil {
			return err
		}
		s.field = printable(key)
		i := slices.Index(f.names, key)
		if i < 0 {
			return s.wrong("unknown field")
		}
		if seen&(1<<i) != 0 {
			return s.wrong("is given twice")
		}
		seen |= 1 << i
		if err := s.want(':', "a colon"); err != nil {
			return err
		}
		if err := value(i); err != nil {
			return err
		}
		s.field = ""
		if more = s.take(','); !more {
			if err := s.want('}', "a comma or the end of the object"); err != nil {
				return err
			}
		}
	}
	for i, name := range f.names[:f.required] {
		if seen&(1<<i) == 0 {
			s.field = name
			return s.wrong("is missing")
		}
	}
	return nil
}

// array reads an array, calling element for each, with its number in *at.
func (s *scanner) array(at *int, element func() error) error {
	if err := s.want('[', "an array"); err != nil {
		return err
	}
	field := s.field
	for more := !s.take(']'); more; {
		*at++
		s.field = ""
		if err := element(); err != nil {
			return err
		}
		if more = s.take(','); !more {
			if err := s.want(']', "a comma or the end of the array"); err != nil {
				return err
			}
		}
	}
	*at, s.field = -1, field
	return nil
}

// string reads a string. Characters outside the alphabet of names are passed
// on as they are found, for validate to refuse by name; none of them can be
// part of a valid record.
func (s *scanner) string() (string, error) {
	if err := s.want('"', "a string"); err != nil {
		return "", err
	}
	start := s.pos
	for ; s.pos < len(s.s); s.pos++ {
		switch c := s.s[s.pos]; {
		case c == '"':
			s.pos++
			return s.s[start : s.pos-1], nil
		case c == '\\':
			return s.escaped(start)
		case c < ' ':
			return "", s.unexpected("a string without control characters")
		}
	}
	return "", s.unexpected("the end of the string")
}

// escaped reads on at the first escape of the string that begins at start.
// Only escapes of ASCII characters are read: no other can be part of a name.
func (s *scanner) escaped(start int) (string, error) {
	var b strings.Builder
	b.WriteString(s.s[start:s.pos])
	for s.pos < len(s.s) {
		c := s.s[s.pos]
		switch {
		case c == '"':
			s.pos++
			return b.String(), nil
		case c < ' ':
			return "", s.unexpected("a string without control characters")
		case c == '\\':
			var ok bool
			if c, ok = s.escape(); !ok {
				return "", s.unexpected("an escape of a letter, digit or one of -_.:/")
			}
			b.WriteByte(c)
		default:
			s.pos++
			b.WriteByte(c)
		}
	}
	return "", s.unexpected("the end of the string")
}

// escape reads \/ or \u00xx. On failure it stays where it is.
func (s *scanner) escape() (byte, bool) {
	rest := s.s[s.pos+1:]
	if strings.HasPrefix(rest, "/") {
		s.pos += 2
		return '/', true
	}
	if len(rest) < 5 || rest[0] != 'u' {
		return 0, false
	}
	v, err := strconv.ParseUint(rest[1:5], 16, 16)
	if err != nil || v > 0x7f || !isName(byte(v)) {
		return 0, false
	}
	s.pos += 6
	return byte(v), true
}

// maxDigits keeps integers inside an int on every machine.
const maxDigits = 9

// integer reads a whole number, spelled the one way JSON and Go agree on.
func (s *scanner) integer() (int, error) {
	s.space()
	start := s.pos
	for s.pos < len(s.s) && strings.IndexByte("+-.0123456789eE", s.s[s.pos]) >= 0 {
		s.pos++
	}
	token := s.s[start:s.pos]
	if token == "" {
		return 0, s.unexpected("a whole number")
	}
	digits := strings.TrimPrefix(token, "-")
	if len(digits) > maxDigits {
		return 0, s.wrong("must be a whole number of at most %d digits, is %s", maxDigits, clip(token))
	}
	v, err := strconv.Atoi(token)
	if err != nil || token != strconv.Itoa(v) {
		return 0, s.wrong("must be a whole number, is %s", token)
	}
	return v, nil
}

// end makes sure that nothing follows.
func (s *scanner) end() error {
	s.space()
	if s.pos < len(s.s) {
		return s.unexpected("nothing after the record")
	}
	return nil
}

// want reads one character, after spaces.
func (s *scanner) want(c byte, what string) error {
	if !s.take(c) {
		return s.unexpected(what)
	}
	return nil
}

// take reads one character, after spaces, if it is c.
func (s *scanner) take(c byte) bool {
	s.space()
	if s.pos < len(s.s) && s.s[s.pos] == c {
		s.pos++
		return true
	}
	return false
}

func (s *scanner) space() {
	for s.pos < len(s.s) {
		switch s.s[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return
		}
	}
}

// unexpected reports what stands at the current position in place of want.
func (s *scanner) unexpected(want string) error {
	if s.pos >= len(s.s) {
		return s.wrong("want %s, found the end of the text", want)
	}
	return s.wrong("want %s, found %q at byte %d", want, s.s[s.pos:s.pos+1], s.pos)
}

// wrong reports a problem with the field being read.
func (s *scanner) wrong(format string, args ...any) error {
	return problem(s.at, s.field, format, args...)
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
