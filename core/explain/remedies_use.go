package explain

import (
	"cmp"
	"fmt"
)

// useRemedies are those of causes about what other pods on a node hold or forbid.
func useRemedies(c Code) []remedy {
	switch c {
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
				if c.ofDevices(l.Detail) {
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
	}
	return nil
}
