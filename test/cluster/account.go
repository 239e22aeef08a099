package cluster

import (
	"fmt"
	"strings"
)

// Roles are ClusterRoles for accounts of tests: what the query API asks for (list-pods,
// list-nodes, list-everything), and with everything all questions, too.
const Roles = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: list-pods}
rules: [{apiGroups: [""], resources: [pods], verbs: [list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: list-nodes}
rules: [{apiGroups: [""], resources: [nodes], verbs: [list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: list-everything}
rules:
- {apiGroups: [""], resources: [pods, nodes], verbs: [list]}
- {apiGroups: [scheduling.volcano.sh], resources: [queues], verbs: [list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: everything}
rules:
- {nonResourceURLs: ["/query/*"], verbs: [get, post]}
- {apiGroups: [""], resources: [pods, nodes], verbs: [list]}
- {apiGroups: [scheduling.volcano.sh], resources: [queues], verbs: [list]}
`

// Account is a service account with few rights.
type Account struct {
	Namespace, Name string
	// Everywhere are ClusterRoles that it has in the whole cluster, Own those that it has in
	// its own namespace alone.
	Everywhere, Own []string
}

// Accounts are the manifests of accounts, of their namespaces and of their rights, with
// Roles.
func Accounts(accounts ...Account) []byte {
	docs := []string{Roles}
	namespaces := map[string]bool{"default": true, "kube-system": true}
	for _, a := range accounts {
		if !namespaces[a.Namespace] {
			namespaces[a.Namespace] = true
			docs = append(docs, fmt.Sprintf("{apiVersion: v1, kind: Namespace, metadata: {name: %s}}", a.Namespace))
		}
		docs = append(docs, fmt.Sprintf("{apiVersion: v1, kind: ServiceAccount, metadata: {name: %s, namespace: %s}}", a.Name, a.Namespace))
		bind := func(kind, where, role string) {
			docs = append(docs, fmt.Sprintf(`apiVersion: rbac.authorization.k8s.io/v1
kind: %s
metadata: {name: %s-%s-%s%s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: %s}
subjects: [{kind: ServiceAccount, name: %s, namespace: %s}]`, kind, a.Namespace, a.Name, role, where, role, a.Name, a.Namespace))
		}
		for _, role := range a.Everywhere {
			bind("ClusterRoleBinding", "", role)
		}
		for _, role := range a.Own {
			bind("RoleBinding", ", namespace: "+a.Namespace, role)
		}
	}
	return []byte(strings.Join(docs, "\n---\n"))
}
