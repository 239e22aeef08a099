package tenants

import (
	"context"
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/tangram-dev/tangram/api/names"
)

// template is a pod template of one GPU in a queue.
func template(queue string) string {
	return fmt.Sprintf(`{metadata: {labels: {app: x, tangram.dev/queue: %s}}, spec: {schedulerName: gpu-scheduler, restartPolicy: Never, containers: [{name: c, image: pause, resources: {limits: {nvidia.com/gpu: 1}}}]}}`, queue)
}

// workloads are the kinds in which a tenant names a queue, other than pods, with the words
// of a refusal.
func workloads(name, queue string) map[string]*unstructured.Unstructured {
	always := strings.ReplaceAll(template(queue), "Never", "Always")
	return map[string]*unstructured.Unstructured{
		"Deployment":         object(fmt.Sprintf(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: %s}, spec: {replicas: 1, selector: {matchLabels: {app: x}}, template: %s}}`, name, always)),
		"StatefulSet":        object(fmt.Sprintf(`{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: %s}, spec: {replicas: 1, serviceName: x, selector: {matchLabels: {app: x}}, template: %s}}`, name, always)),
		"Job":                object(fmt.Sprintf(`{apiVersion: batch/v1, kind: Job, metadata: {name: %s}, spec: {template: %s}}`, name, template(queue))),
		"Job by KAI's label": object(fmt.Sprintf(`{apiVersion: batch/v1, kind: Job, metadata: {name: %s-kai, labels: {kai.scheduler/queue: %s}}, spec: {template: %s}}`, name, queue, template("default"))),
		"CronJob":            object(fmt.Sprintf(`{apiVersion: batch/v1, kind: CronJob, metadata: {name: %s}, spec: {schedule: "0 0 1 1 *", jobTemplate: {spec: {template: %s}}}}`, name, template(queue))),
		"Volcano Job":        object(fmt.Sprintf(`{apiVersion: batch.volcano.sh/v1alpha1, kind: Job, metadata: {name: %s}, spec: {queue: %s, minAvailable: 1, schedulerName: volcano, tasks: [{name: t, replicas: 1, template: {spec: {containers: [{name: c, image: pause, resources: {limits: {nvidia.com/gpu: 1}}}]}}}]}}`, name, queue)),
		"PodGroup":           object(fmt.Sprintf(`{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, metadata: {name: %s}, spec: {minMember: 1, queue: %s}}`, name, queue)),
	}
}

// keep removes an object after the test.
func (w *world) keep(t *testing.T, o *unstructured.Unstructured) {
	t.Helper()
	t.Cleanup(func() {
		policy := metav1.DeletePropagationBackground
		_ = w.admin.dynamic.Resource(resourceOf(o)).Namespace(o.GetNamespace()).Delete(context.Background(), o.GetName(), metav1.DeleteOptions{PropagationPolicy: &policy})
	})
}

// TestWorkloads: every kind that names a queue is refused at once to a namespace without
// the right, by name, and works for one with it.
func TestWorkloads(t *testing.T) {
	t.Parallel()
	w := sharedWorld(t)
	ann, bob := w.as(t, "ann", "team-a"), w.as(t, "bob", "team-b")
	theirs, mine := workloads("theirs", "team-a"), workloads("mine", "team-b")
	for kind := range theirs {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			_, err := bob.create("team-b", theirs[kind])
			if problem := refused(err, `may not use queue "team-a"`, "system:serviceaccounts:team-b"); problem != "" {
				t.Errorf("created: %s", problem)
			}
			if o, err := ann.create("team-a", theirs[kind]); err != nil {
				t.Errorf("team A: %v", err)
			} else {
				w.keep(t, o)
			}
			o, err := bob.create("team-b", mine[kind])
			if err != nil {
				t.Fatalf("own queue: %v", err)
			}
			w.keep(t, o)
			// And then edit it.
			for path, patch := range map[string]string{
				"spec.template":    `{"spec":{"template":{"metadata":{"labels":{"tangram.dev/queue":"team-a"}}}}}`,
				"spec.jobTemplate": `{"spec":{"jobTemplate":{"spec":{"template":{"metadata":{"labels":{"tangram.dev/queue":"team-a"}}}}}}}`,
				"spec.queue":       `{"spec":{"queue":"team-a"}}`,
			} {
				if _, has, _ := unstructured.NestedFieldNoCopy(o.Object, strings.Split(path, ".")...); !has {
					continue
				}
				want := `may not use queue "team-a"`
				switch kind {
				case "Job", "Job by KAI's label":
					want = "field is immutable"
				case "Volcano Job":
					want = "a job cannot move to another queue"
				}
				if err := bob.patch(o, patch); refused(err, want) != "" && refused(err, `may not use queue "team-a"`) != "" {
					t.Errorf("%s edited: %v", path, err)
				}
			}
			if err := bob.patch(o, `{"metadata":{"labels":{"app":"y"}}}`); err != nil {
				t.Errorf("an edit of something else: %v", err)
			}
		})
	}
}

// TestWorkloadsRun: pods that controllers create are admitted with the right of their
// namespace, and run.
func TestWorkloadsRun(t *testing.T) {
	t.Parallel()
	w := sharedWorld(t)
	ann := w.as(t, "ann", "team-a")
	for kind, o := range workloads("runs", "team-a") {
		if kind != "Deployment" && kind != "Volcano Job" {
			continue
		}
		made, err := ann.create("team-a", o)
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		w.keep(t, made)
		eventually(t, kind+" runs", func() (bool, string) {
			pods, err := ann.client.CoreV1().Pods("team-a").List(t.Context(), metav1.ListOptions{})
			if err != nil {
				return false, err.Error()
			}
			seen := ""
			for i := range pods.Items {
				if p := &pods.Items[i]; strings.HasPrefix(p.Name, "runs-") && (p.Annotations[names.AnnotationVolcanoJobQueue] != "") == (kind == "Volcano Job") {
					if seen = waits(p); p.Spec.NodeName != "" {
						return p.Annotations[names.AnnotationCharged] == "team-a", "charged to " + p.Annotations[names.AnnotationCharged]
					}
				}
			}
			return false, seen
		})
	}
}

// TestNoWayAroundByControllers: pods that others create for a tenant are refused as the
// tenant's own are: by a workload whose template the early check does not see, and by an
// operator that may do everything.
func TestNoWayAroundByControllers(t *testing.T) {
	t.Parallel()
	w := sharedWorld(t)
	bob := w.as(t, "bob", "team-b")
	// The second task's template names the queue; the job itself does not.
	job := object(`{apiVersion: batch.volcano.sh/v1alpha1, kind: Job, metadata: {name: hidden}, spec: {minAvailable: 2, schedulerName: volcano, tasks: [{name: a, replicas: 1, template: {spec: {containers: [{name: c, image: pause}]}}}, {name: b, replicas: 1, template: {metadata: {labels: {tangram.dev/queue: team-a}}, spec: {priorityClassName: urgent, containers: [{name: c, image: pause}]}}}]}}`)
	made, err := bob.create("team-b", job)
	if err != nil {
		t.Fatal(err)
	}
	w.keep(t, made)
	eventually(t, "the job says what its pods were refused for", func() (bool, string) {
		o, err := bob.dynamic.Resource(resourceOf(job)).Namespace("team-b").Get(t.Context(), "hidden", metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		status := fmt.Sprint(o.Object["status"])
		return strings.Contains(status, `namespace "team-b" may not use queue "team-a"`), status
	})
	if _, err := bob.client.CoreV1().Pods("team-b").Get(t.Context(), "hidden-b-0", metav1.GetOptions{}); err == nil {
		t.Error("the pod that names another team's queue exists")
	}

	namespace(t, w, "operators")
	apply(t, w, `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: operator}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}, subjects: [{kind: ServiceAccount, name: default, namespace: operators}]}`)
	operator, err := newUser("operator", &rest.Config{
		Host: w.RESTConfig().Host, TLSClientConfig: w.RESTConfig().TLSClientConfig, QPS: -1,
		Impersonate: rest.ImpersonationConfig{UserName: "system:serviceaccount:operators:default", Groups: []string{"system:serviceaccounts", "system:serviceaccounts:operators", "system:authenticated"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the operator may do everything", func() (bool, string) {
		_, err := operator.client.CoreV1().Secrets("kube-system").List(t.Context(), metav1.ListOptions{})
		return err == nil, fmt.Sprint(err)
	})
	for what, change := range map[string]func(*v1.Pod){
		`may not use queue "team-a"`:           label(names.LabelQueue, "team-a"),
		`may not use priority class "urgent"`:  class("urgent"),
		`may not use the user name "carol"`:    annotate(names.AnnotationUser, "carol"),
		`may not keep pods from being`:         annotate(names.AnnotationPreemptible, "false"),
		`may not choose the node itself`:       func(p *v1.Pod) { p.Spec.NodeName = "n-0" },
		`written by the scheduler and the nod`: annotate(names.AnnotationDevices, "{}"),
	} {
		_, err := operator.submit("team-b", pod("for-bob", 1, change))
		if problem := refused(err, what); problem != "" {
			t.Errorf("operator: %s: %s", what, problem)
		}
	}
	pg := workloads("of-operator", "team-a")["PodGroup"]
	if _, err := operator.create("team-b", pg); refused(err, `may not use queue "team-a"`) != "" {
		t.Errorf("operator's PodGroup: %v", err)
	}
}

// TestOwnRightAndWorkloads: a user with an own right is told at once that it does not count
// for pods that a controller will create.
func TestOwnRightAndWorkloads(t *testing.T) {
	t.Parallel()
	w := sharedWorld(t)
	fred := w.as(t, "fred", "team-b")
	rights(t, w, "fred", "", `{apiGroups: [scheduling.volcano.sh], resources: [queues], resourceNames: [team-a], verbs: [use]}`)
	for kind, o := range workloads("freds", "team-a") {
		made, err := fred.create("team-b", o)
		if kind == "PodGroup" { // created with own hands
			if err != nil {
				t.Errorf("%s: %v", kind, err)
			} else {
				w.keep(t, made)
			}
			continue
		}
		if problem := refused(err, "your own right does not count"); problem != "" {
			t.Errorf("%s: %s", kind, problem)
		}
	}
}

// TestPriorityOfGroups: the class of a PodGroup, Volcano's or Kubernetes' own, counts for
// its members, so it needs the right as well.
func TestPriorityOfGroups(t *testing.T) {
	t.Parallel()
	w := sharedWorld(t)
	bob := w.as(t, "bob", "team-b")
	const want = `may not use priority class "urgent"`
	groups := []*unstructured.Unstructured{
		object(`{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, metadata: {name: class}, spec: {minMember: 1, priorityClassName: urgent}}`),
		object(`{apiVersion: scheduling.k8s.io/v1alpha2, kind: PodGroup, metadata: {name: class}, spec: {priorityClassName: urgent, schedulingPolicy: {gang: {minCount: 1}}}}`),
		object(`{apiVersion: batch.volcano.sh/v1alpha1, kind: Job, metadata: {name: class}, spec: {priorityClassName: urgent, minAvailable: 1, tasks: [{name: t, replicas: 1, template: {spec: {containers: [{name: c, image: pause}]}}}]}}`),
	}
	rights(t, w, "groups", "team-b", `{apiGroups: [scheduling.k8s.io], resources: [podgroups], resourceNames: [], verbs: [create, update, patch]}`, // not in the tenants' roles: alpha
		`{apiGroups: [scheduling.k8s.io], resources: [podgroups], resourceNames: [none], verbs: [create]}`)
	for _, o := range groups {
		_, err := bob.create("team-b", o)
		if problem := refused(err, want); problem != "" {
			t.Errorf("%s %s: %s", o.GetAPIVersion(), o.GetKind(), problem)
		}
	}
	plain := object(`{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, metadata: {name: later}, spec: {minMember: 1}}`)
	made, err := bob.create("team-b", plain)
	if err != nil {
		t.Fatal(err)
	}
	w.keep(t, made)
	if problem := refused(bob.patch(made, `{"spec":{"priorityClassName":"urgent"}}`), want); problem != "" {
		t.Errorf("edited: %s", problem)
	}
}

// TestBeyondTheNamespace: objects of a tenant's own namespace that act on others.
func TestBeyondTheNamespace(t *testing.T) {
	t.Parallel()
	w := sharedWorld(t)
	bob, admin := w.as(t, "bob", "team-b"), w.as(t, "beth", "team-b-admins")
	for _, action := range []string{"CloseQueue", "OpenQueue"} {
		_, err := bob.create("team-b", object(`{apiVersion: bus.volcano.sh/v1alpha1, kind: Command, metadata: {name: shut}, action: `+action+`, target: {apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, name: team-a, uid: x}}`))
		if problem := refused(err, `user "bob" may not open or close queue "team-a": it needs the verb "update" on queues.scheduling.volcano.sh "team-a"`); problem != "" {
			t.Errorf("%s: %s", action, problem)
		}
	}
	if _, err := bob.dryRun("team-b", object(`{apiVersion: bus.volcano.sh/v1alpha1, kind: Command, metadata: {name: own}, action: AbortJob, target: {apiVersion: batch.volcano.sh/v1alpha1, kind: Job, name: mine, uid: x}}`)); err != nil {
		t.Errorf("a command for an own job: %v", err)
	}
	budget := object(`{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: forever}, spec: {minAvailable: 100%, selector: {}}}`)
	_, err := admin.create("team-b", budget)
	if problem := refused(err, `namespace "team-b" may not have disruption budgets, which keep pods from being preempted`, `exemptions.tangram.dev "disruption-budgets"`); problem != "" {
		t.Error(problem)
	}
	namespace(t, w, "quota")
	rights(t, w, "greta", "", `{apiGroups: [""], resources: [namespaces], resourceNames: [quota], verbs: [get, update, patch]}`)
	greta := w.as(t, "greta")
	patch := func(text string) error {
		_, err := greta.client.CoreV1().Namespaces().Patch(t.Context(), "quota", "application/merge-patch+json", []byte(text), metav1.PatchOptions{})
		return err
	}
	if problem := refused(patch(`{"metadata":{"annotations":{"tangram.dev/quota":"nvidia.com/gpu=99"}}}`), `user "greta" may not change quotas`); problem != "" {
		t.Error(problem)
	}
	if err := patch(`{"metadata":{"labels":{"x":"y"}}}`); err != nil {
		t.Errorf("another edit of the namespace: %v", err)
	}
}

// TestRoles: what the tenants' roles do not allow, whatever policies say.
func TestRoles(t *testing.T) {
	t.Parallel()
	w := sharedWorld(t)
	viewer, bob, admin := w.as(t, "vera", "team-b-viewers"), w.as(t, "bob", "team-b"), w.as(t, "beth", "team-b-admins")
	may := func(u *user, namespace string, want bool, o *unstructured.Unstructured) {
		t.Helper()
		if _, err := u.dryRun(namespace, o); (err == nil) != want {
			t.Errorf("%s creates %s %s in %s: %v, want allowed %v", u.name, o.GetKind(), o.GetName(), namespace, err, want)
		}
	}
	bind := func(role string) *unstructured.Unstructured {
		return object(`{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: new-` + role + `}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: ` + role + `}, subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: hal}]}`)
	}
	plain := object(`{apiVersion: v1, kind: Pod, metadata: {name: plain}, spec: {containers: [{name: c, image: pause}]}}`)
	may(viewer, "team-b", false, plain)
	may(bob, "team-b", true, plain)
	may(bob, "team-a", false, plain)
	may(admin, "team-b", true, plain)
	may(admin, "team-b", true, bind("tangram-tenant-user"))
	may(admin, "team-b", true, bind("tangram-tenant-viewer"))
	may(admin, "team-b", true, bind("tangram-tenant-admin")) // what one has, one may give
	for _, role := range []string{"cluster-admin", "queue-team-a", "edit"} {
		may(admin, "team-b", false, bind(role))
	}
	may(bob, "team-b", false, bind("tangram-tenant-viewer"))
	for _, u := range []*user{viewer, bob, admin} {
		may(u, "", false, object(`{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: more}, spec: {weight: 100}}`))
		may(u, "team-b", false, object(`{apiVersion: v1, kind: ResourceQuota, metadata: {name: more}, spec: {hard: {pods: "999"}}}`))
		may(u, "team-b", false, object(`{apiVersion: v1, kind: Binding, metadata: {name: plain}, target: {kind: Node, name: n-0}}`))
		if _, err := u.client.CoreV1().Pods("team-b").List(t.Context(), metav1.ListOptions{}); err != nil {
			t.Errorf("%s lists pods: %v", u.name, err)
		}
		if _, err := u.client.CoreV1().Pods("team-a").List(t.Context(), metav1.ListOptions{}); err == nil {
			t.Errorf("%s lists team A's pods", u.name)
		}
		if _, err := u.dynamic.Resource(resourceOf(object(`{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue}`))).List(t.Context(), metav1.ListOptions{}); err != nil {
			t.Errorf("%s lists queues: %v", u.name, err)
		}
	}
	if _, err := bob.client.CoreV1().Secrets("team-b").List(t.Context(), metav1.ListOptions{}); err == nil {
		t.Error("a user lists secrets")
	}
}
