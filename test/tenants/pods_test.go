package tenants

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// TestPodClaims: what a pod may claim when a tenant's user creates it. Each row is tried by
// a user of team A, who was granted it, and by one of team B, who was not.
func TestPodClaims(t *testing.T) {
	t.Parallel()
	w := sharedWorld(t)
	const queue = `may not use queue "team-a": group system:serviceaccounts:team-b needs the verb "use" on queues.scheduling.volcano.sh "team-a"`
	preempted := func(key string) string {
		return `may not keep pods from being preempted (` + key + `): group system:serviceaccounts:team-b needs the verb "use" on exemptions.tangram.dev "preemption"`
	}
	rights(t, w, "claims", "system:serviceaccounts:team-a",
		`{apiGroups: [tangram.dev], resources: [exemptions], resourceNames: [preemption, grace-period, node-name, scheduler], verbs: [use]}`,
		`{apiGroups: [tangram.dev], resources: [users], resourceNames: [carol], verbs: [use]}`,
		`{apiGroups: [scheduling.k8s.io], resources: [priorityclasses], resourceNames: [system-node-critical], verbs: [use]}`)
	long, words := int64(86400), dialect.Words()
	for name, tt := range map[string]struct {
		change func(*v1.Pod)
		want   string // what team B reads
	}{
		"queue by label":                    {label(names.LabelQueue, "team-a"), queue},
		"queue by Volcano's annotation":     {annotate(names.AnnotationVolcanoQueue, "team-a"), queue},
		"queue by a Volcano Job's word":     {annotate(names.AnnotationVolcanoJobQueue, "team-a"), queue},
		"priority class":                    {class("urgent"), `namespace "team-b" may not use priority class "urgent": group system:serviceaccounts:team-b needs the verb "use" on priorityclasses.scheduling.k8s.io "urgent"`},
		"system class":                      {class("system-node-critical"), `may not use priority class "system-node-critical"`},
		"user name":                         {annotate(names.AnnotationUser, "carol"), `may not use the user name "carol": group system:serviceaccounts:team-b needs the verb "use" on users.tangram.dev "carol"`},
		"not preemptible":                   {annotate(names.AnnotationPreemptible, "false"), preempted(names.AnnotationPreemptible)},
		"not preemptible, in another way":   {annotate(names.AnnotationPreemptible, "F"), preempted(names.AnnotationPreemptible)},
		"not preemptible, in Volcano's way": {annotate(names.AnnotationVolcanoPreemptable, "0"), preempted(names.AnnotationVolcanoPreemptable)},
		"not preemptible for long":          {annotate(names.AnnotationMinRuntime, "99999h"), preempted(names.AnnotationMinRuntime)},
		"grace period":                      {func(p *v1.Pod) { p.Spec.TerminationGracePeriodSeconds = &long }, `spec.terminationGracePeriodSeconds: above 3600`},
		"node":                              {func(p *v1.Pod) { p.Spec.NodeName = "n-3" }, `spec.nodeName: namespace "team-b" may not choose the node itself`},
		"another scheduler":                 {func(p *v1.Pod) { p.Spec.SchedulerName = "default-scheduler" }, `spec.schedulerName: pods that ask for GPUs must use gpu-scheduler or another profile of it, not "default-scheduler"`},
		"queue by KAI's label":              {label(names.LabelKAIQueue, "team-a"), queue},
		"queue by Run:ai's label":           {label(names.LabelRunaiQueue, "team-a"), queue},
		"queue by Koordinator's label":      {label(names.LabelKoordQuota, "team-a"), queue},
		"queue by project": {func(p *v1.Pod) {
			p.Spec.SchedulerName, p.Labels[names.LabelRunaiProject] = names.KAISchedulerName, "team-a"
		}, queue},
		"priority class by KAI's label": {label("priorityClassName", "urgent"), `metadata.labels[priorityClassName]: namespace "team-b" may not use priority class "urgent"`},
		"not preemptible, in KAI's way": {label("kai.scheduler/preemptibility", "Non-Preemptible"), preempted("kai.scheduler/preemptibility")},
		"a part for another scheduler": {func(p *v1.Pod) {
			p.Spec.SchedulerName, p.Spec.Containers[0].Resources.Limits, p.Annotations["gpu-fraction"] = "default-scheduler", nil, "0.5"
		}, "spec.schedulerName: pods that ask for GPUs must use gpu-scheduler"},
		"two queues": {func(p *v1.Pod) {
			p.Labels[names.LabelQueue], p.Annotations[names.AnnotationVolcanoQueue] = "team-b", "team-a"
		},
			`the pod names two queues: team-b, team-a`},
	} {
		tried := pod("tried", 1, tt.change)
		words = slices.DeleteFunc(words, func(word dialect.Word) bool {
			return word.Right == "" || tried.Labels[word.Name] != "" && word.Kind == dialect.Label || tried.Annotations[word.Name] != "" && word.Kind == dialect.Annotation
		})
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ann, bob := w.as(t, "ann", "team-a"), w.as(t, "bob", "team-b")
			_, err := bob.submit("team-b", pod("claim", 1, tt.change))
			if problem := refused(err, tt.want); problem != "" {
				t.Errorf("team B: %s", problem)
			}
			if name == "two queues" {
				return
			}
			w.admitted(t, ann, "team-a", pod("claim", 1, tt.change))
		})
	}
	for _, word := range words {
		t.Errorf("no row tries %s %s, which needs a right (%s)", word.Kind, word.Name, word.Right)
	}
}

