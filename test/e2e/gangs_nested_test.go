package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/lab/local"
	"github.com/tangram-dev/tangram/test/cluster"
)

// TestHierarchicalGangs: prefill and decode groups of a gang, each of them whole, in a rack
// each; and what is said of those that wait.
func TestHierarchicalGangs(t *testing.T) {
	t.Parallel()
	w := newGangWorld(t, local.Options{}, `
pools:
- {name: n, count: 8, gpu: {model: A100-80GB, count: 8}, rack: {size: 2}}
`)
	w.Scheduler(nil)
	w.each(t, []step{
		{"InRacks", nestedInRacks}, {"Contention", nestedContention}, {"TooLarge", nestedTooLarge}, {"SomeOfThem", nestedSome},
		{"MemberLost", nestedMemberLost}, {"PodGroup", nestedPodGroup}, {"SubGroupPolicy", nestedPolicy}, {"Wrong", nestedWrong},
	})
}

// subgroup creates the pods of a subgroup: gang-name-0 and so on.
func (w *world) subgroup(gang, name, groups string, n, gpus int, change ...func(*v1.Pod)) {
	w.T.Helper()
	for i := range n {
		change := append([]func(*v1.Pod){
			cluster.Label(names.LabelGang, gang), cluster.Label(names.LabelGangGroup, name), cluster.Annotate(names.AnnotationGangGroups, groups),
		}, change...)
		w.Create(pod(fmt.Sprintf("%s-%s-%d", gang, name, i), gpus, change...))
	}
}

// serving creates prefill groups of two nodes and decode groups of one, in a rack each.
func (w *world) serving(gang string, prefill, decode int, change ...func(*v1.Pod)) {
	w.T.Helper()
	list := func(kind string, n int) string {
		var out []string
		for i := range n {
			out = append(out, fmt.Sprintf("%s-%d", kind, i))
		}
		return strings.Join(out, " ")
	}
	groups := list("prefill", prefill) + ": min=2 required=rack"
	if decode > 0 {
		groups += "; " + list("decode", decode) + ": min=2 required=rack"
	}
	for i := range max(prefill, decode) { // as they come, one of each
		if i < decode {
			w.subgroup(gang, fmt.Sprint("decode-", i), groups, 2, 4, change...)
		}
		if i < prefill {
			w.subgroup(gang, fmt.Sprint("prefill-", i), groups, 2, 8, change...)
		}
	}
}

// racks are the racks of the pods with a prefix, and how many there are of them.
func (w *world) racks(prefix string) map[string]int {
	w.T.Helper()
	out := map[string]int{}
	for _, p := range w.AllPods() {
		if strings.HasPrefix(p.Name, prefix) && p.Spec.NodeName != "" {
			node := cluster.Read[v1.Node](w.World, cluster.Nodes, p.Spec.NodeName)
			out[node.Labels["topology.kubernetes.io/rack"]]++
		}
	}
	return out
}

// inOneRack checks that all of so many pods with a prefix are in one rack.
func (w *world) inOneRack(prefix string, n int) {
	w.T.Helper()
	racks := w.racks(prefix)
	for _, got := range racks {
		if len(racks) != 1 || got != n {
			w.T.Errorf("%s*: %v, want %d in one rack", prefix, racks, n)
		}
	}
}

// nestedInRacks: two prefill groups fill two racks, four decode groups the others.
func nestedInRacks(w *world) {
	w.serving("s", 2, 4)
	w.gangNodes("s-", 12)
	for i := range 2 {
		w.inOneRack(fmt.Sprintf("s-prefill-%d-", i), 2)
	}
	for i := range 4 {
		w.inOneRack(fmt.Sprintf("s-decode-%d-", i), 2)
	}
	w.CheckRecords()
}

// nestedContention: of gangs that together need twice what there is, some run whole and
// none in part, however their pods come.
func nestedContention(w *world) {
	gangs := []string{"a", "b", "c", "d"}
	for _, g := range gangs {
		w.serving(g, 1, 2) // two racks of four
	}
	bound := func() (whole int, half string) {
		for _, g := range gangs {
			switch n := len(w.racks(g + "-")); {
			case n == 0:
			default:
				sum := 0
				for _, k := range w.racks(g + "-") {
					sum += k
				}
				if sum != 6 {
					half += fmt.Sprintf("%s has %d of 6 ", g, sum)
				} else {
					whole++
				}
			}
		}
		return whole, half
	}
	w.Eventually("two gangs are whole, none is half", func() (bool, string) {
		whole, half := bound()
		return whole == 2 && half == "", fmt.Sprint(whole, " ", half)
	})
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		if whole, half := bound(); whole != 2 || half != "" {
			w.T.Fatalf("%d whole, %s", whole, half)
		}
	}
}

