package record

import (
	"os"
	"strings"
	"testing"
)

// TestDocs decodes the examples of the format's description, so that the page
// cannot drift from the code.
func TestDocs(t *testing.T) {
	page, err := os.ReadFile("../../docs/formats/record.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(page), "```json\n")[1:]
	if len(blocks) == 0 {
		t.Fatal("the page has no examples")
	}
	for _, b := range blocks {
		example, _, _ := strings.Cut(b, "```")
		if _, err := Decode(example); err != nil {
			t.Errorf("%v in the example\n%s", err, example)
		}
	}
}