// TestOpenToAll: what needs no right.
func TestOpenToAll(t *testing.T) {
	t.Parallel()
	w := sharedWorld(t)
	bob := w.as(t, "bob", "team-b")
	for name, change := range map[string]func(*v1.Pod){
		"nothing claimed":     func(*v1.Pod) {},
		"default queue":       label(names.LabelQueue, "default"),
		"own queue":           label(names.LabelQueue, "team-b"),
		"open priority class": class("batch"),
		"own user name":       annotate(names.AnnotationUser, "bob"),
		"preemptible":         annotate(names.AnnotationPreemptible, "true"),
		"expected runtime":    annotate(names.AnnotationRuntime, "1h"),
		"another scheduler without GPUs": func(p *v1.Pod) {
			p.Spec.SchedulerName, p.Spec.Containers[0].Resources.Limits = "default-scheduler", nil
		},
	} {
		t.Run(name, func(t *testing.T) { w.admitted(t, bob, "team-b", pod("open", 1, change)) })
	}
}

// TestUsersOwnRight: a right granted to a user counts for the pod that the user creates, and
// not for one that names a controller: any user may write an owner reference.
func TestUsersOwnRight(t *testing.T) {
	t.Parallel()
	w := sharedWorld(t)
	dora := w.as(t, "dora", "team-b")
	rights(t, w, "dora", "", `{apiGroups: [scheduling.volcano.sh], resources: [queues], resourceNames: [team-a], verbs: [use]}`)
	w.admitted(t, dora, "team-b", pod("mine", 1, label(names.LabelQueue, "team-a")))
	controlled := func(p *v1.Pod) {
		yes := true
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "x", UID: "u", Controller: &yes}}
	}
	_, err := dora.submit("team-b", pod("owned", 1, label(names.LabelQueue, "team-a"), controlled))
	if problem := refused(err, `may not use queue "team-a"`); problem != "" {
		t.Error(problem)
	}
}