// nestedTooLarge: five racks of four: none starts, and is told which subgroup has no room.
func nestedTooLarge(w *world) {
	w.serving("big", 5, 0)
	w.Waits("big-prefill-0-0", `can never fit on the nodes there are: needs 10 members, 8 can be placed; subgroup "prefill-4" needs 2 members in one rack, and no rack has room for them`)
	w.noneBound("big-", 2*time.Second)
}

// nestedSome: two groups of three are enough; the third comes whole when there is room.
func nestedSome(w *world) {
	w.createGang("full", 3, 8)
	w.gangNodes("full-", 3) // of the four racks two are left
	const groups = "*: groups=2; x y z: min=2 required=rack"
	for _, name := range []string{"x", "y", "z"} {
		w.subgroup("some", name, groups, 2, 8)
	}
	w.gangNodes("some-", 4)
	for i := range 3 {
		w.Delete(fmt.Sprintf("full-%d", i))
	}
	w.gangNodes("some-", 6)
	for _, name := range []string{"x", "y", "z"} {
		w.inOneRack("some-"+name, 2)
	}
}

// nestedMemberLost: a member that comes again goes to the rack of its group.
func nestedMemberLost(w *world) {
	w.serving("lost", 2, 0)
	w.gangNodes("lost-", 4)
	w.Delete("lost-prefill-1-0")
	w.waitsNone("lost-prefill-0-")
	w.subgroup("lost", "prefill-1", w.Get("lost-prefill-0-0").Annotations[names.AnnotationGangGroups], 1, 8)
	w.gangNodes("lost-", 4)
	w.inOneRack("lost-prefill-1-", 2)
}

// waitsNone checks that pods with a prefix still have their nodes.
func (w *world) waitsNone(prefix string) {
	w.T.Helper()
	for _, p := range w.AllPods() {
		if strings.HasPrefix(p.Name, prefix) && p.Spec.NodeName == "" {
			w.T.Errorf("%s lost its node", p.Name)
		}
	}
}

// nestedPodGroup: the PodGroup says which subgroups there are.
func nestedPodGroup(w *world) {
	w.Apply(`{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, metadata: {name: pg, namespace: default, annotations: {tangram.dev/gang-groups: "a b: min=2 required=rack"}}, spec: {minMember: 4}}`)
	for _, name := range []string{"a", "b"} {
		for i := range 2 {
			w.Create(pod(fmt.Sprintf("pg-%s-%d", name, i), 8, cluster.Annotate(names.AnnotationKubeGroup, "pg"), cluster.Label(names.LabelGangGroup, name)))
		}
	}
	w.gangNodes("pg-", 4)
	w.inOneRack("pg-a-", 2)
	w.inOneRack("pg-b-", 2)
}

// nestedPolicy: Volcano's subGroupPolicy, by the label of its Jobs' partitions. The last
// partition does not exist yet, so none starts; then all do.
func nestedPolicy(w *world) {
	w.Apply(`{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, metadata: {name: v, namespace: default}, spec: {minMember: 6, subGroupPolicy: [
		{name: tp, subGroupSize: 2, minSubGroups: 3, matchLabelKeys: [volcano.sh/partition-id], networkTopology: {mode: hard, highestTierName: rack}}]}}`)
	partition := func(n int) {
		for i := range 2 {
			w.Create(pod(fmt.Sprintf("v-%d-%d", n, i), 8, cluster.Annotate(names.AnnotationKubeGroup, "v"), cluster.Label("volcano.sh/partition-id", fmt.Sprint(n))))
		}
	}
	partition(0)
	partition(1)
	w.Event("Pod", "v-0-0", `waits for members: `, `"tp/(2)": 0 of 2 exist`)
	w.noneBound("v-", time.Second)
	partition(2)
	w.gangNodes("v-", 6)
	for i := range 3 {
		w.inOneRack(fmt.Sprintf("v-%d-", i), 2)
	}
}

// nestedWrong: an invalid specification is told by its field; valid pods start without it.
func nestedWrong(w *world) {
	w.subgroup("w", "a", "a b: min=1", 1, 1)
	w.subgroup("w", "c", "a b: min=1", 1, 1)
	w.Waits("w-a-0", `pod w-c-0: metadata.labels[tangram.dev/gang-group]: "c" is not one of a, b`)
	w.Delete("w-c-0")
	w.Event("Pod", "w-a-0", `waits for members: subgroup "b": 0 of 1 exist`)
	w.subgroup("w", "b", "a b: min=1", 1, 1)
	w.gangNodes("w-", 2)
}
