package terminal

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Clean makes text of others safe to print on one line: control characters (escape
// sequences move the cursor, set titles, answer for the user), characters that change the
// direction or the place of text, invisible ones and bytes that are no UTF-8 are shown as
// Go would write them in a string: \x1b, \n, \u202e.
func Clean(s string) string {
	if !strings.ContainsFunc(s, isUnsafe) && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case isUnsafe(r) && r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		case isUnsafe(r) && r <= 0xffff:
			fmt.Fprintf(&b, `\u%04x`, r)
		case isUnsafe(r):
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			b.WriteString(s[i : i+size])
		}
		i += size
	}
	return b.String()
}

// isUnsafe: control (Cc), format (Cf: directions, zero widths), line and paragraph
// separators (Zl, Zp), surrogates and private use.
func isUnsafe(r rune) bool {
	return r < 0x20 || r == 0x7f || r > 0x7f && (unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Cs, unicode.Co))
}

// CleanLines is Clean for text of several lines, which stay lines.
func CleanLines(s string) string {
	lines := strings.Split(strings.ReplaceAll(s, "\r\n", "\n"), "\n")
	for i := range lines {
		lines[i] = Clean(strings.ReplaceAll(lines[i], "\t", "  "))
	}
	return strings.Join(lines, "\n")
}
