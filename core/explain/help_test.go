package explain_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tangram-dev/tangram/core/explain"
	"github.com/tangram-dev/tangram/core/model"
)

// caseOf is a case of a code, with numbers: of a code of nodes, three nodes have it.
func caseOf(code explain.Code) *explain.Case {
	c := &explain.Case{Namespace: "ml", Object: "job/train", Queue: "team-a", Size: 4}
	if code.Class() == explain.OfNode {
		c.Reason = explain.Reason{Code: explain.Nodes, Need: 1}
		for i := range 3 {
			c.Reason.Nodes.AddNode(explain.Refusal{Code: code, Need: 7, Best: 5, Detail: "cpu"}, model.NodeID(fmt.Sprintf("n%d", i)))
		}
		return c
	}
	c.Reason = explain.Reason{
		Code: code, Need: 7, Exist: 5, Level: "rack", Queue: "team-a", Namespace: "ml", Resource: "gpu/nvidia",
		Want: 4000, Limit: 8000, Used: 6000, Ahead: 3, Detail: "spec.x: is wrong",
	}
	return c
}

// ofNodes are the codes that are counted per node.
func ofNodes() (out []explain.Code) {
	for c := explain.Code(1); c < explain.Codes; c++ {
		if c.Class() == explain.OfNode {
			out = append(out, c)
		}
	}
	return out
}

// TestEveryCodeHelps: for every code there is a remedy with a person or time behind it, for
// the page and for a case, and it has the numbers of the case where the code has any.
func TestEveryCodeHelps(t *testing.T) {
	numbers := map[explain.Code][]string{
		explain.TooFew: {"5 GPUs", "7 GPUs"}, explain.WrongModel: {"5 GPUs", "7 GPUs"}, explain.WrongDevice: {"5", "7"},
		explain.SmallMemory: {"5 MiB", "7 MiB"}, explain.SmallHost: {"0.005 CPUs", "0.007 CPUs"}, explain.Unhealthy: {"5", "7"},
		explain.DevicesCordoned: {"2 GPUs", "5 GPUs"}, explain.Apart: {"5 GPUs", "7 GPUs"}, explain.Taken: {"7 GPUs of one node have cpu", "2 more"},
		explain.FreeApart: {"7 GPUs", "2 more"}, explain.BusyHost: {"0.007 CPUs", "0.002 CPUs", "0.005 CPUs"}, explain.TooClose: {"5 of 7"},
		explain.NoCompany: {"5 of 7"}, explain.TooSmall: {"5 of 7 GPUs"}, explain.Cordoned: {"3 nodes"}, explain.Tainted: {"3 nodes"}, explain.Isolated: {"3 nodes are isolated by gpu-controller"},
		explain.Neighbor: {"3 nodes"}, explain.Filtered: {"3 nodes"}, explain.NoDevices: {"3 nodes"}, explain.Unselected: {"3 nodes"},
		explain.Members: {"2 more members", "from 7 to 5"}, explain.NoDomain: {"7 members", "rack"},
		explain.OverQuota:      {"from 8 nvidia GPUs to 10 nvidia GPUs", "use 2 nvidia GPUs", "at most 2 nvidia GPUs"},
		explain.OverCapability: {"from 8 nvidia GPUs to 10 nvidia GPUs", "use 2 nvidia GPUs"},
		explain.Guaranteed:     {"by 2 nvidia GPUs"}, explain.OverTotal: {"with 2 nvidia GPUs"},
		explain.QuotaKept: {"3 jobs"}, explain.NodesKept: {"3 jobs"}, explain.Turn: {"3 jobs"},
	}
	for _, e := range explain.Reference() {
		if e.Meaning == "" || len(e.Helps) == 0 {
			t.Errorf("%s: meaning %q, %d remedies", e.Code, e.Meaning, len(e.Helps))
		}
		for _, h := range e.Helps {
			if h.Who.String() == "unspecified" || !strings.HasSuffix(h.What, ".") {
				t.Errorf("%s: %+v", e.Code, h)
			}
		}
		var said []string
		for _, h := range explain.Helps(caseOf(e.Code)) {
			said = append(said, h.Text)
			if h.Who.String() == "unspecified" || !strings.HasSuffix(h.Text, ".") || strings.Contains(h.Text, "%!") || strings.Contains(h.Command, "%!") {
				t.Errorf("%s: %+v", e.Code, h)
			}
		}
		if len(said) == 0 {
			t.Errorf("%s: nothing helps", e.Code)
		}
		for _, number := range numbers[e.Code] {
			if !strings.Contains(strings.Join(said, " "), number) {
				t.Errorf("%s: %q does not say %q", e.Code, said, number)
			}
		}
	}
	if got := explain.Helps(&explain.Case{}); got != nil {
		t.Errorf("without a reason: %v", got)
	}
}