// TestNamespaceGrantsNothing: a RoleBinding in a tenant's own namespace grants neither a
// queue nor anything else that counts for the whole cluster, however wide the role.
func TestNamespaceGrantsNothing(t *testing.T) {
	t.Parallel()
	w := sharedWorld(t)
	namespace(t, w, "owned")
	apply(t, w, `{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: all, namespace: owned}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}, subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: eve}, {apiGroup: rbac.authorization.k8s.io, kind: Group, name: "system:serviceaccounts:owned"}]}`)
	eve := w.as(t, "eve")
	for what, change := range map[string]func(*v1.Pod){
		"may not use queue":            label(names.LabelQueue, "team-a"),
		"may not use priority class":   class("urgent"),
		"may not keep pods from being": annotate(names.AnnotationPreemptible, "false"),
	} {
		_, err := eve.submit("owned", pod("wide", 1, change))
		if problem := refused(err, what); problem != "" {
			t.Errorf("%s: %s", what, problem)
		}
	}
	p := w.admitted(t, eve, "owned", pod("waits", 8, func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"none": "such"} }))
	err := eve.client.CoreV1().Pods("owned").Bind(t.Context(), &v1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: p.Name, Annotations: map[string]string{names.AnnotationDevices: "{}"}}, Target: v1.ObjectReference{Kind: "Node", Name: "n-0"},
	}, metav1.CreateOptions{})
	if problem := refused(err, `user "eve" may not bind pods: it needs the verb "create" on pods/binding in all namespaces`); problem != "" {
		t.Errorf("binding: %s", problem)
	}
	// Through the status, which holds labels and annotations as well.
	for _, patch := range []string{
		`{"metadata":{"labels":{"tangram.dev/queue":"team-a"}}}`,
		`{"metadata":{"annotations":{"tangram.dev/preemptible":"false"}}}`,
		`{"metadata":{"annotations":{"tangram.dev/charged-queue":"team-a"}}}`,
	} {
		_, err := eve.client.CoreV1().Pods("owned").Patch(t.Context(), p.Name, "application/merge-patch+json", []byte(patch), metav1.PatchOptions{}, "status")
		if problem := refused(err, "ValidatingAdmissionPolicy"); problem != "" {
			t.Errorf("status, %s: %s", patch, problem)
		}
	}
}

// TestEdits: what was not granted is not reached by editing a pod either. Edits of other
// things are not checked, whatever the pod claims.
func TestEdits(t *testing.T) {
	t.Parallel()
	w := sharedWorld(t)
	bob := w.as(t, "bob", "team-b")
	p := w.admitted(t, bob, "team-b", pod("edited", 1, label(names.LabelQueue, "team-b")))
	edit := func(patch, subresource string) error {
		var sub []string
		if subresource != "" {
			sub = []string{subresource}
		}
		_, err := bob.client.CoreV1().Pods("team-b").Patch(t.Context(), p.Name, "application/merge-patch+json", []byte(patch), metav1.PatchOptions{}, sub...)
		return err
	}
	for _, tt := range []struct{ patch, want string }{
		{`{"metadata":{"labels":{"tangram.dev/queue":"team-a"}}}`, `may not use queue "team-a"`},
		{`{"metadata":{"labels":{"tangram.dev/queue":null},"annotations":{"scheduling.volcano.sh/queue-name":"team-a"}}}`, `may not use queue "team-a"`},
		{`{"metadata":{"annotations":{"volcano.sh/queue-name":"team-a"}}}`, `may not use queue "team-a"`},
		{`{"metadata":{"labels":{"kai.scheduler/queue":"team-a"}}}`, `may not use queue "team-a"`},
		{`{"metadata":{"labels":{"kai.scheduler/preemptibility":"non-preemptible"}}}`, `may not keep pods from being preempted (kai.scheduler/preemptibility)`},
		{`{"metadata":{"annotations":{"tangram.dev/user":"carol"}}}`, `may not use the user name "carol"`},
		{`{"metadata":{"annotations":{"tangram.dev/preemptible":"false"}}}`, `may not keep pods from being preempted (tangram.dev/preemptible)`},
		{`{"metadata":{"annotations":{"volcano.sh/preemptable":"no"}}}`, `may not keep pods from being preempted (volcano.sh/preemptable)`},
		{`{"spec":{"priority":2000001000}}`, `pod updates may not change fields`},
		{`{"spec":{"priorityClassName":"urgent"}}`, `pod updates may not change fields`},
	} {
		if problem := refused(edit(tt.patch, ""), tt.want); problem != "" {
			t.Errorf("%s: %s", tt.patch, problem)
		}
	}
	if problem := refused(edit(`{"metadata":{"labels":{"tangram.dev/queue":"team-a"}}}`, "status"), "forbidden"); problem != "" {
		t.Errorf("status: %s", problem)
	}
	for _, patch := range []string{`{"metadata":{"labels":{"app":"x"}}}`, `{"metadata":{"labels":{"tangram.dev/queue":"default"}}}`, `{"metadata":{"labels":{"tangram.dev/queue":null}}}`, `{"metadata":{"labels":{"tangram.dev/queue":"team-b"}}}`} {
		if err := edit(patch, ""); err != nil {
			t.Errorf("%s: %v", patch, err)
		}
	}
}

