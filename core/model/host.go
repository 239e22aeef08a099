package model

// Bytes is an amount of main memory, exact: kube-scheduler compares bytes, and a plan
// that rounds them would differ from it on a full node.
type Bytes int64

// MiB is the amount in whole MiB, rounded down.
func (b Bytes) MiB() MiB { return MiB(b >> 20) }

// Bytes is the same amount of memory in bytes.
func (m MiB) Bytes() Bytes { return Bytes(m) << 20 }

// Host is the CPU and main memory of a node. kube-scheduler decides in the end whether
// they suffice; the planner counts them the same way, so that its plans are not
// rejected for them.
type Host struct {
	CPU    int64 // milli
	Memory Bytes
}

// Plus is the sum.
func (h Host) Plus(o Host) Host {
	return Host{plus(h.CPU, o.CPU), Bytes(plus(int64(h.Memory), int64(o.Memory)))}
}

// Times is the amount for so many holders.
func (h Host) Times(count int) Host {
	return Host{times(h.CPU, count), Bytes(times(int64(h.Memory), count))}
}

// Minus is the rest, at least nothing: nodes can be overcommitted.
func (h Host) Minus(o Host) Host {
	return Host{max(0, h.CPU-o.CPU), max(0, h.Memory-o.Memory)}
}

// Covers says whether it is enough for another.
func (h Host) Covers(o Host) bool { return h.CPU >= o.CPU && h.Memory >= o.Memory }
