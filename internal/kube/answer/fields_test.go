package answer

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	apiquery "github.com/tangram-dev/tangram/api/query"
)

// TestDeviceFields: every field of a device in api/query is set by this package.
func TestDeviceFields(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		code.Write(text)
	}
	for f := range reflect.TypeFor[apiquery.Device]().Fields() {
		if !regexp.MustCompile(`\bout\.` + f.Name + `\b|\b` + f.Name + `: `).MatchString(code.String()) {
			t.Errorf("api/query's Device.%s is not set by internal/kube/answer (nodes.go)", f.Name)
		}
	}
}
