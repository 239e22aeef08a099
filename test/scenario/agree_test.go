package scenario

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"
)

// TestCoreAndPluginAgree tells random stories to core and to the plugins. What
// core decides is what a pod gets from kube-scheduler, and who waits is told the
// same; after every step both know the same of every device.
func TestCoreAndPluginAgree(t *testing.T) {
	// A story takes a quarter of a second, so a run tells fewer than rapid would;
	// -rapid.checks=1000 tells more.
	if checks := flag.Lookup("rapid.checks"); checks.Value.String() == checks.DefValue {
		if err := checks.Value.Set("20"); err != nil {
			t.Fatal(err)
		}
	}
	// The failing story is in the output; a file of draws would only be committed
	// by mistake.
	if err := flag.Set("rapid.nofailfile", "true"); err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		plugins := &pluginEngine{stop: func() {}, hasty: true}
		defer func() { plugins.stop() }()
		d := &drawer{t: t, core: newStory(NewCore()), plugin: newStory(plugins)}
		for _, s := range []*story{d.core, d.plugin} {
			if err := s.engine.Reset(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		for i := range rapid.IntRange(1, 3).Draw(t, "nodes") {
			d.tell("nodes\n" + d.node(fmt.Sprintf("n-%d", i)))
		}
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			d.step()
		}
	})
}

// drawer makes up a story as it goes on.
type drawer struct {
	t            *rapid.T
	core, plugin *story
	told         []string
	pods         int
}

// tell gives a step to both engines and compares the answers.
func (d *drawer) tell(text string) {
	d.told = append(d.told, text)
	for _, step := range []string{text, "devices"} {
		want := d.say(d.core, step, "")
		if got := d.say(d.plugin, step, want); got != want {
			d.t.Fatalf("%s\n\ncore says:\n%s\nthe plugins say:\n%s", strings.Join(d.told, "\n\n"), want, got)
		}
	}
}

func (d *drawer) say(s *story, text, expected string) string {
	first, input, _ := strings.Cut(text, "\n")
	cmd, args, err := datadriven.ParseLine(first)
	if err != nil {
		d.t.Fatal(err)
	}
	out, err := s.step(context.Background(), &datadriven.TestData{Cmd: cmd, CmdArgs: args, Input: input, Expected: expected})
	if err != nil {
		d.t.Fatalf("%s\n\n%s: %v", strings.Join(d.told, "\n\n"), s.engine.Name(), err)
	}
	return out
}

func (d *drawer) pick(label string, from ...string) string {
	return rapid.SampledFrom(from).Draw(d.t, label)
}

