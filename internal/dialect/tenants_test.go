package dialect

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/tangram-dev/tangram/core/topology"
)

// What an object states of queue and priority counts for all its pods, so every kind that
// may state it is one whose writers the tenants' policy checks.
func TestTenantsPolicyHasAllKinds(t *testing.T) {
	text, err := os.ReadFile("../../config/tenants/policies.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var policy struct {
		Metadata struct{ Name string }
		Spec     struct {
			MatchConstraints struct {
				ResourceRules []struct{ APIGroups, Resources, Operations []string }
			}
		}
	}
	for _, document := range bytes.Split(text, []byte("\n---\n")) {
		if !strings.Contains(string(document), "name: tangram-tenants-podgroups\n") {
			continue
		}
		if err := yaml.Unmarshal(document, &policy); err != nil {
			t.Fatal(err)
		}
	}
	if policy.Metadata.Name == "" {
		t.Fatal("there is no such policy")
	}
	for _, k := range Owners() {
		checked := false
		for _, r := range policy.Spec.MatchConstraints.ResourceRules {
			checked = checked || slices.Contains(r.APIGroups, k.Resource.Group) && slices.Contains(r.Resources, k.Resource.Resource) &&
				slices.Contains(r.Operations, "CREATE") && slices.Contains(r.Operations, "UPDATE")
		}
		if States(k.Resource) && !checked {
			t.Errorf("anyone may state a priority in %s", k.Resource.GroupResource())
		}
	}
}

// PodGroups of scheduler-plugins and Koordinator have neither queue nor priority.
func TestPodGroupsWithoutQueue(t *testing.T) {
	for version, want := range map[string]string{
		"scheduling.volcano.sh/v1beta1":   "q high",
		"scheduling.x-k8s.io/v1alpha1":    " ",
		"scheduling.sigs.k8s.io/v1alpha1": " ",
	} {
		g, err := GroupOf(parsed(t, `{apiVersion: `+version+`, kind: PodGroup, spec: {minMember: 2, queue: q, priorityClassName: high}}`), topology.DefaultLevels())
		if got := g.Queue + " " + g.Priority; err != nil || got != want || g.Min != 2 {
			t.Errorf("%s: %q of %d, %v", version, got, g.Min, err)
		}
	}
}
