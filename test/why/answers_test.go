package why

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/api/names"
	apiquery "github.com/tangram-dev/tangram/api/query"
	"github.com/tangram-dev/tangram/test/cluster"
)

// TestTenantSees: a tenant that may list the pods of one namespace learns why they wait, with
// sums, and no name of a node or of other pods; of other namespaces nothing at all.
func TestTenantSees(t *testing.T) {
	w := sharedWorld(t)
	p := w.in(t, "tenant", "", "")
	tenant := p.askers[names.SchedulerName].Bearer(w.Token("tenant", "me"))
	w.AddNamespace("secret-neighbour")
	w.in(t, "secret-neighbour", "", "").pod("secret-pod", 9)
	p.pod("waits", 9)
	ask := func(path, namespace, name string) (int, string) {
		t.Helper()
		answer := p.ask(tenant, path, namespace, name, "")
		return answer.Status, answer.Text
	}
	p.Eventually("the tenant is told", func() (bool, string) {
		status, body := ask(apiquery.PathWhy, "tenant", "waits")
		return status == http.StatusOK && strings.Contains(body, `"code":"TooFew"`), body
	})
	_, body := ask(apiquery.PathWhy, "tenant", "waits")
	for _, name := range []string{"secret", "aaa-0", "links-0", "taken-0"} {
		if strings.Contains(body, name) {
			t.Errorf("the tenant reads %q: %s", name, body)
		}
	}
	for _, path := range []string{apiquery.PathWhy, apiquery.PathExplain} {
		exists, one := ask(path, "secret-neighbour", "secret-pod")
		not, another := ask(path, "secret-neighbour", "nothing-here")
		if exists != http.StatusNotFound || not != exists || strings.ReplaceAll(one, "secret-pod", "X") != strings.ReplaceAll(another, "nothing-here", "X") {
			t.Errorf("%s tells whether a pod exists: %d %s, %d %s", path, exists, one, not, another)
		}
		for _, bad := range [][2]string{{"", "x"}, {"tenant", ""}, {"tenant", "../x"}, {"tenant", strings.Repeat("a", 300)}, {"TENANT", "x"}} {
			if status, body := ask(path, bad[0], bad[1]); status != http.StatusBadRequest || !strings.Contains(body, `"field"`) {
				t.Errorf("%s of %.20q: %d %s", path, bad, status, body)
			}
		}
	}
}

// TestExplain: a placed pod's score term by term adds up, others are named with theirs, and
// a pod without a place has none.
func TestExplain(t *testing.T) {
	w := sharedWorld(t)
	w.AddNamespace("explained")
	p := w.in(t, "explained", "", "")
	p.pod("placed", 1, func(pod *v1.Pod) {
		pod.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
			MatchExpressions: []v1.NodeSelectorRequirement{{Key: "pool", Operator: v1.NodeSelectorOpIn, Values: []string{"aaa", "quota"}}}}}}}}
	})
	p.Bound("placed")
	p.pod("waits", 99)
	operator := p.askers[p.scheduler]
	var out *apiquery.Explain
	p.Eventually("it is explained", func() (bool, string) {
		answer := p.ask(operator, apiquery.PathExplain, "explained", "placed", "")
		if answer.Status != http.StatusOK {
			return false, answer.Text
		}
		out = cluster.Decode[apiquery.Explain](t, answer.Text)
		return out.Decided != nil, answer.Text
	})
	sum, weights := 0, 0
	for _, term := range out.Terms {
		sum += term.Score * term.Weight
		weights += term.Weight
	}
	if weights == 0 || out.Total < sum/weights-1 || out.Total > sum/weights+1 || len(out.Terms) < 6 {
		t.Errorf("total %d of %+v", out.Total, out.Terms)
	}
	if len(out.Devices) != 1 || out.Node == "" || out.Fleet["potentialBefore"] <= out.Fleet["potentialAfter"] {
		t.Errorf("%+v", out)
	}
	if len(out.RunnersUp) != 1 || out.RunnersUp[0].Node == out.Node || out.Fit != 2 || len(out.RunnersUp[0].Terms) != len(out.Terms) {
		t.Errorf("runners-up %+v, %d fit", out.RunnersUp, out.Fit)
	}
	if !slices.ContainsFunc(out.Refused, func(c apiquery.NodesCause) bool { return c.Code == "Unselected" && len(c.Examples) > 0 }) {
		t.Errorf("refused: %+v", out.Refused)
	}
	if answer := p.ask(operator, apiquery.PathExplain, "explained", "waits", ""); answer.Status != http.StatusNotFound {
		t.Errorf("a pod without a place: %d %s", answer.Status, answer.Text)
	}
}
