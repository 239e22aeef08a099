package config

import (
	"os"
	"strings"
	"testing"

	"github.com/tangram-dev/tangram/core/health"
)

// TestReference: the page names every flag, variable, field, cause and class.
func TestReference(t *testing.T) {
	text, err := os.ReadFile("../../../docs/reference/agent.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	want := func(word string) {
		if !strings.Contains(page, "`"+word+"`") {
			t.Errorf("docs/reference/agent.md does not name %s", word)
		}
	}
	for _, s := range settings(Default()) {
		want("--" + s.flag)
		for _, name := range s.env {
			want(name)
		}
		if s.field != "" {
			want("flags." + s.field)
		}
	}
	for _, c := range health.Codes() {
		want(string(c))
	}
	for _, c := range health.Classes() {
		want(string(c))
	}
}
