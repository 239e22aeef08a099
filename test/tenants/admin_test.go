package tenants

import (
	"fmt"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What tests do as the cluster's administrator.

// apply applies manifests.
func apply(t *testing.T, w *world, docs ...string) {
	t.Helper()
	for _, d := range docs {
		if err := w.ApplyManifests(t.Context(), []byte(d)); err != nil {
			t.Fatal(err)
		}
	}
}

// namespace makes a namespace in which pods can be created.
func namespace(t *testing.T, w *world, name string) {
	t.Helper()
	apply(t, w, fmt.Sprintf(`{apiVersion: v1, kind: Namespace, metadata: {name: %s}}`, name))
	eventually(t, "service account of "+name, func() (bool, string) {
		_, err := w.admin.client.CoreV1().ServiceAccounts(name).Get(t.Context(), "default", metav1.GetOptions{})
		return err == nil, fmt.Sprint(err)
	})
}

// rights grants rules for the cluster: to a group, or to the user of the name.
func rights(t *testing.T, w *world, name, group string, rules ...string) {
	t.Helper()
	subject := fmt.Sprintf("{apiGroup: rbac.authorization.k8s.io, kind: User, name: %q}", name)
	if group != "" {
		subject = fmt.Sprintf("{apiGroup: rbac.authorization.k8s.io, kind: Group, name: %q}", group)
	}
	apply(t, w,
		fmt.Sprintf("{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: test-%s}, rules: [%s]}", name, strings.Join(rules, ", ")),
		fmt.Sprintf("{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: test-%s}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: test-%s}, subjects: [%s]}", name, name, subject))
	// The API server learns of rights by a watch: the last rule's first name tells.
	last := object(rules[len(rules)-1]).Object
	one := func(key string) string { list, _ := last[key].([]any); s, _ := list[0].(string); return s }
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: name, ResourceAttributes: &authorizationv1.ResourceAttributes{Group: one("apiGroups"), Resource: one("resources"), Name: one("resourceNames"), Verb: one("verbs")},
	}}
	if group != "" {
		review.Spec.User, review.Spec.Groups = "x", []string{group}
	}
	eventually(t, "rights of "+name, func() (bool, string) {
		got, err := w.admin.client.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{})
		return err == nil && got.Status.Allowed, fmt.Sprint(err)
	})
}