// TestHelpsAreBounded: whatever the reason, something helps, not too much of it, nothing
// twice; what can never start does not wait for time.
func TestHelpsAreBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := caseOf(explain.Code(rapid.IntRange(1, int(explain.Codes)-1).Draw(t, "code")))
		c.Reason.Never = rapid.Bool().Draw(t, "never")
		c.Reason.Used = rapid.Int64Range(0, 20000).Draw(t, "used")
		c.Lower, c.NextEnd = rapid.IntRange(0, 3).Draw(t, "lower"), time.Duration(rapid.Int64Range(0, 1e15).Draw(t, "end"))
		if rapid.Bool().Draw(t, "kept") {
			c.Reason.Prospect = explain.Prospect{Nodes: []model.NodeID{"a"}, At: rapid.Int64Range(0, 1e18).Draw(t, "at"), Freeing: rapid.Bool().Draw(t, "freeing")}
		}
		need := rapid.Int64Range(1, 20).Draw(t, "need") // all lines of a tally are of one request
		lines := rapid.IntRange(0, 8).Draw(t, "lines")
		if lines > 0 {
			c.Reason.Nodes = explain.Tally{}
		}
		for range lines {
			code := rapid.SampledFrom(ofNodes()).Draw(t, "line")
			c.Reason.Nodes.Add(explain.Refusal{Code: code, Need: need, Best: rapid.Int64Range(0, need-1).Draw(t, "best"), Detail: rapid.SampledFrom([]string{"", "cpu", "a=b:NoSchedule"}).Draw(t, "detail")}, rapid.IntRange(1, 9).Draw(t, "nodes"))
		}
		helps := explain.Helps(c)
		if len(helps) == 0 || len(helps) > 6 {
			t.Fatalf("%d helps", len(helps))
		}
		seen := map[string]bool{}
		for _, h := range helps {
			if seen[h.Text] || h.Text == "" || strings.Contains(h.Text, " -") {
				t.Fatalf("%+v", helps)
			}
			seen[h.Text] = true
			if c.Reason.Never && h.Who == explain.Passage && len(helps) > 1 {
				t.Fatalf("it can never start, and yet: %+v", h)
			}
		}
	})
}

// TestLimitHelps: what is proposed for a limit is exactly what is needed: with one less the
// gang would still wait.
func TestLimitHelps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := explain.Reason{
			Code:     rapid.SampledFrom([]explain.Code{explain.OverQuota, explain.OverCapability}).Draw(t, "code"),
			Resource: "cpu", Queue: "q", Namespace: "n",
			Limit: 1000 * rapid.Int64Range(1, 50).Draw(t, "limit"), Want: 1000 * rapid.Int64Range(1, 50).Draw(t, "want"),
		}
		r.Used = max(0, r.Limit-r.Want+1000*rapid.Int64Range(1, 9).Draw(t, "over"))
		r.Never = r.Want > r.Limit
		helps := explain.Helps(&explain.Case{Reason: r, Spell: func(_ string, amount int64) (string, string) { return "cpu", fmt.Sprint(amount / 1000) }})
		var raised bool
		for _, h := range helps {
			if h.Who == explain.Administrator {
				raised = strings.Contains(h.Text, "to "+explain.Quantity("cpu", r.Used+r.Want)) && strings.Contains(h.Text+h.Command, fmt.Sprint((r.Used+r.Want)/1000))
			}
			if strings.HasPrefix(h.Text, "It starts when") && !strings.Contains(h.Text, explain.Quantity("cpu", r.Used+r.Want-r.Limit)) {
				t.Fatalf("%+v for %+v", h, r)
			}
			if left := r.Limit - r.Used; strings.HasPrefix(h.Text, "Ask for at most") && !r.Never && !strings.Contains(h.Text, explain.Quantity("cpu", left)) {
				t.Fatalf("%+v for %+v", h, r)
			}
		}
		if !raised {
			t.Fatalf("%+v for %+v", helps, r)
		}
	})
}

