package property

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/record"
	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/core/ledger"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/place"
	"github.com/tangram-dev/tangram/core/planner"
	"github.com/tangram-dev/tangram/core/score"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// event is one step of a story; what it is about is drawn beforehand, so that the
// same story can be told twice.
type event struct {
	verb string
	ask  ask
	node int
	n    int
	// more pods, of a trial that is rolled back.
	more []ask
}

// TestAllVocabularies: pods of all vocabularies arrive, end, and lose devices and
// nodes in random order. After each step no device is over-committed and no MIG
// state illegal, by a model that knows only the records; a ledger rebuilt from the
// pods equals the one that lived; what is rolled back leaves no trace; and the story
// told again ends the same.
//
// go test ./test/property -rapid.checks=2000 tells more stories than CI does.
func TestAllVocabularies(t *testing.T) {
	if checks := flag.Lookup("rapid.checks"); checks.Value.String() == checks.DefValue {
		if err := checks.Value.Set("500"); err != nil {
			t.Fatal(err)
		}
	}
	// The failing story is in the output; a file of draws would only be committed by
	// mistake.
	if err := flag.Set("rapid.nofailfile", "true"); err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		var fleet []machine
		for i := range number(t, "nodes", 1, 4) {
			fleet = append(fleet, drawMachine(t, fmt.Sprintf("n%d", i)))
		}
		var story []event
		for i := range number(t, "steps", 5, 40) {
			e := event{
				verb: pick(t, "verb", "arrive", "arrive", "arrive", "arrive", "arrive", "lose", "foreign", "end", "end", "fail", "recover", "leave", "return", "restart", "trial"),
				node: number(t, "node", 0, len(fleet)-1), n: number(t, "which", 0, 9),
			}
			if e.verb == "arrive" || e.verb == "lose" || e.verb == "foreign" {
				e.ask = drawPod(t, fleet, 10*i)
			}
			if e.verb == "trial" {
				for j := range number(t, "tried", 1, 3) {
					e.more = append(e.more, drawPod(t, fleet, 10*i+j))
				}
			}
			story = append(story, e)
		}
		first, second := tell(t, fleet, story), tell(t, fleet, story)
		if first != second {
			t.Fatalf("told twice, ends differently:\n%s\nand\n%s", first, second)
		}
	})
}

// world is what a scheduler and an API server know between two steps.
type world struct {
	t       *rapid.T
	fleet   []machine
	sick    []map[int]bool
	gone    []bool
	pods    []*v1.Pod // bound, those that others bound too
	ours    map[string]bool
	ledger  *ledger.Ledger
	planner *planner.Planner
	told    []string
}

// tell tells a story to a new world and returns all that happened.
func tell(t *rapid.T, fleet []machine, story []event) string {
	w := &world{t: t, fleet: fleet, gone: make([]bool, len(fleet)), ours: map[string]bool{}, ledger: ledger.New()}
	w.planner = planner.New(w.ledger)
	for i := range fleet {
		w.sick = append(w.sick, map[int]bool{})
		w.syncNode(w.ledger, i)
	}
	for i, e := range story {
		w.say("%d %s", i, e.verb)
		w.step(e)
		w.check()
	}
	return strings.Join(w.told, "\n")
}

func (w *world) say(format string, args ...any) {
	w.told = append(w.told, fmt.Sprintf(format, args...))
}

func (w *world) fatal(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("%s\n%s\n\n%s", strings.Join(w.told, "\n"), w.ledger, fmt.Sprintf(format, args...))
}

