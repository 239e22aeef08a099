package cluster

import (
	"fmt"
	"strings"
)

// Account is a service account with few rights.
type Account struct {
	Namespace, Name string
	// Everywhere are ClusterRoles that it has in the whole cluster, Own those that it has in
	// its own namespace alone.
	Everywhere, Own []string
}

// Accounts are the manifests of accounts and their rights; their namespaces must be there.
func Accounts(accounts ...Account) []byte {
	var docs []string
	for _, a := range accounts {
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
