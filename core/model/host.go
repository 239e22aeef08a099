package model

// Host is what devices need beside themselves: processor time and main memory of
// their node. kube-scheduler decides whether they suffice; the planner only has to
// know them, because a GPU without a free core cannot be sold.
type Host struct {
	CPU    int64 // milli
	Memory MiB
}

// Plus is the sum.
func (h Host) Plus(o Host) Host { return Host{h.CPU + o.CPU, h.Memory + o.Memory} }

// Minus is the rest, at least nothing: nodes can be overcommitted.
func (h Host) Minus(o Host) Host {
	return Host{max(0, h.CPU-o.CPU), max(0, h.Memory-o.Memory)}
}

// Covers says whether it is enough for another.
func (h Host) Covers(o Host) bool { return h.CPU >= o.CPU && h.Memory >= o.Memory }
