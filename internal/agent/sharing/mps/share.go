package mps

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"

	"github.com/tangram-dev/tangram/internal/agent/device"
)

// ErrOvercommitted is the error where the shares of a GPU would be more than the GPU.
var ErrOvercommitted = errors.New("more than the device")

// The variables of a client.
const (
	envPipe    = "CUDA_MPS_PIPE_DIRECTORY"
	envLog     = "CUDA_MPS_LOG_DIRECTORY"
	envPercent = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
	envMemory  = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"
)

// ContainerPipe is where a container finds the daemon. It is CUDA's default, so a
// process that unsets the variable finds the same daemon.
const ContainerPipe = "/tmp/nvidia-mps"

// MaxShares is how many clients a GPU can have since Volta. Each share needs at least one.
const MaxShares = 48

// GPU is a device that is shared.
type GPU struct {
	UUID      string
	MemoryMiB int64
}

// Share is what one container was promised of one GPU.
type Share struct {
	// Allocation is the ID of the allocation that it belongs to.
	Allocation                        string
	Namespace, Pod, PodUID, Container string
	// ComputeMilli is in thousandths of the GPU's SMs, 0 for all of them. MemoryMiB is 0
	// for all memory. What is 0 is not limited and does not count against the total.
	ComputeMilli int
	MemoryMiB    int64
}

// Equal is one of equal shares, by which a GPU of several replicas is sold; turns is how
// many of them one container has.
func Equal(gpu GPU, replicas, turns int) (computeMilli int, memoryMiB int64) {
	return 1000 * turns / replicas, gpu.MemoryMiB * int64(turns) / int64(replicas)
}

// Holder is the container's full name.
func (s Share) Holder() string { return s.Namespace + "/" + s.Pod + "/" + s.Container }

// holdersOf are the containers of shares.
func holdersOf(shares []Share) (out []string) {
	for _, share := range shares {
		out = append(out, share.Holder())
	}
	return out
}

// percent writes thousandths as a percentage.
func percent(milli int) string {
	if milli%10 == 0 {
		return strconv.Itoa(milli / 10)
	}
	return fmt.Sprintf("%d.%d", milli/10, milli%10)
}

// limits are the most that one client may use.
type limits struct {
	milli     int
	memoryMiB int64
}

// limits are a share's limits on a GPU.
func (s Share) limits(gpu GPU) limits {
	return limits{cmp.Or(s.ComputeMilli, 1000), cmp.Or(s.MemoryMiB, gpu.MemoryMiB)}
}

// ceiling is what the daemon itself limits every client to: the most of what was promised.
func ceiling(gpu GPU, shares []Share) (out limits) {
	for _, share := range shares {
		l := share.limits(gpu)
		out.milli, out.memoryMiB = max(out.milli, l.milli), max(out.memoryMiB, l.memoryMiB)
	}
	return out
}

// fits returns an error that names everything when a further share is more than is left.
func fits(gpu GPU, have []Share, add Share) error {
	if add.ComputeMilli < 0 || add.ComputeMilli > 1000 {
		return fmt.Errorf("%s: compute share must be from 0 to 100 %%, is %s %%", add.Holder(), percent(add.ComputeMilli))
	}
	if add.MemoryMiB < 0 || add.MemoryMiB > gpu.MemoryMiB {
		return fmt.Errorf("%s: memory share must be from 0 to %d MiB, is %d MiB", add.Holder(), gpu.MemoryMiB, add.MemoryMiB)
	}
	milli, memory, holders := add.ComputeMilli, add.MemoryMiB, ""
	for _, share := range have {
		milli += share.ComputeMilli
		memory += share.MemoryMiB
		holders += fmt.Sprintf(", %s has %s %% and %d MiB", share.Holder(), percent(share.ComputeMilli), share.MemoryMiB)
	}
	refuse := func(what string) error {
		return fmt.Errorf("%w: %s of %s in total with %s (%s %% and %d MiB)%s", ErrOvercommitted, what, gpu.UUID,
			add.Holder(), percent(add.ComputeMilli), add.MemoryMiB, holders)
	}
	switch {
	case milli > 1000:
		return refuse("compute " + percent(milli) + " %")
	case memory > gpu.MemoryMiB:
		return refuse(fmt.Sprintf("memory %d of %d MiB", memory, gpu.MemoryMiB))
	case len(have)+1 > MaxShares:
		return refuse(fmt.Sprintf("%d of %d shares", len(have)+1, MaxShares))
	}
	return nil
}

// edits are what a container needs to be a client with its limits. The visible index is
// 0, because the daemon sees one GPU.
func (o Options) edits(gpu GPU, share Share) device.Edits {
	l := share.limits(gpu)
	options := []string{"rw", "nosuid", "nodev", "noexec", "rbind"}
	if o.ReadOnlyPipe {
		options[0] = "ro"
	}
	return device.Edits{
		Env: []string{envPipe + "=" + ContainerPipe, envPercent + "=" + percent(l.milli), envMemory + "=" + memoryLimit(l.memoryMiB)},
		Mounts: []device.Mount{
			{HostPath: o.pipe(gpu.UUID), ContainerPath: ContainerPipe, Options: options},
			{HostPath: o.ShmDir, ContainerPath: "/dev/shm", Options: []string{"rw", "nosuid", "nodev", "rbind"}},
		},
	}
}

// memoryLimit is the value of envMemory.
func memoryLimit(mib int64) string { return fmt.Sprintf("0=%dM", mib) }
