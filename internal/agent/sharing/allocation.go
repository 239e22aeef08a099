package sharing

import (
	"fmt"
	"slices"

	"github.com/tangram-dev/tangram/internal/agent/device"
	"github.com/tangram-dev/tangram/internal/agent/sharing/mig"
	"github.com/tangram-dev/tangram/internal/agent/sharing/mps"
)

// kind is what a grant is.
type kind string

const (
	whole  kind = "a whole device"
	slice  kind = "a MIG slice"
	amount kind = "a share by amount"
	turn   kind = "a turn"
)

// kindOf says what a grant is, or what contradicts itself in it.
func kindOf(g device.Grant) (kind, error) {
	hasAmount := g.MemoryMiB != 0 || g.ComputeMilli != 0
	switch {
	case g.UUID == "":
		return "", fmt.Errorf("uuid: missing")
	case g.Start < 0 || g.MemoryMiB < 0 || g.ComputeMilli < 0 || g.ComputeMilli > 1000:
		return "", fmt.Errorf("start %d, memoryMiB %d or computeMilli %d is out of range", g.Start, g.MemoryMiB, g.ComputeMilli)
	case g.Profile != "" && (g.Turn || hasAmount), g.Turn && hasAmount, g.Profile == "" && g.Start != 0:
		return "", fmt.Errorf("profile, turn and amounts exclude each other")
	case g.Profile != "":
		return slice, nil
	case g.Turn:
		return turn, nil
	case hasAmount:
		return amount, nil
	}
	return whole, nil
}

// kindsOf checks an allocation and returns the kind of all its devices.
func kindsOf(a device.Allocation) (kind, error) {
	if len(a.Devices) == 0 {
		return "", fmt.Errorf("devices: none")
	}
	var out kind
	for i, grant := range a.Devices {
		k, err := kindOf(grant)
		if err != nil {
			return "", fmt.Errorf("devices[%d]: %w", i, err)
		}
		if i > 0 && k != out {
			return "", fmt.Errorf("devices[%d]: %s beside %s", i, k, out)
		}
		out = k
	}
	return out, nil
}

// placement is a slice's.
func placement(g device.Grant) mig.Placement {
	return mig.Placement{GPU: g.UUID, Profile: g.Profile, Start: g.Start}
}

// share is what an allocation has of one GPU by MPS; false when it has nothing by MPS.
// All devices of the allocation must be that GPU: a CUDA client has one MPS daemon.
func (s *Sharing) share(a device.Allocation, k kind, find func(uuid string) (mps.GPU, bool)) (mps.GPU, mps.Share, bool, error) {
	sold := s.options.Turns[a.Resource]
	switch {
	case s.mps == nil, k == amount && s.options.Shares != MPS, k == turn && sold.Mode != MPS, k == whole, k == slice:
		return mps.GPU{}, mps.Share{}, false, nil
	}
	uuid := a.Devices[0].UUID
	gpu, ok := find(uuid)
	if !ok {
		return mps.GPU{}, mps.Share{}, false, fmt.Errorf("%w: no device %s", device.ErrNotFound, uuid)
	}
	out := mps.Share{Allocation: a.ID, Namespace: a.Namespace, Pod: a.Pod, PodUID: a.PodUID, Container: a.Container}
	for i, grant := range a.Devices {
		if grant.UUID != uuid {
			return gpu, out, false, fmt.Errorf("%w: devices[%d]: %s beside %s: MPS gives a container shares of one device",
				device.ErrNotSupported, i, grant.UUID, uuid)
		}
		out.ComputeMilli += grant.ComputeMilli
		out.MemoryMiB += grant.MemoryMiB
	}
	if k == turn {
		if len(a.Devices) > sold.Replicas {
			return gpu, out, false, fmt.Errorf("%d turns of %d on %s", len(a.Devices), sold.Replicas, uuid)
		}
		out.ComputeMilli, out.MemoryMiB = sold.parts(gpu, a.Devices)
	}
	return gpu, out, true, nil
}

// parts are what some turns have of a GPU together.
func (t Turns) parts(gpu mps.GPU, turns []device.Grant) (computeMilli int, memoryMiB int64) {
	if len(t.Percents) == 0 {
		return mps.Equal(gpu, t.Replicas, len(turns))
	}
	percent := 0
	for _, g := range turns {
		if g.Number >= 0 && g.Number < len(t.Percents) {
			percent += t.Percents[g.Number]
		} else { // of settings that were changed since: the least that a turn has
			percent += slices.Min(t.Percents)
		}
	}
	return 10 * percent, gpu.MemoryMiB * int64(percent) / 100
}

// finder finds devices in an inventory.
func finder(inventory *device.Inventory) func(uuid string) (mps.GPU, bool) {
	return func(uuid string) (mps.GPU, bool) {
		if d := inventory.Find(uuid); d != nil {
			return mps.GPU{UUID: uuid, MemoryMiB: d.MemoryMiB}, true
		}
		return mps.GPU{}, false
	}
}
