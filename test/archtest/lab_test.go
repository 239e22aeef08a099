package archtest

import (
	"strings"
	"testing"
)

// A reader of the product does not meet the laboratory: no row lets it be imported.
func TestProductWithoutLab(t *testing.T) {
	for _, r := range Table() {
		top, _, _ := strings.Cut(r.Folder, "/")
		if top != "core" && top != "api" && top != "internal" {
			continue
		}
		for _, may := range append(r.May, r.Tests...) {
			if strings.HasPrefix(may, "./lab") {
				t.Errorf("%s may import %s", r.Folder, may)
			}
		}
	}
}