func (w *world) step(e event) {
	m := w.fleet[e.node]
	switch e.verb {
	case "arrive":
		w.arrive(e.ask)
	case "lose": // placed, and the Binding fails
		before := w.ledger.String()
		if pod, _ := w.place(e.ask); pod != nil {
			w.ledger.Forget(model.HolderID(pod.UID))
		}
		if now := w.ledger.String(); now != before {
			w.fatal("a lost Binding leaves a trace; before it was\n%s", before)
		}
	case "foreign":
		pod := e.ask.pod.DeepCopy()
		w.bind(pod, m.name)
		w.pods = append(w.pods, pod)
		w.count(w.ledger, pod)
	case "end":
		if len(w.pods) > 0 {
			i := e.n % len(w.pods)
			for _, h := range dialect.Holders(w.pods[i]) {
				w.ledger.Drop(h)
			}
			delete(w.ours, w.pods[i].Name)
			w.pods = slices.Delete(w.pods, i, i+1)
		}
	case "fail", "recover":
		if m.devices > 0 {
			w.sick[e.node][e.n%m.devices] = e.verb == "fail"
			w.syncNode(w.ledger, e.node)
		}
	case "leave", "return":
		w.gone[e.node] = e.verb == "leave"
		w.syncNode(w.ledger, e.node)
	case "restart":
		w.restart(uint64(e.n))
	case "trial":
		before := w.ledger.String()
		tx := w.ledger.Begin()
		for _, a := range e.more {
			w.place(a)
		}
		if len(w.pods) > 0 {
			w.ledger.Drop(model.HolderID(w.pods[e.n%len(w.pods)].UID))
		}
		w.ledger.RemoveNode(model.NodeID(m.name))
		tx.Rollback()
		if now := w.ledger.String(); now != before {
			w.fatal("a trial leaves a trace; before it was\n%s", before)
		}
	}
}

func (w *world) publish(i int) (*v1.Node, *v1alpha1.GPUNode, *model.Node) {
	node, gn := w.fleet[i].publish(w.sick[i])
	inv, _ := dialect.Inventory(node, gn)
	// These stories are about devices: of resources that a family does not publish, in
	// this fleet, there is plenty.
	for _, name := range asked {
		if inv.Extras.Amount(name) == 0 {
			inv.Extras = inv.Extras.Plus(model.Extras{{Name: name, Amount: 1 << 40}})
		}
	}
	return node, gn, inv
}

// asked are the resources that pods ask for and kube-scheduler compares.
var asked = []string{
	"aliyun.com/gpu-core", "aliyun.com/gpu-core.percentage", "aliyun.com/gpu-mem", "amd.com/gpu", "gpu.intel.com/i915",
	"huawei.com/Ascend310P", "huawei.com/Ascend910B3", "huawei.com/Ascend910B3-memory", "huawei.com/npu-core",
	"nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/vgpu", "pods",
	"volcano.sh/gpu-memory", "volcano.sh/gpu-number", "volcano.sh/vgpu-cores", "volcano.sh/vgpu-memory", "volcano.sh/vgpu-memory-percentage", "volcano.sh/vgpu-number",
}

func (w *world) syncNode(l *ledger.Ledger, i int) {
	if w.gone[i] {
		l.RemoveNode(model.NodeID(w.fleet[i].name))
		return
	}
	_, _, inv := w.publish(i)
	if err := l.SetNode(inv); err != nil {
		w.fatal("%v", err)
	}
}

// count is what any reader of a bound pod counts it as.
func (w *world) count(l *ledger.Ledger, pod *v1.Pod) {
	claims, err := dialect.Claims(pod)
	if err != nil {
		w.fatal("%s: %v", pod.Name, err)
	}
	for _, c := range claims {
		l.Put(model.NodeID(pod.Spec.NodeName), c)
	}
}

func (w *world) bind(pod *v1.Pod, node string) {
	pod.Spec.NodeName = node
	since := metav1.NewTime(time.Unix(int64(len(w.told)/3), 0)) // some are bound in the same second
	pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionTrue, LastTransitionTime: since}}
}

