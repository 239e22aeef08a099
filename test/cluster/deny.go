package cluster

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Denial is what the API server refuses, by a ValidatingAdmissionPolicy of that name.
type Denial struct {
	Name string
	// Operation on a Resource of a Group, all as in a rule of the policy.
	Group, Version, Resource, Operation string
	// Admits is a CEL expression that holds for what is admitted all the same.
	Admits string
	// Namespace is the only one that it is for; "" for all.
	Namespace string
}

// Bindings is the denial of Bindings.
func Bindings(name, admits string) Denial {
	return Denial{Name: name, Version: "v1", Resource: "pods/binding", Operation: "CREATE", Admits: admits}
}

// Deny makes the API server refuse what a Denial says, some moments later: it learns of
// policies by a watch.
func (w *World) Deny(d Denial) {
	w.T.Helper()
	selector := "{}"
	if d.Namespace != "" {
		selector = fmt.Sprintf("{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %s}}}", d.Namespace)
	}
	w.Apply(fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: %[1]s}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules: [{apiGroups: [%[2]q], apiVersions: [%[3]q], resources: [%[4]q], operations: [%[5]q]}]
  validations: [{expression: %[6]q, message: denied by the test}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: %[1]s}
spec: {policyName: %[1]s, validationActions: [Deny], matchResources: %[7]s}
`, d.Name, d.Group, d.Version, d.Resource, d.Operation, d.Admits, selector))
}

// Admit ends a denial, again some moments later.
func (w *World) Admit(d Denial) {
	w.T.Helper()
	api := w.Client.AdmissionregistrationV1()
	w.Must(api.ValidatingAdmissionPolicyBindings().Delete(context.Background(), d.Name, metav1.DeleteOptions{}))
	w.Must(api.ValidatingAdmissionPolicies().Delete(context.Background(), d.Name, metav1.DeleteOptions{}))
}
