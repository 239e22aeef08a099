package chart

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// auditPolicy logs the requests of ServiceAccounts in our namespace alone.
const auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  userGroups: ["system:serviceaccounts:` + namespace + `"]
- level: None
`

// auditFlags make the API server write an audit log, and return its path.
func auditFlags(t *testing.T) (log string, flags []string) {
	t.Helper()
	dir := t.TempDir()
	policy := filepath.Join(dir, "policy.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		t.Fatal(err)
	}
	log = filepath.Join(dir, "audit.log")
	return log, []string{"--audit-policy-file=" + policy, "--audit-log-path=" + log, "--audit-log-mode=blocking"}
}

// request is one request as the audit log has it.
type request struct {
	User struct{ Username string }
	Verb string
	URI  string `json:"requestURI"`
	// Object is nil for requests that are about no resource.
	Object *struct{ APIGroup, Resource, Subresource, Namespace, Name string } `json:"objectRef"`
	Status struct {
		Code    int
		Message string
	} `json:"responseStatus"`
}

// component is the short name of the ServiceAccount that asked: scheduler.
func (r request) component() string {
	name, _ := strings.CutPrefix(r.User.Username, "system:serviceaccount:"+namespace+":gpu-")
	return name
}

func readAudit(t testing.TB, log string) []request {
	t.Helper()
	f, err := os.Open(log)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []request
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			continue // the last line may be half written
		}
		all = append(all, r)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// right is one verb on one resource, in a namespace or, with none, everywhere.
type right struct{ component, namespace, group, resource, name, verb string }

func (r right) String() string {
	text := r.component + ": " + r.verb + " " + r.resource
	if r.group != "" {
		text += "." + r.group
	}
	if r.name != "" {
		text += " " + r.name
	}
	if r.namespace != "" {
		text += " in " + r.namespace
	}
	return text
}

// covers says whether the request needs just this right.
func (r right) covers(q request) bool {
	if q.Object == nil || q.component() != r.component {
		return false
	}
	resource := q.Object.Resource
	if q.Object.Subresource != "" {
		resource += "/" + q.Object.Subresource
	}
	return resource == r.resource && q.Object.APIGroup == r.group && q.Verb == r.verb &&
		(r.name == "" || r.name == q.Object.Name) && (r.namespace == "" || r.namespace == q.Object.Namespace)
}

// rights are all that the API server grants to our ServiceAccounts by name.
func (w *world) rights() []right {
	w.T.Helper()
	ctx, api := w.T.Context(), w.Client.RbacV1()
	var all []right
	add := func(subjects []rbacv1.Subject, in string, ref rbacv1.RoleRef, roleNamespace string) {
		for _, s := range subjects {
			component, ours := strings.CutPrefix(s.Name, "gpu-")
			if s.Kind != "ServiceAccount" || s.Namespace != namespace || !ours {
				continue
			}
			var rules []rbacv1.PolicyRule
			if ref.Kind == "ClusterRole" {
				role, err := api.ClusterRoles().Get(ctx, ref.Name, metav1.GetOptions{})
				w.Must(err)
				rules = role.Rules
			} else {
				role, err := api.Roles(roleNamespace).Get(ctx, ref.Name, metav1.GetOptions{})
				w.Must(err)
				rules = role.Rules
			}
			all = append(all, expandRules(component, in, rules)...)
		}
	}
	clusterBindings, err := api.ClusterRoleBindings().List(ctx, metav1.ListOptions{})
	w.Must(err)
	for _, b := range clusterBindings.Items {
		add(b.Subjects, "", b.RoleRef, "")
	}
	bindings, err := api.RoleBindings("").List(ctx, metav1.ListOptions{})
	w.Must(err)
	for _, b := range bindings.Items {
		add(b.Subjects, b.Namespace, b.RoleRef, b.Namespace)
	}
	return all
}

func expandRules(component, in string, rules []rbacv1.PolicyRule) []right {
	var all []right
	for _, rule := range rules {
		objects := rule.ResourceNames
		if len(objects) == 0 {
			objects = []string{""}
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, name := range objects {
					for _, verb := range rule.Verbs {
						all = append(all, right{component, in, group, resource, name, verb})
					}
				}
			}
		}
	}
	return all
}

// refused are the requests that were refused for want of a right, each once. A kind that
// is so young that the API server cannot say which users may own it is no such want.
func refused(all []request) []string {
	var out []string
	for _, r := range all {
		if r.Status.Code != 403 || strings.Contains(r.Status.Message, "cannot find RESTMapping") {
			continue
		}
		text := fmt.Sprintf("%s: %s %s", r.component(), r.Verb, r.URI)
		if !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	return out
}
