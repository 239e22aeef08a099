package dialect

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tangram-dev/tangram/api/names"
)

// TestKueueGroups: plain pods of a pod group are a gang by Kueue's words alone. What Kueue
// makes of a controller's pods is left to the controller.
func TestKueueGroups(t *testing.T) {
	set := &metav1.OwnerReference{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "web"}
	job := &metav1.OwnerReference{APIVersion: "batch/v1", Kind: "Job", Name: "train"}
	group := pairs{labelKueueGroup: "g"}
	for name, tt := range map[string]struct {
		pod  *v1.Pod
		key  string
		size int
	}{
		"plain pods":        {podWith(group, pairs{annotationKueueTotal: "3"}, nil), "kueue/team/g", 3},
		"one pod":           {podWith(group, pairs{annotationKueueTotal: "1"}, nil), "kueue/team/g", 1},
		"pods of several":   {podWith(group, pairs{annotationKueueTotal: "3"}, job), "kueue/team/g", 3},
		"our labels win":    {podWith(pairs{labelKueueGroup: "g", names.LabelGang: "x", names.LabelGangSize: "2"}, pairs{annotationKueueTotal: "3"}, nil), "label/team/x", 2},
		"a PodGroup wins":   {podWith(group, pairs{annotationKueueTotal: "3", names.AnnotationKubeGroup: "pg"}, nil), "podgroup/team/pg", 0},
		"of a StatefulSet":  {podWith(group, pairs{annotationKueueTotal: "3", annotationKueueParent: "statefulset", annotationKueueFast: "true"}, set), "", 0},
		"of a Job":          {podWith(group, pairs{annotationKueueTotal: "3", annotationKueueParent: "x"}, job), "owner/team/u1", 0},
		"one after another": {podWith(group, pairs{annotationKueueTotal: "3", annotationKueueFast: "true"}, nil), "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := MembershipOf(tt.pod)
			if err != nil || m.Key != tt.key || m.Size != tt.size {
				t.Errorf("got %q of %d, %v, want %q of %d", m.Key, m.Size, err, tt.key, tt.size)
			}
		})
	}
	for text, want := range map[string]string{
		"":    `"" is not a number from 1 to`,
		"0":   `"0" is not a number from 1 to`,
		"-1":  `"-1" is not a number`,
		"all": `"all" is not a number`,
		"1e9": `"1e9" is not a number`,
	} {
		_, err := MembershipOf(podWith(group, pairs{annotationKueueTotal: text}, nil))
		if want = "metadata.annotations[" + annotationKueueTotal + "]: " + want; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
	if _, err := MembershipOf(podWith(group, nil, nil)); err == nil || !strings.Contains(err.Error(), `missing, how many pods group "g" has`) {
		t.Errorf("without a count: got %v", err)
	}
	if key, value := SharedLabel(podWith(group, pairs{annotationKueueTotal: "3"}, nil)); key != labelKueueGroup || value != "g" {
		t.Errorf("shared label: got %s=%s", key, value)
	}
	a := Member{Pod: "team/a", Membership: Membership{Key: "kueue/team/g", Size: 2}}
	b := Member{Pod: "team/b", Membership: Membership{Key: "kueue/team/g", Size: 3}}
	if err := Contradiction(a, b, nil); err == nil || !strings.Contains(err.Error(), "metadata.annotations["+annotationKueueTotal+"]: 2 of pod team/a, 3 of pod team/b") {
		t.Errorf("counts that differ: got %v", err)
	}
}
