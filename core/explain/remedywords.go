package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// isolated says that gpu-controller keeps new pods off a node, for what, and that it ends by
// itself: on a faulty node that is uncordoned by hand pods would fail.
func isolated(c *Case, l Line) (string, string) {
	nodes, they, it := "a node", have(l, "is", "are"), "the node is well again"
	switch l.Detail {
	case "Maintenance":
		return fmt.Sprintf("End the maintenance of %s: %s isolated by gpu-controller for it (annotation tangram.dev/maintenance), and put back into service by itself when it ends.", nodes, they), command("tangram diagnose %s", c.onOne(l))
	case "NodeNotReady":
		it = "kubelet reports it as ready again"
	case "DriverNotReady":
		it = "the GPU driver answers again"
	case "AgentSilent":
		it = "its gpu-agent reports again"
	}
	return fmt.Sprintf("Repair %s: %s isolated by gpu-controller (%s), and put back into service by itself when %s.", nodes, they, cmp.Or(l.Detail, "cause unknown"), it), command("tangram diagnose %s", c.onOne(l))
}

// ofCondition says that a taint is one that Kubernetes sets and removes by itself, for what
// a node's conditions say: taken away by hand it comes back.
func ofCondition(taint string) bool {
	return strings.HasPrefix(taint, "node.kubernetes.io/") || strings.HasPrefix(taint, "node.cloudprovider.kubernetes.io/")
}

// enough is the limit that would let the gang start.
func (r *Reason) enough() int64 { return r.Used + r.Want }

// excess is by how much it is beyond the limit.
func (r *Reason) excess() int64 { return max(0, r.Used+r.Want-r.Limit) }

// release says how much has to be given back below a limit.
func release(whose string) func(*Case, Line) (string, string) {
	return func(c *Case, _ Line) (string, string) {
		r := &c.Reason
		return fmt.Sprintf("It starts when pods of %s end that use %s.", whose, Quantity(r.Resource, r.excess())) + c.ends(), ""
	}
}

// fewer says how many GPUs the best of a line's nodes has.
func fewer(_ *Case, l Line) (string, string) {
	if l.Best == 0 {
		return "", ""
	}
	return fmt.Sprintf("Ask for at most %s per pod.", plural(int(l.Best), "GPU")), ""
}

// smaller says what would fit below a limit.
func smaller(c *Case, _ Line) (string, string) {
	r := &c.Reason
	left := r.Limit - r.Used
	if r.Never {
		left = r.Limit
	}
	if left <= 0 {
		return "", ""
	}
	return fmt.Sprintf("Ask for at most %s in all: %s are asked for.", Quantity(r.Resource, left), Quantity(r.Resource, r.Want)), ""
}

// missing says which members have to be created.
func missing(c *Case, _ Line) (string, string) {
	r := &c.Reason
	part := ""
	switch {
	case r.Subgroup != "":
		part = fmt.Sprintf(" of subgroup %q", r.Subgroup)
	case r.Role != "":
		part = fmt.Sprintf(" of role %q", r.Role)
	}
	do := c.kubectl("get events --field-selector reason=FailedCreate")
	if c.Object != "" && !strings.HasPrefix(c.Object, "pod/") {
		do = c.kubectl("describe %s", c.Object)
	}
	return fmt.Sprintf("Create %s%s: a ResourceQuota or a controller that does not run may keep them from being created.", plural(max(1, r.Need-r.Exist), "more member"), part), do
}

// priority says what a higher priority would do.
func priority(c *Case, _ Line) (string, string) {
	if c.Lower == 0 {
		return "", ""
	}
	return fmt.Sprintf("Submit it with a priority above %d: it may then take the place of %s that can be evicted.", c.Above, plural(c.Lower, "running job")), "kubectl get priorityclasses"
}

// declare says that a declared runtime lets a gang pass a reservation.
func declare(c *Case, _ Line) (string, string) {
	if c.Declared {
		return "Declare a shorter runtime, if it is shorter: a job that ends before may start now (annotation tangram.dev/runtime).", ""
	}
	do := ""
	if strings.HasPrefix(c.Object, "pod/") {
		do = c.kubectl("annotate %s tangram.dev/runtime=30m", c.Object)
	}
	return "Declare how long it runs (annotation tangram.dev/runtime, such as 30m): a job that ends before may start now.", do
}

// have is the nodes of a line with a verb: "3 nodes have".
func have(l Line, one, many string) string { return counted(l.Nodes, "node", one, many) }

// others says whether nodes got further than those of a line: they have what these lack, and
// lack something else.
func (c *Case) others(l Line) bool {
	return c.Reason.Nodes.Fit() > 0 || slices.ContainsFunc(c.Reason.Nodes.Lines(), func(o Line) bool { return o.Code > l.Code })
}

// levelOf is the level that a line of WrongDomain is about, and its label: see
// model.Level.Labelled.
func levelOf(l Line) (level, label string) {
	level, label, _ = strings.Cut(strings.TrimSuffix(l.Detail, ")"), " (label ")
	return level, label
}

func (c *Case) ofHardware(label string) bool   { return c.Hardware != nil && c.Hardware(label) }
func (c *Case) ofDevices(resource string) bool { return c.Devices != nil && c.Devices(resource) }

// verb is a verb for a number of things.
func verb(n int64, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

func are(l Line) string { return have(l, "is", "are") }

// haveNoun is a number of things with "have": "2 jobs have".
func haveNoun(n int, what string) string { return counted(max(1, n), what, "has", "have") }

// counted is a number of things with a verb: "1 node is", "2 nodes are".
func counted(n int, what, one, many string) string {
	return plural(n, what) + " " + verb(int64(n), one, many)
}

// labelArgument is a label as kubectl label takes it.
func labelArgument(label string) string {
	if strings.Contains(label, "=") {
		return label
	}
	return label + "=VALUE"
}
