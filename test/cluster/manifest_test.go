package cluster

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/tangram-dev/tangram/api/names"
)

// TestAccounts: an account has the roles that are named, and none of them further than said.
func TestAccounts(t *testing.T) {
	docs := strings.Split(string(Accounts(Account{Namespace: "a", Name: "eve", Everywhere: []string{"viewer"}, Own: []string{"pods"}})), "\n---\n")
	if len(docs) != 8 {
		t.Fatalf("%d documents: %q", len(docs), docs)
	}
	docs = docs[5:] // after the roles and the namespace
	var account v1.ServiceAccount
	var everywhere rbacv1.ClusterRoleBinding
	var own rbacv1.RoleBinding
	for i, o := range []any{&account, &everywhere, &own} {
		if err := yaml.UnmarshalStrict([]byte(docs[i]), o); err != nil {
			t.Fatalf("%v in %s", err, docs[i])
		}
	}
	eve := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: "a", Name: "eve"}
	if account.Namespace != "a" || account.Name != "eve" {
		t.Errorf("account %+v", account)
	}
	if everywhere.Kind != "ClusterRoleBinding" || everywhere.Namespace != "" || everywhere.RoleRef.Name != "viewer" || len(everywhere.Subjects) != 1 || everywhere.Subjects[0] != eve {
		t.Errorf("everywhere: %+v", everywhere)
	}
	if own.Kind != "RoleBinding" || own.Namespace != "a" || own.RoleRef.Name != "pods" || len(own.Subjects) != 1 || own.Subjects[0] != eve {
		t.Errorf("own: %+v", own)
	}
}

func TestPod(t *testing.T) {
	p := Pod("x", 2, Label("l", "1"), Annotate("n", "2"))
	if got := p.Spec.Containers[0].Resources.Limits[names.ResourceNVIDIA]; got.Value() != 2 || p.Labels["l"] != "1" || p.Annotations["n"] != "2" || p.Spec.SchedulerName != names.SchedulerName {
		t.Errorf("got %+v", p)
	}
	if limits := Pod("x", 0).Spec.Containers[0].Resources.Limits; len(limits) > 0 {
		t.Errorf("a pod without GPUs asks for %v", limits)
	}
	if c := Scheduled(p); c.Type != "" {
		t.Errorf("a condition that is not there: %+v", c)
	}
	p.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Message: "no"}, {Type: v1.PodScheduled, Message: "2 GPUs are missing"}}
	if c := Scheduled(p); c.Message != "2 GPUs are missing" {
		t.Errorf("said %+v", c)
	}
}