// TestPriorityByNumber: the API server itself refuses a number that no class gives.
func TestPriorityByNumber(t *testing.T) {
	t.Parallel()
	w := sharedWorld(t)
	number := int32(2_000_001_000)
	_, err := w.as(t, "bob", "team-b").submit("team-b", pod("number", 1, func(p *v1.Pod) { p.Spec.Priority = &number }))
	if problem := refused(err, "integer value of priority (2000001000) must not be provided"); problem != "" {
		t.Error(problem)
	}
}

// TestRecords: what the scheduler writes about devices may be written by no user: not at
// creation, and not later, but by the agent.
func TestRecords(t *testing.T) {
	t.Parallel()
	w := sharedWorld(t)
	bob := w.as(t, "bob", "team-b")
	keys := []string{names.AnnotationDevices, names.AnnotationCharged}
	for _, word := range dialect.Words() {
		if word.Source == dialect.Binding {
			keys = append(keys, strings.Replace(word.Name, "*", "Ascend910", 1))
		}
	}
	for _, key := range keys {
		want := fmt.Sprintf("metadata.annotations[%s]: written by the scheduler and the node agent alone", key)
		for _, u := range []*user{bob, w.admin} {
			_, err := u.submit("team-b", pod("forged", 1, annotate(key, "x")))
			if problem := refused(err, want); problem != "" {
				t.Errorf("%s, %s: %s", u.name, key, problem)
			}
		}
	}
	p := w.admitted(t, bob, "team-b", pod("bound", 1))
	eventually(t, "bound with a record", func() (bool, string) {
		var err error
		p, err = bob.client.CoreV1().Pods("team-b").Get(t.Context(), p.Name, metav1.GetOptions{})
		return err == nil && p.Annotations[names.AnnotationDevices] != "", waits(p)
	})
	for _, patch := range []string{
		`{"metadata":{"annotations":{"tangram.dev/devices":null}}}`, `{"metadata":{"annotations":{"tangram.dev/devices":"{}"}}}`,
		`{"metadata":{"annotations":{"tangram.dev/charged-queue":"team-a"}}}`,
	} {
		_, err := bob.client.CoreV1().Pods("team-b").Patch(t.Context(), p.Name, "application/merge-patch+json", []byte(patch), metav1.PatchOptions{})
		if problem := refused(err, `user "bob" may not change it`); problem != "" {
			t.Errorf("%s: %s", patch, problem)
		}
	}
	agent := w.as(t, "system:tangram:gpu-agent")
	same := fmt.Sprintf(`{"metadata":{"annotations":{"tangram.dev/devices":%q}}}`, p.Annotations[names.AnnotationDevices]+" ")
	if _, err := agent.client.CoreV1().Pods("team-b").Patch(t.Context(), p.Name, "application/merge-patch+json", []byte(same), metav1.PatchOptions{}); err != nil {
		t.Errorf("the agent: %v", err)
	}
}

func class(name string) func(*v1.Pod) { return func(p *v1.Pod) { p.Spec.PriorityClassName = name } }
