package query

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	apiquery "github.com/tangram-dev/tangram/api/query"
)

// usageSource notes what it was asked.
type usageSource struct {
	Source
	by  []string
	may func(string) bool
}

func (s *usageSource) Usage(by []string, visible func([]string) func(string) bool) apiquery.Usage {
	s.by, s.may = by, visible([]string{"mine", "other"})
	return apiquery.Usage{}
}

type namespaceCaller struct{ Caller }

func (namespaceCaller) MayListPods(namespace string) bool { return namespace == "mine" }

// Columns are checked and brought into one order; rights are the caller's.
func TestUsage(t *testing.T) {
	for _, tt := range []struct {
		by, want, wrong string
	}{
		{"", "namespace", ""},
		{"model,queue", "queue,model", ""},
		{"user,model,namespace,queue", "queue,namespace,user,model", ""},
		{"moon", "", `by: "moon" is not`},
		{"queue,queue", "", `by: "queue" is not`},
		{"queue,", "", `by: "" is not`},
		{strings.Repeat("x", 1000), "", "by: "},
	} {
		source := &usageSource{}
		s := &Server{source: source}
		_, wrong := s.usage(t.Context(), namespaceCaller{}, &Request{params: url.Values{apiquery.ParamBy: {tt.by}}})
		switch {
		case wrong != nil && (tt.wrong == "" || !strings.HasPrefix(wrong.Error(), tt.wrong) || len(wrong.Error()) > 300):
			t.Errorf("%.40q: %v, want %q", tt.by, wrong, tt.wrong)
		case wrong == nil && (tt.wrong != "" || !slices.Equal(source.by, strings.Split(tt.want, ",")) || !source.may("mine") || source.may("other")):
			t.Errorf("%.40q: summed by %v, want %s", tt.by, source.by, tt.want)
		}
	}
}
