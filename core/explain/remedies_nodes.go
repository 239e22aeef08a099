package explain

import (
	"cmp"
	"fmt"
	"strings"
)

// nodeRemedies are those of causes about what a node is or how it is administered: the end of other pods does not help.
func nodeRemedies(c Code) []remedy {
	switch c {
	case NoDevices:
		return []remedy{
			{Administrator, "Add nodes with such GPUs, or install the device plugin or agent that makes them known.", func(_ *Case, l Line) (string, string) {
				return fmt.Sprintf("Add a node with such GPUs, or make those known that %s: the device plugin or the agent publishes them.", have(l, "has", "have")), "kubectl get nodes -o custom-columns=NAME:.metadata.name,GPUS:.status.allocatable.nvidia\\.com/gpu"
			}},
			{Owner, "Ask for GPUs that the cluster has.", nil},
		}
	case TooFew:
		return []remedy{
			{Owner, "Ask for fewer GPUs per pod, and use more pods.", func(c *Case, l Line) (string, string) {
				largest := "the largest node has"
				if c.others(l) {
					largest = fmt.Sprintf("the largest of %s has", plural(l.Nodes, "node"))
				}
				return fmt.Sprintf("Ask for at most %s per pod, which is what %s, and use more pods.", plural(int(l.Best), "GPU"), largest), ""
			}},
			{Administrator, "Add a node with as many GPUs.", func(c *Case, l Line) (string, string) {
				if c.others(l) {
					return "", "" // there is such a node, and another cause is its own
				}
				return fmt.Sprintf("Add a node with at least %s.", plural(int(l.Need), "GPU")), ""
			}},
		}
	case WrongNode:
		return []remedy{
			{Owner, "Remove what asks for the label.", func(_ *Case, l Line) (string, string) {
				return fmt.Sprintf("Do not ask for the node label %s, which %s not have.", l.Detail, have(l, "does", "do")), ""
			}},
			{Administrator, "Label nodes.", func(c *Case, l Line) (string, string) {
				if key, _, _ := strings.Cut(l.Detail, "="); c.ofHardware(key) {
					return fmt.Sprintf("Add a node with the label %s: it says what hardware the node has.", l.Detail), ""
				}
				return fmt.Sprintf("Give a node the label %s.", l.Detail), command("kubectl label node %s %s", c.onOne(l), labelArgument(l.Detail))
			}},
		}
	case WrongDomain:
		return []remedy{
			{Administrator, "Label nodes with their domain.", func(c *Case, l Line) (string, string) {
				level, label := levelOf(l)
				if label == "" {
					return fmt.Sprintf("Give nodes the label of their %s: %s none.", level, have(l, "has", "have")), "kubectl get nodes --show-labels"
				}
				return fmt.Sprintf("Give nodes the label %s, with the name of their %s: %s none.", label, level, have(l, "has", "have")), command("kubectl get nodes -L %s", label)
			}},
			{Owner, "Do not require the level.", func(_ *Case, l Line) (string, string) {
				level, _ := levelOf(l)
				return fmt.Sprintf("Do not require one %s, only prefer it (annotation tangram.dev/topology: preferred=%s).", level, level), ""
			}},
		}
	case WrongModel:
		return []remedy{
			{Owner, "Allow other models, or ask for as many GPUs as a node has of the model.", func(_ *Case, l Line) (string, string) {
				if l.Best > 0 {
					return fmt.Sprintf("Ask for at most %s of model %s per pod, or allow other models.", plural(int(l.Best), "GPU"), l.Detail), ""
				}
				return fmt.Sprintf("Allow other models than %s: %s none of it.", l.Detail, have(l, "has", "have")), ""
			}},
			{Administrator, "Add nodes with the model.", func(_ *Case, l Line) (string, string) {
				return fmt.Sprintf("Add a node with %s of model %s.", plural(int(l.Need), "GPU"), l.Detail), ""
			}},
		}
	case WrongDevice:
		return []remedy{
			{Owner, "Name other GPUs, or none.", func(_ *Case, l Line) (string, string) {
				return fmt.Sprintf("Name other GPUs, or none: of those named by %s a node has %d, and %d are needed.", l.Detail, l.Best, l.Need), ""
			}},
		}
	case SmallMemory:
		return []remedy{
			{Owner, "Ask for less GPU memory.", func(c *Case, l Line) (string, string) {
				if l.Best == 0 {
					return "Ask for less GPU memory.", ""
				}
				if c.others(l) {
					return fmt.Sprintf("Ask for at most %d MiB of memory per GPU: the largest GPU of %s has that, and %d MiB are asked for.", l.Best, plural(l.Nodes, "node"), l.Need), ""
				}
				return fmt.Sprintf("Ask for at most %d MiB of memory per GPU: the largest GPU has that, and %d MiB are asked for.", l.Best, l.Need), ""
			}},
			{Administrator, "Add nodes with larger GPUs.", func(c *Case, l Line) (string, string) {
				if c.others(l) {
					return "", ""
				}
				return fmt.Sprintf("Add a node with GPUs of at least %d MiB.", l.Need), ""
			}},
		}
	case TooSmall:
		return []remedy{
			{Owner, "Ask for a smaller share, or a MIG profile that a GPU here can have.", func(_ *Case, l Line) (string, string) {
				return fmt.Sprintf("Ask for a smaller share or profile: %d of %s needed could ever have %s.", l.Best, plural(int(l.Need), "GPU"), cmp.Or(l.Detail, "it")), ""
			}},
			{Administrator, "Add nodes whose GPUs can have it, or offer sharing or MIG on them.", func(_ *Case, l Line) (string, string) {
				return fmt.Sprintf("Add a node with %s that can have %s.", plural(int(l.Need), "GPU"), cmp.Or(l.Detail, "it")), ""
			}},
		}
	case SmallHost:
		return []remedy{
			{Owner, "Ask for no more of the resource than the largest node has.", func(_ *Case, l Line) (string, string) {
				if l.Best == 0 {
					return fmt.Sprintf("Do not ask for %s: no node that would do has any.", resourceName(l.Detail)), ""
				}
				return fmt.Sprintf("Ask for at most %s per pod: the largest node that would do has that in all, and %s are asked for.", Quantity(l.Detail, l.Best), Quantity(l.Detail, l.Need)), ""
			}},
			{Administrator, "Add nodes with more of it.", func(_ *Case, l Line) (string, string) {
				return fmt.Sprintf("Add a node with GPUs and at least %s.", Quantity(l.Detail, l.Need)), ""
			}},
		}
	case Unselected:
		return []remedy{
			{Owner, "Change nodeSelector or node affinity.", func(_ *Case, l Line) (string, string) {
				return fmt.Sprintf("Change %s: %s other labels.", cmp.Or(l.Detail, "the pod's node affinity"), have(l, "has", "have")), "kubectl get nodes --show-labels"
			}},
			{Administrator, "Label nodes.", func(c *Case, l Line) (string, string) {
				key, value, plain := strings.Cut(strings.TrimPrefix(l.Detail, "nodeSelector "), "=")
				if !plain || strings.ContainsAny(value, ", ") {
					return "Give a node the labels that the pod asks for.", ""
				}
				if c.ofHardware(key) {
					return fmt.Sprintf("Add a node with the label %s=%s: it says what hardware the node has.", key, value), ""
				}
				return fmt.Sprintf("Give a node the label %s=%s.", key, value), command("kubectl label node %s %s=%s", c.onOne(l), key, value)
			}},
		}
	case Apart:
		return []remedy{
			{Owner, "Ask for fewer GPUs, or do not require how they are linked.", func(_ *Case, l Line) (string, string) {
				return fmt.Sprintf("Ask for at most %s per pod, or do not require GPUs %s (annotation tangram.dev/topology: preferred instead of required).", plural(int(l.Best), "GPU"), l.Detail), ""
			}},
			{Administrator, "Add nodes whose GPUs are linked.", func(_ *Case, l Line) (string, string) {
				return fmt.Sprintf("Add a node with %s %s.", plural(int(l.Need), "GPU"), l.Detail), ""
			}},
		}
	case Unhealthy:
		return []remedy{
			{Administrator, "Repair the GPUs.", func(c *Case, l Line) (string, string) {
				return fmt.Sprintf("Repair GPUs of %s: %d healthy on the best of them, %d needed.", plural(l.Nodes, "node"), l.Best, l.Need), command("tangram diagnose %s", c.onOne(l))
			}},
			{Owner, "Ask for as many GPUs as are healthy.", fewer},
		}
	case DevicesCordoned:
		return []remedy{
			{Administrator, "Take GPUs out of their GPUNode's spec.cordoned; entries of gpu-controller go by themselves when the GPU is well.", func(c *Case, l Line) (string, string) {
				return fmt.Sprintf("Take at least %s out of spec.cordoned of a GPUNode: %s GPUs that are cordoned. Entries that begin with gpu-controller: are of GPUs that it isolated, and go by themselves when those are well again (tangram diagnose).", plural(int(l.Need-l.Best), "GPU"), have(l, "has", "have")),
					command("kubectl edit gpunode %s", c.onOne(l))
			}},
			{Owner, "Ask for as many GPUs as are not cordoned.", fewer},
		}
	case Tainted:
		return []remedy{
			{Owner, "Tolerate the taint.", func(_ *Case, l Line) (string, string) {
				if ofCondition(l.Detail) {
					return "", ""
				}
				return fmt.Sprintf("Tolerate the taint %s (spec.tolerations), if the pods are meant for such nodes.", l.Detail), ""
			}},
			{Administrator, "Remove the taint, or repair the node if Kubernetes set it.", func(c *Case, l Line) (string, string) {
				if ofCondition(l.Detail) {
					return fmt.Sprintf("Repair %s: Kubernetes set the taint %s for a condition of the node, and removes it by itself.", plural(l.Nodes, "node"), l.Detail), command("kubectl describe node %s", c.onOne(l))
				}
				return fmt.Sprintf("Remove the taint %s from %s.", l.Detail, plural(l.Nodes, "node")), command("kubectl taint node %s %s-", c.on(l), l.Detail)
			}},
		}
	case Cordoned:
		return []remedy{
			{Administrator, "Uncordon nodes.", func(c *Case, l Line) (string, string) {
				return fmt.Sprintf("Uncordon a node: %s cordoned.", are(l)), command("kubectl uncordon %s", c.on(l))
			}},
		}
	case Isolated:
		return []remedy{
			{Administrator, "Repair the node, or end its maintenance: gpu-controller then puts it back into service by itself.", isolated},
		}
	case NoCompany:
		return []remedy{
			{Owner, "Start the pods that it must be with, or remove the rule.", func(_ *Case, l Line) (string, string) {
				return fmt.Sprintf("Start the pods that it must be with, or remove the rule: %d of %d GPUs are where they are, for %s.", l.Best, l.Need, l.Detail), ""
			}},
		}
	}
	return nil
}
