package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/config"
	"github.com/tangram-dev/tangram/lab/fleet"
	"github.com/tangram-dev/tangram/lab/local"
	"github.com/tangram-dev/tangram/test/cluster"
)

// liveTerms are the objectives that depend on what agents measure; there is a profile of
// each name with a weight for it and for nothing else.
var liveTerms = []string{"temperature", "power", "liveutilization"}

// liveProfiles is a scheduler configuration with those profiles.
func liveProfiles(maxAge string) []byte {
	out := `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:`
	for name, weight := range map[string]string{"temperature": "temperature", "power": "power", "liveutilization": "liveUtilization"} {
		out += fmt.Sprintf(`
- schedulerName: %s
  percentageOfNodesToScore: 100
  plugins:
    filter: {enabled: [{name: GPUFilter}]}
    score: {enabled: [{name: GPUScore, weight: 10}]}
  pluginConfig:
  - name: GPUScore
    args: {weights: {%s: 100}, telemetryMaxAge: %s}`, name, weight, maxAge)
	}
	return []byte(out)
}

// agent starts gpu-agent for all nodes of a fleet, and waits until it has described them.
func (w *world) agent(text string, flags ...string) *local.Serving {
	w.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cluster.Bin(w.T, "gpu-agent")
	f, err := fleet.Parse("fleet.yaml", []byte(text))
	w.Must(err)
	w.Must(w.CreateNodes(ctx, f))
	file := filepath.Join(w.Dir(), "agent-fleet.yaml")
	w.Must(os.WriteFile(file, []byte(text), 0o600))
	p := w.Start(local.Component{Name: "gpu-agent", Flags: append([]string{"--backend=simulated", "--fleet=" + file}, flags...)})
	w.Must(w.AwaitFleet(ctx, f))
	return p
}

// liveWorld is a world whose devices a running agent measures.
type liveWorld struct{ *world }

// reading is what is published of the first device of a node; -1 for what is not.
type reading struct{ utilization, memory, temperature, power int }

func (w *liveWorld) reading(node string) reading {
	w.T.Helper()
	gn := cluster.Read[v1alpha1.GPUNode](w.World, cluster.GPUNodes, node)
	if len(gn.Status.Devices) == 0 {
		return reading{-1, -1, -1, -1}
	}
	d := gn.Status.Devices[0]
	return reading{measured(d.UtilizationPercent), measured(d.MemoryUsedMiB), measured(d.TemperatureCelsius), measured(d.PowerWatts)}
}

func measured[T int32 | int64](p *T) int {
	if p == nil {
		return -1
	}
	return int(*p)
}

// tenant starts a share on a node that keeps it busy to some percent.
func (w *liveWorld) tenant(name, node string, percent int) {
	w.T.Helper()
	w.Create(pod(name, 0, asking(map[string]string{"nvidia.com/gpu": "1", "nvidia.com/gpumem": "30000", "nvidia.com/gpucores": "90"}), func(p *v1.Pod) {
		p.Spec.SchedulerName = "power"
		p.Spec.NodeSelector = map[string]string{v1.LabelHostname: node}
		p.Annotations[names.AnnotationSimulatedUtilization] = fmt.Sprint(percent)
	}))
	w.Placed(name)
	p := w.Get(name)
	p.Status.Phase = v1.PodRunning // there is no kubelet
	w.UpdateStatus(p)
}

// busies changes how busy a pod keeps its device.
func (w *liveWorld) busies(name string, percent int) {
	w.T.Helper()
	w.Patch(cluster.Pods, name, fmt.Sprintf(`{"metadata":{"annotations":{%q:"%d"}}}`, names.AnnotationSimulatedUtilization, percent))
}

// chosen is where a profile puts a share, which goes again at once.
func (w *liveWorld) chosen(profile string) string {
	w.T.Helper()
	const name = "probe"
	w.Create(pod(name, 0, asking(map[string]string{"nvidia.com/gpu": "1", "nvidia.com/gpumem": "1000"}), func(p *v1.Pod) { p.Spec.SchedulerName = profile }))
	node, _ := w.Placed(name)
	w.Delete(name)
	return node
}

// choose expects each profile to come to choose a node: the scheduler hears of telemetry
// moments after this test.
func (w *liveWorld) choose(why, want string, profiles ...string) {
	w.T.Helper()
	for _, profile := range profiles {
		w.Eventually(fmt.Sprintf("%s: %s chooses %s", why, profile, want), func() (bool, string) {
			node := w.chosen(profile)
			return node == want, node
		})
	}
}

// TestLiveScores: two equal nodes, whose devices a running agent measures. What runs moves
// their telemetry, and each of the scores that depend on it chooses the cooler, less busy
// node, whichever of both that is. What was measured too long ago counts as unknown.
func TestLiveScores(t *testing.T) {
	t.Parallel()
	w := &liveWorld{startWorld(t, local.Options{}, config.CRDs(), config.RBAC(), config.AgentRBAC())}
	agent := w.agent(`pools: [{name: n, count: 2, gpu: {model: A100-80GB, count: 1}}]`, "--simulated-speed=200")
	for _, node := range []string{"n-0", "n-1"} {
		w.publish(node, map[string]string{"nvidia.com/gpu": "10"}, nil)
	}
	s := w.Scheduler(liveProfiles("15m"))
	w.Eventually("idle devices are measured", func() (bool, string) {
		a, b := w.reading("n-0"), w.reading("n-1")
		return a.utilization == 0 && b.utilization == 0 && a.power > 0 && b.power > 0 && a.temperature > 0 && b.temperature > 0, fmt.Sprint(a, b)
	})
	w.tenant("a", "n-0", 0)
	w.tenant("b", "n-1", 95)
	differ := func(busy, idle string) {
		t.Helper()
		w.Eventually(busy+" is busy and hot, "+idle+" is not", func() (bool, string) {
			x, y := w.reading(busy), w.reading(idle)
			return x.utilization > 70 && y.utilization < 10 && x.power > y.power+100 && x.temperature > y.temperature+15 &&
				x.memory >= 30000 && y.memory >= 30000, fmt.Sprintf("busy %+v, idle %+v", x, y)
		})
		t.Logf("busy %+v, idle %+v", w.reading(busy), w.reading(idle))
	}
	differ("n-1", "n-0")
	w.choose("n-1 is busy", "n-0", liveTerms...)
	w.busies("a", 95)
	w.busies("b", 0)
	differ("n-0", "n-1")
	w.choose("n-0 is busy", "n-1", liveTerms...)

	// The idle node gets hotter than the busy one: that is another's matter than power.
	w.fault("n-1", "device=0,hot=89")
	w.Eventually("n-1 is hot", func() (bool, string) {
		x, y := w.reading("n-1"), w.reading("n-0")
		return x.temperature >= 89 && x.temperature > y.temperature, fmt.Sprint(x, y)
	})
	w.choose("n-1 is hot", "n-0", "temperature")
	w.choose("n-1 is hot and idle", "n-1", "power", "liveutilization")

	// No agent any more. For fifteen minutes what it said counts; with a shorter time it
	// is unknown which node is better, and the first one is as good as any.
	w.Must(agent.Kill())
	w.choose("the agent is gone", "n-1", "power", "liveutilization")
	w.Must(s.Kill())
	w.Scheduler(liveProfiles("1s"))
	w.choose("what the agent said is too old", "n-0", liveTerms...)
}

// fault sets what is wrong with a node's simulated devices.
func (w *liveWorld) fault(node, faults string) {
	w.T.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, names.AnnotationSimulatedFaults, faults)
	w.Patch(cluster.GPUNodes, node, patch)
}
