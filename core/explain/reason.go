package explain

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/tangram-dev/tangram/core/model"
)

// Reason is why a gang waits: a code, with the numbers and objects that go with it.
// The zero value is no reason. Which fields count depends on the code.
type Reason struct {
	Code Code
	// Never: no change of running pods, cordons, taints or queues would let it start;
	// of a quota, it asks for more than the limit itself.
	Never bool

	// Need is how many members must start together, Exist how many there are (for
	// Members), Placed how many found a place in the attempt that came furthest.
	Need, Exist, Placed int
	// Role is the role of the first member without a place; empty when there is one
	// role only. Level is the required level of domains.
	Role, Level string
	// Nodes counts why nodes cannot take that member.
	Nodes Tally
	// Subgroup is the subgroup of the gang that this is about, SubNeed how many members it
	// needs, SubPlaced how many of them found a place; Level is its own. For Members, Need
	// and Exist are the subgroup's. Empty for a gang without subgroups.
	Subgroup           string
	SubNeed, SubPlaced int
	// Groups is how many subgroups of the gang must be complete, Complete how many are, when
	// it does not need all of them (for Members).
	Groups, Complete int

	// Queue, Namespace and Resource are what a quota is about: Want is asked for, of
	// Limit in all, of which Used is in use.
	Queue, Namespace, Resource string
	Want, Limit, Used          int64

	// Ahead is how many gangs are before this one, First is one of them.
	Ahead int
	First string

	// Detail is what is wrong, or what was last said; may be empty.
	Detail string

	// Asked is where an autoscaler was asked for nodes; empty when it was not, or sees by
	// itself what is missing.
	Asked string
	// Prospect is what the gang can count on.
	Prospect Prospect
}

// Prospect is nodes that are kept for a waiting gang. The zero value is none.
type Prospect struct {
	Nodes []model.NodeID
	// At is the expected start in nanoseconds; 0 when it is not known.
	At int64
	// Freeing: pods are being evicted on these nodes for the gang.
	Freeing bool
	// Anonymous: the nodes are counted, not named.
	Anonymous bool
}

// Class is what the gang waits for.
func (r *Reason) Class() Class { return r.Code.Class() }

// Condition is the reason of the condition PodScheduled of the gang's pods: see
// Code.Condition. A single pod that kube-scheduler rejects is Unschedulable; of a gang, the
// other members would start alone on nodes that were added.
func (r *Reason) Condition() string {
	if r.Code == Rejected && r.Need <= 1 {
		return classes[ForCapacity].condition
	}
	return r.Code.Condition()
}

// Is says whether there is a reason.
func (r *Reason) Is() bool { return r.Code != 0 }

// String is the reason in words. It is the one place where reasons are worded.
func (r *Reason) String() string {
	if !r.Is() {
		return ""
	}
	text := r.sentence()
	if r.Asked != "" {
		text += "; nodes are asked for " + r.Asked
	}
	if p := r.Prospect.String(); p != "" {
		text += "; " + p
	}
	return text
}

func (r *Reason) sentence() string {
	switch r.Code {
	case Members:
		return "waits for members: " + r.members()
	case NoDomain, Nodes:
		if r.Never {
			return "can never fit on the nodes there are: " + r.nodes()
		}
		return "waits for capacity: " + r.nodes()
	case Rejected:
		return "cannot be scheduled on any node: " + r.Detail
	case NoQueue:
		return fmt.Sprintf("there is no queue %q", r.Queue)
	case InnerQueue:
		return fmt.Sprintf("queue %q takes no jobs, only the queues below it do", r.Queue)
	case QueueForbidden:
		return fmt.Sprintf("namespace %q may not use queue %q", r.Namespace, r.Queue)
	case QueueClosed:
		return fmt.Sprintf("queue %q is closed", r.Queue)
	case OverQuota:
		return r.quota("namespace " + r.Namespace)
	case OverCapability:
		return r.quota("queue " + r.Queue)
	case QuotaKept:
		return "waits for quota: what is left of it is kept for " + r.before()
	case Guaranteed:
		return fmt.Sprintf("%sof %s in queue %s, %s are in use or kept for guarantees, needs %s", r.beside(),
			Quantity(r.Resource, r.Limit), r.Queue, Quantity(r.Resource, r.Used), Quantity(r.Resource, r.Want))
	case OverTotal:
		return fmt.Sprintf("%sthe cluster has %s, %s in use, needs %s", r.beside(),
			Quantity(r.Resource, r.Limit), Quantity(r.Resource, r.Used), Quantity(r.Resource, r.Want))
	case NodesKept:
		return "waits for capacity: nodes it could use are kept for " + r.before()
	case Turn:
		return r.turn()
	case BackOff:
		return "its last start failed and is tried again: " + r.Detail
	case Invalid:
		return r.Detail
	}
	return r.ofObject()
}

// ofObject is the sentence about an object that is no waiting gang.
func (r *Reason) ofObject() string {
	switch r.Code {
	case NoObject:
		return "there is no such object: " + r.Detail
	case NoPods:
		return "has no pods: " + cmp.Or(r.Detail, "its controller creates them")
	case OtherScheduler:
		return fmt.Sprintf("is placed by another scheduler: spec.schedulerName is %q", r.Detail)
	case Gated:
		return "is not ready to be scheduled: it has scheduling gates " + r.Detail
	case Unseen:
		return "is being looked at: its PodGroup, controller or claims have not been seen yet"
	case Unplanned:
		if r.Detail == "" {
			return "asks for no GPU, gang or queue: kube-scheduler alone places it"
		}
		return "asks for no GPU, gang or queue: kube-scheduler alone places it, and says: " + r.Detail
	case Terminating:
		return "is being deleted"
	case Ended:
		return "has ended: " + cmp.Or(r.Detail, "it is gone")
	case Contested:
		return "runs with a record that contradicts another: " + r.Detail
	}
	return "waits"
}

