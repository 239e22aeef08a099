package checker

// Facts are what the load created: nodes with their devices, and queues.
type Facts struct {
	Nodes  map[string]Node
	Queues map[string]Queue
}

// Node is the devices of one node, by index.
type Node struct {
	Devices map[int]Device
	// Apart says that ordinary pods do not go to the node; it is left out when the
	// room for them is counted.
	Apart bool
	// Pool is what nodes of one kind are called.
	Pool string
}

// Device is one GPU.
type Device struct {
	UUID      string
	MemoryMiB int64
	// Profiles are how many memory slices an instance of each MIG profile covers;
	// Slices is how many the device has. Empty on devices that cannot be cut.
	Profiles map[string]int
	Slices   int
}

// Queue is the limit of one queue, in thousandths of a GPU; 0 for none.
type Queue struct {
	Parent     string
	Capability int64
}

// charge is the least a pod can be charged for what it asks for, in thousandths of a
// GPU: a share by its memory on the device with most memory, or by its compute; a
// slice by its part of the devices that have the profile. A limit that is exceeded by
// this sum is exceeded by every way to round and every choice of device.
func (f Facts) charge(a Ask) int64 {
	if a.Whole > 0 {
		return 1000 * int64(a.Whole)
	}
	least := int64(0)
	for _, n := range f.Nodes {
		for _, d := range n.Devices {
			part, ok := d.part(a)
			if ok && (least == 0 || part < least) {
				least = part
			}
		}
	}
	return least
}

// part is which part of the device the ask takes, rounded down; false if it cannot.
func (d Device) part(a Ask) (int64, bool) {
	if a.Profile != "" {
		size, ok := d.Profiles[a.Profile]
		if !ok {
			return 0, false
		}
		return int64(1000 * size / d.Slices), true
	}
	if a.ShareMiB > d.MemoryMiB {
		return 0, false
	}
	return max(int64(a.ShareMilli), 1000*a.ShareMiB/d.MemoryMiB), true
}

// above lists a queue and those above it.
func (f Facts) above(queue string) []string {
	var list []string
	for queue != "" && len(list) <= len(f.Queues) {
		list = append(list, queue)
		queue = f.Queues[queue].Parent
	}
	return list
}
