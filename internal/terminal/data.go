package terminal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"sigs.k8s.io/yaml"
)

// JSON writes an answer indented, with all fields and in their order. Characters that must
// not reach a terminal are written as JSON's escapes, which mean the same.
func (s *Screen) JSON(answer []byte) error {
	var b bytes.Buffer
	if err := json.Indent(&b, answer, "", "  "); err != nil {
		return fmt.Errorf("the answer is not JSON: %w", err)
	}
	s.raw(string(escapeJSON(bytes.TrimSpace(b.Bytes()))) + "\n")
	return s.err
}

// YAML writes an answer as YAML. YAML escapes control characters itself; what else must not
// reach a terminal is shown as its escape there, and left alone in a file.
func (s *Screen) YAML(answer []byte) error {
	out, err := yaml.JSONToYAML(answer)
	if err != nil {
		return fmt.Errorf("the answer is not JSON: %w", err)
	}
	if s.Terminal {
		out = []byte(CleanLines(string(out)))
	}
	s.raw(string(out))
	return s.err
}

// escapeJSON escapes unsafe characters of valid JSON; they can only be in strings.
func escapeJSON(in []byte) []byte {
	var out []byte
	for i := 0; i < len(in); {
		r, size := utf8.DecodeRune(in[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			out = append(out, `\ufffd`...) // as every reader of JSON takes it
		case r == '\n' || !isUnsafe(r):
			out = append(out, in[i:i+size]...)
		case r <= 0xffff:
			out = fmt.Appendf(out, `\u%04x`, r)
		default:
			r -= 0x10000
			out = fmt.Appendf(out, `\u%04x\u%04x`, 0xd800+(r>>10), 0xdc00+(r&0x3ff))
		}
		i += size
	}
	return out
}
