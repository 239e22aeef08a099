package migrate

import (
	"strings"

	"github.com/tangram-dev/tangram/internal/dialect"
	"github.com/tangram-dev/tangram/internal/strictyaml"
)

// nearWord suggests the known word that is closest to a name.
func nearWord(kind dialect.WordKind, name string) string {
	var list []string
	for _, w := range dialect.Words() {
		if w.Kind == kind && !strings.Contains(w.Name, "*") && w.Effect == dialect.Reads {
			list = append(list, w.Name)
		}
	}
	return nearest(list, name)
}

// nearest suggests the closest of several names, if one is close.
func nearest(list []string, name string) string {
	best, least := "", 4 // a distance above 3 is another word
	for _, other := range list {
		if d := strictyaml.Distance(other, name); d < least {
			best, least = other, d
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean " + best + "?"
}
