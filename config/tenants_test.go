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
// decide, and names each word by which a pod claims something. test/tenants tries them.
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
	text, record := "", ""
	pods := policies["tangram-tenants-pods"]
	for _, v := range pods.Spec.Variables {
		text += v.Expression + "\n"
		if v.Name == "record" {
			for _, part := range regexp.MustCompile(`'([^']*)'`).FindAllStringSubmatch(v.Expression, -1) {
				record += part[1]
			}
		}
	}
	for _, word := range []string{
		names.LabelQueue, names.AnnotationVolcanoQueue, names.AnnotationVolcanoJobQueue, names.AnnotationUser,
		names.AnnotationPreemptible, names.AnnotationVolcanoPreemptable, names.AnnotationMinRuntime,
		names.LabelKAIQueue, names.LabelRunaiQueue, names.LabelRunaiProject, names.LabelKoordQuota, "priorityClassName", "kai.scheduler/preemptibility", "gpu-fraction",
	} {
		if !strings.Contains(text, "'"+word+"'") {
			t.Errorf("the policy of pods does not look at %s", word)
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
	for _, name := range []string{names.SchedulerName, names.VolcanoSchedulerName} {
		if expression := pods.Spec.Validations; !strings.Contains(expressions(expression), "'"+name+"'") {
			t.Errorf("scheduler %s is not among those that may place GPU pods", name)
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