// anyPod is a pod that exists, or "".
func (d *drawer) anyPod() string {
	state, err := d.core.engine.Observe(context.Background())
	if err != nil {
		d.t.Fatal(err)
	}
	var names []string
	for _, name := range d.core.order {
		if pod := state.Pods[name]; pod != nil && !ended(pod) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return d.pick("pod", names...)
}

func (d *drawer) step() {
	node := d.pick("node", "n-0", "n-1", "n-2")
	exists, agent := d.core.nodes[node] != nil, d.core.gpuNodes[node] != nil
	pod := d.anyPod()
	switch verb := d.pick("verb", "submit", "submit", "submit", "submit", "gang", "gang", "foreign", "record", "delete", "finish", "terminate",
		"health", "health", "measure", "label", "allocatable", "nodes", "remove-node", "kill"); verb {
	case "submit":
		d.tell("submit\n" + d.pod())
	case "gang":
		// In one queue: between queues balances over time decide, and time is not the same.
		size := rapid.IntRange(2, 3).Draw(d.t, "size")
		first := d.next()
		members := fmt.Sprintf("p-%d-[1-%d] %s %s", first, size, d.pick("gpus", "gpus=1", "gpus=2", "gpus=4"),
			d.pick("domain", "", "", "annotation=tangram.dev/topology=required=rack", "apart=app=x label=app=x"))
		d.tell(fmt.Sprintf("gang g-%d size=%d\n%s", first, size, members))
	case "foreign":
		d.tell("foreign\n" + d.pod() + " node=" + node)
	case "record":
		text := fmt.Sprintf(`{"version":1,"node":"%s","containers":[{"name":"main","resource":"nvidia.com/gpu","devices":[{"index":%d}]}]}`,
			d.pick("recorded node", "n-0", "n-1"), rapid.IntRange(0, 4).Draw(d.t, "recorded device"))
		d.tell(fmt.Sprintf("record\np-%d gpus=1 node=%s record=%s", d.next(), node, text))
	case "delete", "finish", "terminate":
		if pod != "" && (verb != "terminate" || !strings.Contains(d.core.shown[pod], " waits")) {
			d.tell(verb + " " + pod)
		}
	case "health":
		if exists && agent {
			d.tell(fmt.Sprintf("health %s %d=%s", node, rapid.IntRange(0, 4).Draw(d.t, "device"), d.pick("health", "Healthy", "Healthy", "Failed", "Suspect")))
		}
	case "measure":
		if exists && agent {
			d.tell(fmt.Sprintf("measure %s %s=%d", node, d.pick("reading", "utilization", "0/utilization", "temperature", "power", "memory"), rapid.IntRange(0, 100).Draw(d.t, "reading")))
		}
	case "label":
		if exists {
			d.tell(fmt.Sprintf("label %s %s", node, d.pick("label", "accelerator=a100", "accelerator=t4", "accelerator-", "gpu-memory=32Gi",
				"topology.kubernetes.io/rack=r2", "topology.kubernetes.io/rack-")))
		}
	case "allocatable":
		if exists {
			d.tell(fmt.Sprintf("allocatable %s nvidia.com/gpu=%d", node, rapid.IntRange(0, 5).Draw(d.t, "allocatable")))
		}
	case "nodes":
		d.tell("nodes\n" + d.node(node))
	case "remove-node":
		// Not the last one: an empty cluster makes kube-scheduler try all pods again
		// and again, in whatever order.
		if exists && len(d.core.nodes) > 1 {
			d.tell("remove-node " + node)
		}
	case "kill":
		// A new scheduler queues waiting pods in any order.
		if d.waiting() < 2 {
			d.tell("kill")
		}
	}
}

// waiting counts the pods that wait.
func (d *drawer) waiting() int {
	n := 0
	for _, line := range d.core.shown {
		if strings.Contains(line, " waits") {
			n++
		}
	}
	return n
}

func (d *drawer) next() int {
	d.pods++
	return d.pods
}

func (d *drawer) node(name string) string {
	return strings.Join([]string{
		name,
		d.pick("gpus", "gpus=1", "gpus=2", "gpus=4", "gpus=4 link=NVLinkx2:0,2 link=NVLinkx2:1,3", "gpus=8 numa=2 link=PIX:0,5 link=PHB:0-3", "gpus=3 vendor=amd",
			"gpus=4 numa=2 numa-policy=single-numa-node", "gpus=6 numa=3 numa-policy=restricted numa-scope=pod"),
		d.pick("rack", "", "", "label=topology.kubernetes.io/rack=r1"),
		d.pick("model", "", `model="NVIDIA A10" memory=23028`, `model="Tesla T4" memory=15360`),
		d.pick("agent", "", "", "agent=no"),
		d.pick("accelerator", "", "label=accelerator=a100", "label=accelerator=t4"),
	}, " ")
}

func (d *drawer) pod() string {
	return strings.Join([]string{
		fmt.Sprintf("p-%d", d.next()), d.pick("gpus", "gpus=1", "gpus=1", "gpus=2", "gpus=3", "gpus=4"),
		d.pick("more", "", "", "", "init=2", "sidecar=1", "container=1", "limit=amd.com/gpu:1"),
		d.pick("memory", "", "", "gpu-memory=20Gi", "gpu-memory=64Gi"),
		d.pick("wish", "", "", "", "annotation=nvidia.com/use-gputype=A100", "annotation=nvidia.com/nouse-gputype=T4,A10",
			"annotation=volcano.sh/gpu-index=0,2", "annotation=nvidia.com/use-gpuuuid=GPU-n-0-1", "annotation=nvidia.com/nouse-gpuuuid=GPU-n-1-0"),
		d.pick("closeness", "", "", "", "", "annotation=tangram.dev/topology=required=nvlink", "annotation=tangram.dev/topology=required=numa,preferred=pix",
			"annotation=tangram.dev/topology=required=rack", "annotation=tangram.dev/topology=preferred=nvlink"),
		d.pick("selector", "", "", "", "selector=accelerator=a100", "require=accelerator=a100|t4"),
		d.pick("scheduler", "", "", "scheduler=volcano"),
		d.pick("resource", "", "", "", "", "", "resource=amd.com/gpu"),
		d.pick("workload", "", "", "workload=training", "workload=inference"),
		d.pick("placement", "", "", "", "annotation=tangram.dev/placement=spread", "annotation=tangram.dev/placement=binpack"),
		d.pick("label", "", "label=app=x", "label=app=y"),
		d.pick("company", "", "", "", "", "annotation=tangram.dev/device-affinity=same-node=app:x", "annotation=tangram.dev/device-affinity=same-node=app:y",
			"annotation=tangram.dev/device-affinity=different-node=app:x", "annotation=tangram.dev/device-affinity=different-node=*"),
	}, " ")
}