// TestCommandsAreSafe: what a tenant wrote does not get into a command that others may run.
func TestCommandsAreSafe(t *testing.T) {
	for _, queue := range []string{"x'; rm -rf ~; '", "$(reboot)", "a`b`", "--all", "a\nb", `"},"x":{"`} {
		c := caseOf(explain.NoQueue)
		c.Reason.Queue = queue
		for _, code := range []explain.Code{explain.NoQueue, explain.QueueClosed, explain.QueueForbidden, explain.OverCapability} {
			c.Reason.Code = code
			for _, h := range explain.Helps(c) {
				if strings.Contains(h.Command, queue) {
					t.Errorf("%s: %q", code, h.Command)
				}
			}
		}
	}
}

// TestExamples: the first nodes by ID are remembered, whatever the order they come in, and
// commands name them where they are passed on.
func TestExamples(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		order := rapid.Permutation([]string{"a", "b", "c", "d", "e", "b"}).Draw(t, "order")
		var tally explain.Tally
		for _, id := range order {
			tally.AddNode(explain.Refusal{Code: explain.Cordoned}, model.NodeID(id))
		}
		line := tally.Lines()[0]
		if got := fmt.Sprint(line.Examples()); got != "[a b c]" || line.Nodes != 6 {
			t.Fatalf("%s of %d after %v", got, line.Nodes, order)
		}
		c := &explain.Case{Reason: explain.Reason{Code: explain.Nodes, Need: 1, Nodes: tally}}
		if got := explain.Helps(c)[0].Command; got != "kubectl uncordon NODE" {
			t.Fatal(got)
		}
		c.Examples = func(explain.Line) []string { return []string{"a", "b"} }
		if got := explain.Helps(c)[0].Command; got != "kubectl uncordon a b" {
			t.Fatal(got)
		}
	})
}

// TestAnonymous: nodes that are kept are counted, not named.
func TestAnonymous(t *testing.T) {
	r := explain.Reason{Code: explain.Turn, Prospect: explain.Prospect{Nodes: []model.NodeID{"secret-1", "secret-2"}}}
	if a := r.Anonymous(); strings.Contains(a.String(), "secret") || !strings.Contains(a.String(), "2 nodes kept") {
		t.Error(a.String())
	}
	if !strings.Contains(r.String(), "secret-1") {
		t.Error("the reason itself was changed")
	}
}

// What describes hardware is not to be written on another node by hand, and pods that take a
// share of a card are not told to make room for CPUs.
func TestHelpsOfDevices(t *testing.T) {
	tests := []struct {
		refusal   explain.Refusal
		want, not string
	}{
		{explain.Refusal{Code: explain.WrongNode, Detail: "accelerator=nvidia-tesla-a100"}, "Add a node with the label accelerator=nvidia-tesla-a100", "kubectl label"},
		{explain.Refusal{Code: explain.Unselected, Detail: "nodeSelector nvidia.com/gpu.product=H200"}, "Add a node with the label nvidia.com/gpu.product=H200", "kubectl label"},
		{explain.Refusal{Code: explain.Unselected, Detail: "nodeSelector disk=ssd"}, "kubectl label node NODE disk=ssd", "hardware"},
		{explain.Refusal{Code: explain.BusyHost, Need: 1, Detail: "nvidia.com/gpu"}, "more nvidia.com/gpu for each card", "pods without GPUs"},
		{explain.Refusal{Code: explain.BusyHost, Need: 1, Detail: "cpu"}, "Move pods without GPUs", "for each card"},
	}
	for _, tt := range tests {
		c := &explain.Case{Reason: explain.Reason{Code: explain.Nodes},
			Devices:  func(resource string) bool { return resource == "nvidia.com/gpu" },
			Hardware: func(label string) bool { return label != "disk" }}
		c.Reason.Nodes.AddNode(tt.refusal, "n0")
		said := fmt.Sprint(explain.Helps(c))
		if !strings.Contains(said, tt.want) || strings.Contains(said, tt.not) {
			t.Errorf("%v: %s; want %q and not %q", tt.refusal, said, tt.want, tt.not)
		}
	}
}

