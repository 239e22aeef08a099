package explain

import (
	"cmp"
	"fmt"
	"strings"
)

// gangRemedies are those of causes about a gang's own members, order and specification, and objects that are no gangs.
func gangRemedies(c Code) []remedy {
	switch c {
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