// beside begins a sentence about what the cluster has in all.
func (r *Reason) beside() string {
	if r.Never {
		return "can never start beside what is guaranteed to other queues: "
	}
	return "waits for capacity: "
}

// quota is a limit in words.
func (r *Reason) quota(whose string) string {
	verb := "waits for quota"
	if r.Never {
		verb = "can never start"
	}
	return fmt.Sprintf("%s: %s may use %s, %s in use, needs %s", verb, whose,
		Quantity(r.Resource, r.Limit), Quantity(r.Resource, r.Used), Quantity(r.Resource, r.Want))
}

// members says how many exist.
func (r *Reason) members() string {
	if r.Subgroup != "" {
		text := fmt.Sprintf("subgroup %q: %d of %d exist", r.Subgroup, r.Exist, r.Need)
		if r.Groups > 0 {
			text = fmt.Sprintf("%d of %d subgroups are complete; %s", r.Complete, r.Groups, text)
		}
		return text
	}
	if r.Role != "" {
		return fmt.Sprintf("%d of %d of role %q exist", r.Exist, r.Need, r.Role)
	}
	return fmt.Sprintf("%d of %d exist", r.Exist, r.Need)
}

// nodes says why members have no place. Of a single pod the nodes' answers say all.
func (r *Reason) nodes() string {
	text := ""
	if r.Subgroup != "" {
		return r.subgroup()
	}
	if r.Need > 1 {
		text = fmt.Sprintf("needs %s", plural(r.Need, "member"))
		if r.Level != "" {
			text += " in one " + r.Level
		}
		if r.Code == NoDomain {
			return fmt.Sprintf("%s, and no %s has room for them", text, r.Level)
		}
		text += fmt.Sprintf(", %d can be placed", r.Placed)
		next := "for the next"
		if r.Role != "" {
			next += fmt.Sprintf(" of role %q", r.Role)
		}
		text += "; " + next + r.there(r.Placed) + ": "
	}
	return text + r.Nodes.String()
}

// there says that the nodes which follow are those of one domain: of the one that takes most
// members, if any takes some. Else all nodes are counted.
func (r *Reason) there(placed int) string {
	if r.Level == "" || placed == 0 {
		return ""
	}
	return " in that " + r.Level
}

// subgroup says why the members of a subgroup have no place.
func (r *Reason) subgroup() string {
	text := fmt.Sprintf("needs %s, %d can be placed; subgroup %q needs %s", plural(r.Need, "member"), r.Placed, r.Subgroup, plural(r.SubNeed, "member"))
	if r.Level != "" {
		text += " in one " + r.Level
	}
	if r.Code == NoDomain {
		return fmt.Sprintf("%s, and no %s has room for them", text, r.Level)
	}
	return fmt.Sprintf("%s, %d of them can be placed; for the next%s: %s", text, r.SubPlaced, r.there(r.SubPlaced), r.Nodes.String())
}

// before names gangs with a reservation.
func (r *Reason) before() string {
	switch {
	case r.First == "":
		return plural(max(1, r.Ahead), "job") + " that came before"
	case r.Ahead > 1:
		return fmt.Sprintf("%s and %d more that came before", r.First, r.Ahead-1)
	}
	return r.First + ", which came before"
}

// turn says what is before the gang.
func (r *Reason) turn() string {
	switch {
	case r.Ahead == 0:
		return "waits for its turn"
	case r.First == "":
		return fmt.Sprintf("waits for its turn: %s ahead of it", plural(r.Ahead, "job"))
	}
	return fmt.Sprintf("waits for its turn: %s ahead of it, the next is %s", plural(r.Ahead, "job"), r.First)
}

// Anonymous is the reason without the names of nodes, for readers without the right to list nodes.
// What kube-scheduler's filters said is kept: it is about the pod.
func (r Reason) Anonymous() Reason {
	r.Prospect.Anonymous = true
	return r
}

// String is the prospect in words; empty when there is none.
func (p *Prospect) String() string {
	switch {
	case len(p.Nodes) == 0:
		return ""
	case p.Freeing:
		return "pods are being evicted for it on " + p.names()
	case p.At == 0:
		return p.names() + " kept for it, from when what runs there ends"
	}
	return fmt.Sprintf("%s kept for it, start expected by %s", p.names(), startBy(p.At))
}

// names names or counts the nodes.
func (p *Prospect) names() string {
	if p.Anonymous {
		return plural(len(p.Nodes), "node")
	}
	return nodeNames(p.Nodes)
}

// nodeNames names nodes, not too many.
func nodeNames(nodes []model.NodeID) string {
	const most = 3
	var names []string
	for _, n := range nodes[:min(most, len(nodes))] {
		names = append(names, string(n))
	}
	text := strings.Join(names, ", ")
	if more := len(nodes) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	if len(nodes) == 1 {
		return "node " + text
	}
	return "nodes " + text
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