// restart forgets everything and reads it again, in any order.
func (w *world) restart(seed uint64) {
	rebuilt := ledger.New()
	var all []func()
	for i := range w.fleet {
		all = append(all, func() { w.syncNode(rebuilt, i) })
	}
	for _, p := range w.pods {
		all = append(all, func() { w.count(rebuilt, p) })
	}
	rand.New(rand.NewPCG(seed, 1)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, read := range all {
		read()
	}
	if was, now := w.ledger.String(), rebuilt.String(); was != now {
		w.fatal("a restart changes the ledger to\n%s", now)
	}
	w.ledger = rebuilt
	w.planner = planner.New(rebuilt)
}

// field is how an error begins: the path of the field that is wrong.
var field = regexp.MustCompile(`^(spec\.(initContainers|containers)(\[\d+\]\.resources\.(requests|limits)\[[^]]+\])?|metadata\.(annotations|labels)\[[^]]+\]): .`)

// place does what Reserve does. It returns the pod as it would be bound, nil when
// it is not.
func (w *world) place(a ask) (*v1.Pod, *ledger.Claim) {
	r, err := dialect.Request(a.pod)
	if err != nil {
		if !field.MatchString(err.Error()) {
			w.fatal("refused, but the field is not named: %v", err)
		}
		w.say("  %s: %v", a.pod.Name, err)
		return nil, nil
	}
	if r == nil {
		return nil, nil
	}
	if err := r.Validate(); err != nil {
		w.fatal("the request of %s is not valid: %v", a.pod.Name, err)
	}
	w.planner.Arrive(r)
	if best, ok := w.planner.Best(r, score.DefaultWeights()); ok {
		v, _ := w.ledger.View(best.Node)
		grant, refusal := w.planner.Fit(r, v)
		if refusal != nil || fmt.Sprint(grant) != fmt.Sprint(best.Grant) {
			w.fatal("%s fits on %s by the planner with %v, by Fit with %v (%v)", a.pod.Name, best.Node, best.Grant, grant, refusal)
		}
		claim := dialect.ClaimOf(a.pod, r, v.Node, grant)
		w.ledger.Put(best.Node, claim)
		pod := a.pod.DeepCopy()
		text, err := record.Encode(dialect.Record(r, v.Node, grant))
		if err != nil {
			w.fatal("the record of %s cannot be written: %v", a.pod.Name, err)
		}
		maps.Copy(pod.Annotations, dialect.Annotations(a.pod, r, v.Node, grant, time.Unix(1, 0)))
		pod.Annotations[names.AnnotationDevices] = text
		w.bind(pod, string(best.Node))
		w.say("  %s: %s", pod.Name, text)
		return pod, &claim
	}
	for id := range w.ledger.Nodes() {
		v, _ := w.ledger.View(id)
		if _, refusal := place.Fit(r, v); refusal == nil && v.Covers(r) {
			w.fatal("%s fits on %s, and the planner knows no node: %+v", a.pod.Name, id, *r)
		}
	}
	reasons := w.planner.Reasons(r)
	w.say("  %s waits: %s", a.pod.Name, reasons.String())
	return nil, nil
}

// arrive places a pod for good and checks what it was given.
func (w *world) arrive(a ask) {
	pod, assumed := w.place(a)
	if pod == nil {
		return
	}
	claims, err := dialect.Claims(pod)
	if err != nil || len(claims) != 1 {
		w.fatal("%s does not prove its own record: %v, %v", pod.Name, claims, err)
	}
	if was, now := spell(*assumed), spell(claims[0]); was != now {
		w.fatal("%s: promised %s\nread back %s", pod.Name, was, now)
	}
	w.checkGiven(a, pod)
	w.ledger.Put(model.NodeID(pod.Spec.NodeName), claims[0])
	w.pods = append(w.pods, pod)
	w.ours[pod.Name] = true
}

// spell is a claim but for what binding adds, in canonical order.
func spell(c ledger.Claim) string {
	c.Assumed, c.Since = false, 0
	c.Devices, c.Parts = slices.Clone(c.Devices), slices.Clone(c.Parts)
	slices.SortFunc(c.Devices, func(a, b ledger.DeviceRef) int { return cmp.Compare(a.Index, b.Index) })
	slices.SortStableFunc(c.Parts, func(a, b ledger.HeldPart) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return fmt.Sprintf("%+v", c)
}

// checkGiven compares a new pod's record with what its words mean.
func (w *world) checkGiven(a ask, pod *v1.Pod) {
	at := slices.IndexFunc(w.fleet, func(m machine) bool { return m.name == pod.Spec.NodeName })
	_, _, inv := w.publish(at)
	rec, err := record.Decode(pod.Annotations[names.AnnotationDevices])
	if err != nil {
		w.fatal("%v", err)
	}
	for index := range indexes(rec) {
		sick := w.sick[at][index] && w.fleet[at].vendors[inv.Devices[inv.Slot(index, "")].Vendor]
		if w.gone[at] || sick {
			w.fatal("%s was given device %d of %s, which is not healthy", pod.Name, index, pod.Spec.NodeName)
		}
	}
	for name, want := range a.wishes {
		if want == nil {
			continue
		}
		got := devicesOf(rec, name)
		if len(got) != want.count {
			w.fatal("%s of %s was given %d devices, means %+v", name, pod.Name, len(got), want)
		}
		for _, d := range got {
			memory := int64(want.memory)
			if want.percent > 0 {
				memory = int64(inv.Devices[inv.Slot(d.Index, d.UUID)].Memory) * int64(want.percent) / 100
				if memory == 0 {
					w.fatal("%s of %s was given a percentage of nothing", name, pod.Name)
				}
			}
			// A whole device that is sold several times over is a turn on it.
			turn := want.turn || *want == (wish{count: want.count}) && inv.Devices[inv.Slot(d.Index, d.UUID)].Replicated
			if d.MemoryMiB != memory || d.ComputeMilli != want.milli || d.Turn != turn || d.MIG != want.profile {
				w.fatal("%s of %s was given %+v, means %+v (%d MiB)", name, pod.Name, d, want, memory)
			}
		}
	}
}

// check compares the state with the naive model.
func (w *world) check() {
	if err := w.ledger.Audit(); err != nil {
		w.fatal("%v", err)
	}
	for i, m := range w.fleet {
		node, gn, inv := w.publish(i)
		var pods []*v1.Pod
		for _, p := range w.pods {
			if p.Spec.NodeName == m.name && w.ours[p.Name] {
				pods = append(pods, p)
			}
		}
		uses, err := tally(pods)
		if err != nil {
			w.fatal("%v", err)
		}
		published := map[string]int64{}
		for _, index := range slices.Sorted(maps.Keys(uses)) {
			slot := inv.Slot(index, "")
			if slot < 0 || uses[index].check(inv.Devices[slot]) != nil {
				w.fatal("%s device %d: %v", m.name, index, uses[index].check(inv.Devices[max(0, slot)]))
			}
			if gn == nil { // cut by somebody who publishes numbers only
				for _, s := range uses[index].slices {
					published[s.profile]++
				}
				if len(uses[index].slices) > 1 {
					w.fatal("%s device %d is one instance, of %v", m.name, index, uses[index].slices)
				}
				continue
			}
			if err := checkCuts(uses[index].slices, listed(gn)); err != nil {
				w.fatal("%s device %d: %v", m.name, index, err)
			}
		}
		for profile, n := range published {
			if q := node.Status.Allocatable[v1.ResourceName("nvidia.com/mig-"+profile)]; n > q.Value() {
				w.fatal("%s publishes %s instances of %s, %d are used", m.name, q.String(), profile, n)
			}
		}
		w.checkHeld(inv, pods)
	}
}

// listed says whether a node's agent lists a place for a profile.
func listed(gn *v1alpha1.GPUNode) func(profile string, start int) bool {
	cut := gn.Spec.Devices[0].MIG // all are cut alike
	return func(profile string, start int) bool {
		same := func(name string) bool { return strings.ReplaceAll(name, "+", ".") == profile }
		switch {
		case cut == nil:
			return false
		case len(cut.Instances) > 0:
			return slices.ContainsFunc(cut.Instances, func(in v1alpha1.MIGInstance) bool { return same(in.Profile) && int(in.Start) == start })
		case len(cut.Profiles) > 0:
			return slices.ContainsFunc(cut.Profiles, func(p v1alpha1.MIGProfile) bool { return same(p.Name) && slices.Contains(p.Starts, int32(start)) })
		}
		return true
	}
}

// checkHeld: whom Tangram gave devices holds these and no others, whoever else is
// there.
func (w *world) checkHeld(inv *model.Node, pods []*v1.Pod) {
	if _, there := w.ledger.View(inv.ID); !there {
		return
	}
	for _, c := range w.ledger.Contested(inv.ID) {
		w.fatal("the record of %s is not believed: device %d", c.Holder, c.Index)
	}
	for _, p := range pods {
		rec, _ := record.Decode(p.Annotations[names.AnnotationDevices])
		var want model.Mask
		for index := range indexes(rec) {
			want = want.With(inv.Slot(index, ""))
		}
		if _, got := w.ledger.Held(model.HolderID(p.UID)); got != want {
			w.fatal("%s was given %b and holds %b", p.Name, want, got)
		}
	}
}