// TestNotByHand: what a controller set and takes back by itself is not to be taken away by
// hand: pods would come to a node that is sick.
func TestNotByHand(t *testing.T) {
	for name, c := range map[string]struct {
		refusal explain.Refusal
		says    []string
		command string
	}{
		"isolated":    {explain.Refusal{Code: explain.Isolated, Detail: "NodeNotReady"}, []string{"isolated by gpu-controller (NodeNotReady)", "by itself when kubelet reports it as ready again"}, "tangram diagnose n1"},
		"driver":      {explain.Refusal{Code: explain.Isolated, Detail: "DriverNotReady"}, []string{"(DriverNotReady)", "when the GPU driver answers again"}, "tangram diagnose n1"},
		"maintenance": {explain.Refusal{Code: explain.Isolated, Detail: "Maintenance"}, []string{"End the maintenance", "annotation tangram.dev/maintenance"}, "tangram diagnose n1"},
		"not ready":   {explain.Refusal{Code: explain.Tainted, Detail: "node.kubernetes.io/unreachable:NoSchedule"}, []string{"Kubernetes set the taint node.kubernetes.io/unreachable:NoSchedule"}, "kubectl describe node n1"},
	} {
		t.Run(name, func(t *testing.T) {
			kase := &explain.Case{Reason: explain.Reason{Code: explain.Nodes, Need: 1}, Examples: func(l explain.Line) []string { return []string{string(l.Examples()[0])} }}
			kase.Reason.Nodes.AddNode(c.refusal, "n1")
			helps := explain.Helps(kase)
			if len(helps) != 1 || helps[0].Who != explain.Administrator || helps[0].Command != c.command {
				t.Fatalf("%+v", helps)
			}
			for _, part := range c.says {
				if !strings.Contains(helps[0].Text, part) {
					t.Errorf("%q lacks %q", helps[0].Text, part)
				}
			}
			if text := kase.Reason.String(); c.refusal.Code == explain.Isolated && !strings.Contains(text, "1 is isolated by gpu-controller ("+c.refusal.Detail+")") {
				t.Error(text)
			}
		})
	}
}

// TestLevelHelps: the level and its label are named, each where it belongs.
func TestLevelHelps(t *testing.T) {
	c := &explain.Case{Reason: explain.Reason{Code: explain.Nodes, Need: 2, Level: "rack"}}
	c.Reason.Nodes.AddNode(explain.Refusal{Code: explain.WrongDomain, Detail: model.Level{Name: "rack", Label: "l/rack"}.Labelled()}, "n1")
	want := []explain.Help{
		{Who: explain.Administrator, Text: "Give nodes the label l/rack, with the name of their rack: 1 node has none.", Command: "kubectl get nodes -L l/rack"},
		{Who: explain.Owner, Text: "Do not require one rack, only prefer it (annotation tangram.dev/topology: preferred=rack)."},
	}
	if got := explain.Helps(c); !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
}

// TestLargestOfSome: what the largest node has is said of all nodes only where they all lack
// it: beside nodes that are merely taken it would be wrong.
func TestLargestOfSome(t *testing.T) {
	tally := func(refusals ...explain.Refusal) string {
		c := &explain.Case{Reason: explain.Reason{Code: explain.Nodes, Need: 1}}
		for i, r := range refusals {
			c.Reason.Nodes.AddNode(r, model.NodeID(fmt.Sprint("n", i)))
		}
		return fmt.Sprint(explain.Helps(c))
	}
	few, small, taken := explain.Refusal{Code: explain.TooFew, Need: 8, Best: 4}, explain.Refusal{Code: explain.SmallMemory, Need: 80000, Best: 40000}, explain.Refusal{Code: explain.Taken, Need: 8, Best: 7}
	if got := tally(few, few); !strings.Contains(got, "Ask for at most 4 GPUs per pod, which is what the largest node has") || !strings.Contains(got, "Add a node with at least 8 GPUs.") {
		t.Error(got)
	}
	if got := tally(few, few, taken); !strings.Contains(got, "Ask for at most 4 GPUs per pod, which is what the largest of 2 nodes has") || strings.Contains(got, "Add a node with at least") {
		t.Error(got)
	}
	if got := tally(small, taken); !strings.Contains(got, "40000 MiB of memory per GPU: the largest GPU of 1 node has that") || strings.Contains(got, "Add a node with GPUs of at least") {
		t.Error(got)
	}
}
