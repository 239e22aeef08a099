package explain

import (
	"cmp"
	"fmt"
	"strings"
)

// remedy is one thing that cures a cause.
type remedy struct {
	who Actor
	// what is the remedy in general, for the reference page; it is the help itself where say
	// is nil.
	what string
	// say is the help with the numbers of a case, and a command; an empty text: it does not
	// apply to this case. The line is zero for codes that are not of nodes.
	say func(c *Case, l Line) (text, command string)
}

// remediesFor is what helps against a cause, the surest first; a test fails for a code
// without any. Texts are whole sentences. It is a table, written as a function because core
// keeps no functions in variables.
func remediesFor(c Code) []remedy {
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
				if key, _, _ := strings.Cut(l.Detail, "="); ofHardware(key) {
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
				if ofHardware(key) {
					return fmt.Sprintf("Add a node with the label %s=%s: it says what hardware the node has.", key, value), ""
				}
				return fmt.Sprintf("Give a node the label %s=%s.", key, value), command("kubectl label node %s %s=%s", c.onOne(l), key, value)
			}},
		}
	case Unhealthy:
		return []remedy{
			{Administrator, "Repair the GPUs.", func(c *Case, l Line) (string, string) {
				return fmt.Sprintf("Repair GPUs of %s: %d healthy on the best of them, %d needed.", plural(l.Nodes, "node"), l.Best, l.Need), command("tangram diagnose %s", c.onOne(l))
			}},
			{Owner, "Ask for as many GPUs as are healthy.", func(_ *Case, l Line) (string, string) {
				if l.Best == 0 {
					return "", ""
				}
				return fmt.Sprintf("Ask for at most %s per pod.", plural(int(l.Best), "GPU")), ""
			}},
		}
	case DevicesCordoned:
		return []remedy{
			{Administrator, "Take GPUs out of their GPUNode's spec.cordoned; entries of gpu-controller go by themselves when the GPU is well.", func(c *Case, l Line) (string, string) {
				return fmt.Sprintf("Take at least %s out of spec.cordoned of a GPUNode: %s GPUs that are cordoned. Entries that begin with gpu-controller: are of GPUs that it isolated, and go by themselves when those are well again (tangram diagnose).", plural(int(l.Need-l.Best), "GPU"), have(l, "has", "have")),
					command("kubectl edit gpunode %s", c.onOne(l))
			}},
			{Owner, "Ask for as many GPUs as are not cordoned.", func(_ *Case, l Line) (string, string) {
				if l.Best == 0 {
					return "", ""
				}
				return fmt.Sprintf("Ask for at most %s per pod.", plural(int(l.Best), "GPU")), ""
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
	case TooClose:
		return []remedy{
			{Passage, "It starts when the pods end that it must not be with.", func(c *Case, l Line) (string, string) {
				return fmt.Sprintf("It starts when pods end that it must not be with (%s): %d of %d GPUs are away from them.", l.Detail, l.Best, l.Need) + c.ends(), ""
			}},
			{Owner, "Remove the rule.", func(_ *Case, l Line) (string, string) {
				return fmt.Sprintf("Remove the rule: %s.", l.Detail), ""
			}},
		}
	case Taken:
		return []remedy{
			{Passage, "It starts when as many GPUs of one node are free.", func(c *Case, l Line) (string, string) {
				state := verb(l.Need, "is free", "are free")
				if l.Detail != "" {
					state = verb(l.Need, "has ", "have ") + l.Detail
				}
				return fmt.Sprintf("It starts when %s of one node %s, %d more than now.", plural(int(l.Need), "GPU"), state, l.Need-l.Best) + c.ends(), ""
			}},
			{Owner, "Ask for as many GPUs as a node has free.", func(_ *Case, l Line) (string, string) {
				if l.Best == 0 || l.Detail != "" {
					return "", ""
				}
				return fmt.Sprintf("Ask for at most %s per pod: a node has that free now.", plural(int(l.Best), "GPU")), ""
			}},
			{Owner, "Submit it with a higher priority, which may evict others of the queue.", priority},
			{Administrator, "Add nodes.", func(_ *Case, l Line) (string, string) {
				return fmt.Sprintf("Add a node with %s.", plural(int(l.Need), "free GPU")), ""
			}},
		}
	case FreeApart:
		return []remedy{
			{Passage, "It starts when pods end that hold GPUs between those that are free.", func(c *Case, l Line) (string, string) {
				return fmt.Sprintf("It starts when %s %s %s free on one node, %d more than now.", plural(int(l.Need), "GPU"), l.Detail, verb(l.Need, "is", "are"), l.Need-l.Best) + c.ends(), ""
			}},
			{Owner, "Ask for fewer GPUs, or do not require how they are linked.", func(_ *Case, l Line) (string, string) {
				if l.Best == 0 {
					return fmt.Sprintf("Do not require GPUs %s (annotation tangram.dev/topology: preferred instead of required).", l.Detail), ""
				}
				return fmt.Sprintf("Ask for at most %s per pod, or do not require GPUs %s (annotation tangram.dev/topology: preferred instead of required).", plural(int(l.Best), "GPU"), l.Detail), ""
			}},
		}
	case BusyHost:
		return []remedy{
			{Passage, "It starts when pods end that use the resource.", func(c *Case, l Line) (string, string) {
				return fmt.Sprintf("It starts when a node with free GPUs has %s free, %s more than now.", Quantity(l.Detail, l.Need), Quantity(l.Detail, l.Need-l.Best)) + c.ends(), ""
			}},
			{Owner, "Ask for no more of the resource than is free.", func(_ *Case, l Line) (string, string) {
				if l.Best == 0 {
					return "", ""
				}
				return fmt.Sprintf("Ask for at most %s per pod: a node with free GPUs has that free now.", Quantity(l.Detail, l.Best)), ""
			}},
			{Administrator, "Move pods without GPUs off GPU nodes, or add nodes.", func(c *Case, l Line) (string, string) {
				if ofDevices(l.Detail) {
					return fmt.Sprintf("Let the device plugin offer more %s for each card (HAMi: deviceSplitCount; gpu-agent: --shares-per-gpu), or add a node: every pod with a share takes one of them.", l.Detail), ""
				}
				return fmt.Sprintf("Move pods without GPUs that use %s off GPU nodes, or add a node.", resourceName(l.Detail)), command("kubectl get pods -A -o wide --field-selector spec.nodeName=%s", c.onOne(l))
			}},
		}
	case Neighbor:
		return []remedy{
			{Owner, "Remove the rule that keeps it off the nodes of other pods.", func(_ *Case, l Line) (string, string) {
				return fmt.Sprintf("Remove the rule that keeps it off the nodes of other pods (%s), or add a node where it does not apply.", cmp.Or(l.Detail, "host port, anti-affinity or spreading")), ""
			}},
			{Passage, "It starts when those pods end.", func(c *Case, l Line) (string, string) {
				return fmt.Sprintf("It starts when pods end that may not share a node with it, on one of %s.", plural(l.Nodes, "node")) + c.ends(), ""
			}},
		}
	case Filtered:
		return []remedy{
			{Owner, "Change what kube-scheduler's filter names.", func(_ *Case, l Line) (string, string) {
				return fmt.Sprintf("Change what kube-scheduler's filter names on %s: %s.", plural(l.Nodes, "node"), l.Detail), ""
			}},
		}

	case Members:
		return []remedy{
			{Owner, "Let the gang's controller create the missing members.", missing},
			{Owner, "Lower the gang's minimum to the members that exist.", func(c *Case, _ Line) (string, string) {
				r := &c.Reason
				if r.Exist == 0 || r.Subgroup != "" || r.Role != "" {
					return "", ""
				}
				return fmt.Sprintf("Lower the gang's minimum from %d to %d, if it can run with that many.", r.Need, r.Exist), ""
			}},
		}
	case NoDomain:
		return []remedy{
			{Owner, "Do not require one domain, only prefer it.", func(c *Case, _ Line) (string, string) {
				r := &c.Reason
				return fmt.Sprintf("Prefer one %s instead of requiring it (annotation tangram.dev/topology: preferred=%s): %s then need not share one.", r.Level, r.Level, plural(max(r.Need, r.SubNeed), "member")), ""
			}},
			{Passage, "It starts when a domain has room.", func(c *Case, _ Line) (string, string) {
				r := &c.Reason
				need := r.Need
				if r.Subgroup != "" {
					need = r.SubNeed
				}
				return fmt.Sprintf("It starts when one %s has room for %s.", r.Level, plural(need, "member")) + c.ends(), ""
			}},
			{Administrator, "Add nodes to a domain.", func(c *Case, _ Line) (string, string) {
				return fmt.Sprintf("Add nodes to one %s.", c.Reason.Level), ""
			}},
		}
	case Nodes:
		return []remedy{
			{Owner, "Start with as many members as have a place.", func(c *Case, _ Line) (string, string) {
				r := &c.Reason
				if c.Fixed || r.Placed == 0 || r.Placed >= r.Need || r.Subgroup != "" {
					return "", ""
				}
				return fmt.Sprintf("Lower the gang's minimum from %d to %d, if it can run with that many: so many have a place now.", r.Need, r.Placed), ""
			}},
			{Administrator, "See the causes of the nodes, below.", func(c *Case, _ Line) (string, string) {
				if c.Reason.Nodes.Nodes() > 0 {
					return "", ""
				}
				return "Add nodes: the cluster has none that are known here.", "kubectl get nodes"
			}},
			{Passage, "It starts when what runs has ended.", func(c *Case, _ Line) (string, string) {
				if c.Reason.Nodes.Fit() == 0 || c.Reason.Placed == 0 {
					return "", ""
				}
				return fmt.Sprintf("It starts when there is room for %s more.", plural(max(1, c.Reason.Need-c.Reason.Placed), "member")) + c.ends(), ""
			}},
		}
	case Rejected:
		return []remedy{
			{Owner, "Create or change what is named: a volume claim, a resource claim.", func(c *Case, _ Line) (string, string) {
				return "Create or change what kube-scheduler names: " + c.Reason.Detail + ".", c.kubectl("get pvc,resourceclaims")
			}},
		}

	case NoQueue:
		return []remedy{
			{Owner, "Name a queue that exists (label tangram.dev/queue).", func(c *Case, _ Line) (string, string) {
				return fmt.Sprintf("Name a queue that exists instead of %q (label tangram.dev/queue).", c.Reason.Queue), "kubectl get queues.scheduling.volcano.sh"
			}},
			{Administrator, "Create the queue.", func(c *Case, _ Line) (string, string) {
				return fmt.Sprintf("Create the queue %q.", c.Reason.Queue),
					command(`kubectl create -f - <<< '{"apiVersion":"scheduling.volcano.sh/v1beta1","kind":"Queue","metadata":{"name":"%s"},"spec":{"weight":1}}'`, c.Reason.Queue)
			}},
		}
	case InnerQueue:
		return []remedy{
			{Owner, "Name a queue below it.", func(c *Case, _ Line) (string, string) {
				return fmt.Sprintf("Name a queue below %q (label tangram.dev/queue).", c.Reason.Queue), "kubectl get queues.scheduling.volcano.sh -o custom-columns=NAME:.metadata.name,PARENT:.spec.parent"
			}},
		}
	case QueueForbidden:
		return []remedy{
			{Owner, "Name a queue that takes pods of the namespace.", func(c *Case, _ Line) (string, string) {
				return fmt.Sprintf("Name a queue that takes pods of namespace %q.", c.Reason.Namespace), ""
			}},
			{Administrator, "Add the namespace to the queue's annotation tangram.dev/namespaces.", func(c *Case, _ Line) (string, string) {
				return fmt.Sprintf("Add %q to the annotation tangram.dev/namespaces of queue %q.", c.Reason.Namespace, c.Reason.Queue), command("kubectl edit queues.scheduling.volcano.sh %s", c.Reason.Queue)
			}},
		}
	case QueueClosed:
		return []remedy{
			{Administrator, "Open the queue.", func(c *Case, _ Line) (string, string) {
				return fmt.Sprintf("Open the queue %q.", c.Reason.Queue),
					command(`kubectl patch queues.scheduling.volcano.sh %s --subresource=status --type=merge -p '{"status":{"state":"Open"}}'`, c.Reason.Queue)
			}},
			{Owner, "Name a queue that is open.", nil},
		}
	case OverQuota:
		return []remedy{
			{Passage, "It starts when pods of the namespace end.", release("the namespace")},
			{Administrator, "Raise the namespace's quota.", func(c *Case, _ Line) (string, string) {
				r := &c.Reason
				text := fmt.Sprintf("Raise the quota of namespace %s from %s to %s.", r.Namespace, Quantity(r.Resource, r.Limit), Quantity(r.Resource, r.enough()))
				if name, quantity, ok := c.spelt(r.Resource, r.enough()); ok {
					text += fmt.Sprintf(" In its annotation tangram.dev/quota that is %s=%s.", name, quantity)
				}
				return text, command("kubectl get namespace %s -o jsonpath='{.metadata.annotations.tangram\\.dev/quota}'", r.Namespace)
			}},
			{Owner, "Ask for no more than the quota has left.", smaller},
		}
	case OverCapability:
		return []remedy{
			{Passage, "It starts when jobs of the queue end.", release("the queue")},
			{Administrator, "Raise the queue's capability.", func(c *Case, _ Line) (string, string) {
				r := &c.Reason
				text, do := fmt.Sprintf("Raise the capability of queue %s from %s to %s.", r.Queue, Quantity(r.Resource, r.Limit), Quantity(r.Resource, r.enough())), ""
				if name, quantity, ok := c.spelt(r.Resource, r.enough()); ok {
					do = command(`kubectl patch queues.scheduling.volcano.sh %s --type=merge -p '{"spec":{"capability":{"%s":"%s"}}}'`, r.Queue, name, quantity)
				}
				return text, do
			}},
			{Owner, "Ask for no more than the queue has left, or use another queue.", smaller},
		}
	case QuotaKept:
		return []remedy{
			{Passage, "It starts when the gangs have started for which the quota is kept.", func(c *Case, _ Line) (string, string) {
				return fmt.Sprintf("It starts when %s started for which the quota is kept.", haveNoun(c.Reason.Ahead, "job")), ""
			}},
			{Owner, "Declare how long it runs: it may end before.", declare},
		}
	case Guaranteed:
		return []remedy{
			{Passage, "It starts when others end that use what is not guaranteed.", func(c *Case, _ Line) (string, string) {
				r := &c.Reason
				return fmt.Sprintf("It starts when jobs that use %s beyond guarantees end.", Quantity(r.Resource, r.excess())) + c.ends(), ""
			}},
			{Owner, "Use the queue that has the guarantee.", nil},
			{Administrator, "Lower guarantees of other queues, or add nodes.", func(c *Case, _ Line) (string, string) {
				r := &c.Reason
				return fmt.Sprintf("Lower guarantees of other queues by %s, or add nodes with as much.", Quantity(r.Resource, r.excess())),
					"kubectl get queues.scheduling.volcano.sh -o custom-columns=NAME:.metadata.name,GUARANTEE:.spec.guarantee.resource"
			}},
		}
	case OverTotal:
		return []remedy{
			{Passage, "It starts when others end.", func(c *Case, _ Line) (string, string) {
				r := &c.Reason
				return fmt.Sprintf("It starts when jobs that use %s end.", Quantity(r.Resource, r.excess())) + c.ends(), ""
			}},
			{Owner, "Submit it with a higher priority, which may evict others of the queue.", priority},
			{Administrator, "Add nodes.", func(c *Case, _ Line) (string, string) {
				r := &c.Reason
				return fmt.Sprintf("Add nodes with %s.", Quantity(r.Resource, r.excess())), ""
			}},
		}
	case NodesKept:
		return []remedy{
			{Passage, "It starts when the gangs have started for which nodes are kept.", func(c *Case, _ Line) (string, string) {
				return fmt.Sprintf("It starts when %s started for which nodes are kept, or sooner elsewhere.", haveNoun(c.Reason.Ahead, "job")), ""
			}},
			{Owner, "Declare how long it runs: it may end before.", declare},
		}

	case Turn:
		return []remedy{
			{Passage, "It starts in its turn.", func(c *Case, _ Line) (string, string) {
				if c.Reason.Ahead == 0 {
					return "Nothing has to be done: its turn is next.", ""
				}
				return fmt.Sprintf("Nothing has to be done: it starts after %s ahead of it.", plural(c.Reason.Ahead, "job")), ""
			}},
			{Owner, "Submit it with a higher priority, in a queue that goes by priority.", func(c *Case, _ Line) (string, string) {
				if c.Reason.Ahead == 0 {
					return "", ""
				}
				return fmt.Sprintf("Submit it with a priority above %d, in a queue that goes by priority.", c.Priority), "kubectl get priorityclasses"
			}},
		}
	case BackOff:
		return []remedy{
			{Passage, "It is tried again by itself.", func(c *Case, _ Line) (string, string) {
				if c.Retry > 0 {
					return fmt.Sprintf("It is tried again by itself in %s.", roughly(c.Retry)), ""
				}
				return "It is tried again by itself.", ""
			}},
			{Owner, "Change what the last start failed for.", func(c *Case, _ Line) (string, string) {
				if c.Reason.Detail == "" {
					return "", ""
				}
				return "Change what the last start failed for: " + c.Reason.Detail + ".", ""
			}},
		}
	case Invalid:
		return []remedy{
			{Owner, "Change the field that is named.", func(c *Case, _ Line) (string, string) {
				do := ""
				switch {
				case strings.HasPrefix(c.Object, "pod/"): // labels and annotations can be changed, most of the rest cannot
					do = c.kubectl("get %s -o yaml", c.Object)
				case c.Object != "":
					do = c.kubectl("edit %s", c.Object)
				}
				return "Change the field that is named: " + c.Reason.Detail + ".", do
			}},
		}

	case NoObject:
		return []remedy{
			{Owner, "Look for the right name, kind and namespace.", func(c *Case, _ Line) (string, string) {
				return "Look for the right name, kind and namespace.", c.kubectl("get pods")
			}},
		}
	case NoPods:
		return []remedy{
			{Owner, "See why its controller creates no pods.", func(c *Case, _ Line) (string, string) {
				do := ""
				if c.Object != "" {
					do = c.kubectl("describe %s", c.Object)
				}
				return "See why its controller creates no pods: it may be suspended, waiting for admission (Kueue), or not installed.", do
			}},
		}
	case OtherScheduler:
		return []remedy{
			{Owner, "Submit it with the name of a profile of Tangram.", func(c *Case, _ Line) (string, string) {
				return fmt.Sprintf("Submit it with spec.schedulerName: gpu-scheduler instead of %s, if Tangram is to place it.", cmp.Or(c.Reason.Detail, "that")), ""
			}},
			{Administrator, "Run that scheduler, or give Tangram a profile of the name.", func(c *Case, _ Line) (string, string) {
				return fmt.Sprintf("Run the scheduler %s, or add a profile of that name to Tangram's configuration.", cmp.Or(c.Reason.Detail, "that it names")), ""
			}},
		}
	case Gated:
		return []remedy{
			{Owner, "Let what set the gates remove them.", func(c *Case, _ Line) (string, string) {
				if strings.Contains(c.Reason.Detail, "kueue.x-k8s.io/") {
					return "Kueue removes its gate when it admits the workload: see its status.", c.kubectl("get workloads.kueue.x-k8s.io")
				}
				return fmt.Sprintf("Let what set the gates remove them (spec.schedulingGates): %s.", c.Reason.Detail), ""
			}},
		}
	case Unseen:
		return []remedy{
			{Passage, "They are seen within seconds.", nil},
		}
	case Unplanned:
		return []remedy{
			{Owner, "Ask for a GPU, a queue or a gang, if Tangram is to plan it; else see what kube-scheduler says.", func(c *Case, _ Line) (string, string) {
				if c.Reason.Detail != "" {
					return "Change what kube-scheduler names: " + c.Reason.Detail + ".", ""
				}
				return "Ask for a GPU, a queue or a gang, if Tangram is to plan it.", ""
			}},
		}
	case Terminating:
		return []remedy{
			{Passage, "It is gone when its containers have stopped.", nil},
		}
	case Ended:
		return []remedy{
			{Owner, "Submit it anew.", nil},
		}
	case Contested:
		return []remedy{
			{Administrator, "Remove one of the pods: two records name one device.", func(c *Case, _ Line) (string, string) {
				return "Delete one of the pods that claim the device, unless the node's agent corrects the record.", ""
			}},
		}
	}
	return nil
}
