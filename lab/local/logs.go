package local

import (
	"bytes"
	"io"
	"os"
	"strings"
)

// LastLines returns the last n lines of a file, indented, for an error message.
// A file that cannot be read gives an empty text: the message it would go into
// already tells of a worse problem.
func LastLines(path string, n int) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	const enough = 16 << 10 // of the end of the file; log lines are long
	if end, err := f.Seek(0, io.SeekEnd); err != nil {
		return ""
	} else if _, err := f.Seek(max(0, end-enough), io.SeekStart); err != nil {
		return ""
	}
	data, err := io.ReadAll(f)
	if err != nil {
		return ""
	}
	lines := strings.Split(string(bytes.TrimSpace(data)), "\n")
	lines = lines[max(0, len(lines)-n):]
	for i, line := range lines {
		const width = 400 // some components log whole objects
		if len(line) > width {
			lines[i] = line[:width] + " ..."
		}
	}
	return "\t" + strings.Join(lines, "\n\t")
}
