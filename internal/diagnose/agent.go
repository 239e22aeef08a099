package diagnose

import (
	"cmp"
	"strconv"
	"strings"
	"time"
)

func itoa(n int) string { return strconv.Itoa(n) }

// How old a publication may be: agents write every 4 to 5 minutes though nothing moved, and
// the scheduler takes telemetry for unknown after 15.
const (
	lateAfter  = 6 * time.Minute
	staleAfter = 15 * time.Minute
)

// sells says whether kubelet offers GPUs of any kind.
func (f *Facts) sells() bool { return len(f.Node.Capacity) > 0 }

// agent: gpu-agent runs on the node.
func agent(f *Facts) Result {
	var x finding
	logs := func(p Program) string {
		ns, name, _ := strings.Cut(p.Name, "/")
		return "kubectl -n " + ns + " logs " + name + " --tail 50"
	}
	for _, p := range f.Agents {
		switch {
		case p.Waiting != "":
			x.add(Fail, logs(p), "pod %s waits: %s, %d restarts", p.Name, p.Waiting, p.Restarts)
		case !p.Ready:
			x.add(Fail, logs(p), "pod %s is not ready, %d restarts", p.Name, p.Restarts)
		case p.Restarts > 5:
			x.add(Warn, logs(p)+" --previous", "pod %s is ready, after %d restarts", p.Name, p.Restarts)
		default:
			x.add(OK, "", "pod %s is ready, %d restarts", p.Name, p.Restarts)
		}
	}
	if len(f.Agents) > 1 {
		x.add(Warn, "kubectl get pods -A -o wide --field-selector spec.nodeName="+f.Node.Name, "%d agents run on the node: one is enough, and they write over each other", len(f.Agents))
	}
	if len(f.Agents) == 0 {
		switch {
		case f.GPUs != nil && f.Now.Sub(f.GPUs.MeasuredAt) < lateAfter:
			x.add(OK, "", "no agent pod was found, but one publishes (outside the cluster, or with other labels)")
		case f.GPUs != nil && f.GPUs.MeasuredAt.IsZero():
			x.add(Warn, "kubectl get daemonset -A -l app.kubernetes.io/name=gpu-agent", "no agent pod was found, and the GPUNode does not say when it was measured")
		case f.GPUs != nil && f.Node.Simulated:
			x.add(Warn, "look whether `tangram up` still runs, and at the log of gpu-agent in its folder", "the node is simulated: its agent is a process of the local cluster and no pod, and measured %s", f.ago(f.GPUs.MeasuredAt))
		case f.GPUs != nil:
			x.add(Fail, "kubectl get daemonset -A -l app.kubernetes.io/name=gpu-agent; label the node tangram.dev/gpu-agent=true if it is not selected", "no agent pod runs on the node")
		case f.sells():
			x.add(Warn, "install the chart with agent.enabled=true, or label the node tangram.dev/gpu-agent=true", "no agent: devices are derived from labels and allocatable, without health, UUIDs and links")
		default:
			x.add(Unknown, "label the node tangram.dev/gpu-agent=true if it has GPUs", "no agent, and kubelet offers no GPU")
		}
	}
	return x.result("")
}

// published: the GPUNode is there and fresh.
func published(f *Facts) Result {
	var x finding
	switch {
	case !f.Defined:
		x.add(Unknown, "kubectl apply --server-side -f config/crd", "the cluster has no kind GPUNode")
	case f.GPUs == nil && len(f.Agents) > 0:
		x.add(Fail, "look at the agent's log: it may not reach the API server, or find no driver", "there is no GPUNode %s though an agent runs", f.Node.Name)
	case f.GPUs == nil:
		x.add(Unknown, "", "there is no GPUNode %s", f.Node.Name)
	default:
		age := f.Now.Sub(f.GPUs.MeasuredAt)
		text := "measured " + f.ago(f.GPUs.MeasuredAt)
		do := "kubectl get gpunode " + f.Node.Name + " -o yaml; see docs/runbooks/GPUAgentNotPublishing.md"
		switch {
		case f.GPUs.MeasuredAt.IsZero():
			x.add(Warn, do, "the agent has never measured: health and inventory may be those of before")
		case age < -time.Minute:
			x.add(Warn, "compare the clocks: on the node, timedatectl", "measured %s in the future", span(-age))
		case age >= staleAfter:
			x.add(Fail, do, "%s; after %s the scheduler takes telemetry for unknown", text, span(staleAfter))
		case age >= lateAfter:
			x.add(Warn, do, "%s; agents write at least every 5m", text)
		default:
			x.add(OK, "", "%s, agent %s", text, f.GPUs.AgentVersion)
		}
		if f.GPUs.Problem != "" {
			x.add(Fail, "kubectl get gpunode "+f.Node.Name+" -o yaml", "%s", f.GPUs.Problem)
		}
	}
	return x.result("")
}

// driver: the agent can talk to it.
func driver(f *Facts) Result {
	var x finding
	g := f.GPUs
	name := "driver " + cmp.Or(g.Driver, "unknown") + ", CUDA " + cmp.Or(g.CUDA, "unknown")
	switch g.DriverReady {
	case "True":
		if g.Driver == "" {
			x.add(Warn, "on the node: nvidia-smi", "the driver answers, its version is not known")
		} else {
			x.add(OK, "", "%s", name)
		}
	case "False":
		x.add(Fail, "on the node: nvidia-smi; dmesg | grep -i nvrm; reinstall the driver, or reboot", "%s: %s", name, g.DriverMessage)
	default:
		x.add(Unknown, "kubectl get gpunode "+f.Node.Name+" -o yaml", "%s; the GPUNode has no condition DriverReady", name)
	}
	return x.result("")
}
