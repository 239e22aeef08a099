package config

import (
	"regexp"
	"strings"
	"testing"

	admission "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/yaml"

	"github.com/tangram-dev/tangram/api/names"
)

// TestTenantPolicies: every policy is bound and the other way round, refuses when it cannot
// decide, and knows all profiles of the scheduler. That it names each word by which a pod
// claims something is tested in internal/dialect, which has the table of words. test/tenants
// tries them.
func TestTenantPolicies(t *testing.T) {
	policies := map[string]admission.ValidatingAdmissionPolicy{}
	for _, doc := range strings.Split(string(TenantPolicies()), "\n---\n") {
		var p admission.ValidatingAdmissionPolicy
		if err := yaml.UnmarshalStrict([]byte(doc), &p); err != nil {
			t.Fatal(err)
		}
		if p.Spec.FailurePolicy == nil || *p.Spec.FailurePolicy != admission.Fail {
			t.Errorf("%s: failurePolicy is not Fail", p.Name)
		}
		policies[p.Name] = p
	}
	bound := 0
	for _, doc := range strings.Split(string(TenantBindings()), "\n---\n") {
		var b admission.ValidatingAdmissionPolicyBinding
		if err := yaml.UnmarshalStrict([]byte(doc), &b); err != nil {
			t.Fatal(err)
		}
		if _, ok := policies[b.Spec.PolicyName]; !ok {
			t.Errorf("binding %s: there is no policy %s", b.Name, b.Spec.PolicyName)
		}
		bound++
	}
	if bound != len(policies) {
		t.Errorf("%d bindings of %d policies", bound, len(policies))
	}
	record := ""
	pods := policies["tangram-tenants-pods"]
	for _, v := range pods.Spec.Variables {
		if v.Name == "record" {
			for _, part := range regexp.MustCompile(`'([^']*)'`).FindAllStringSubmatch(v.Expression, -1) {
				record += part[1]
			}
		}
	}
	re, err := regexp.Compile(record)
	if err != nil {
		t.Fatal(err)
	}
	for word, want := range map[string]bool{names.AnnotationDevices: true, names.AnnotationCharged: true, names.AnnotationUseIndex: false, names.AnnotationTopology: false} {
		if re.MatchString(word) != want {
			t.Errorf("%s counts as a record: %v, want %v", word, !want, want)
		}
	}
	var scheduler struct {
		Profiles []struct {
			SchedulerName string `json:"schedulerName"`
		} `json:"profiles"`
	}
	if err := yaml.Unmarshal(Scheduler(), &scheduler); err != nil || len(scheduler.Profiles) == 0 {
		t.Fatalf("profiles %v, %v", scheduler.Profiles, err)
	}
	for _, p := range scheduler.Profiles {
		if !strings.Contains(expressions(pods.Spec.Validations), "'"+p.SchedulerName+"'") {
			t.Errorf("tenants/policies.yaml: scheduler %s, a profile of scheduler.yaml, is not among those that may place GPU pods", p.SchedulerName)
		}
	}
}

func expressions(list []admission.Validation) string {
	var b strings.Builder
	for _, v := range list {
		b.WriteString(v.Expression)
	}
	return b.String()
}
