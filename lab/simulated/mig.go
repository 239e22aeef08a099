package simulated

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"github.com/tangram-dev/tangram/internal/agent/device"
)

// media ends the names of profiles that have the media engines, of which a device has
// one set.
const media = "+me"

// SetMIG implements device.Backend.
func (b *backend) SetMIG(ctx context.Context, uuid string, on bool) error {
	err := b.on(ctx, uuid, func(n *node, g *gpu) error {
		switch {
		case g.MIG == nil:
			return fmt.Errorf("it cannot be cut: %w", device.ErrNotSupported)
		case g.cut == on:
			return nil
		case len(g.uses) > 0:
			return fmt.Errorf("%d containers use it: %w", len(g.uses), device.ErrBusy)
		case len(g.instances) > 0:
			return fmt.Errorf("it has %d instances: %w", len(g.instances), device.ErrBusy)
		}
		g.cut = on
		return n.keep(func() { g.cut = !on })
	})
	if err != nil {
		return fmt.Errorf("set MIG mode of device %.80s: %w", uuid, err)
	}
	return nil
}

// CreateInstance implements device.Backend. A state is legal when instances cover
// disjoint memory slices, each begins where its profile may, and at most one has the
// media engines.
func (b *backend) CreateInstance(ctx context.Context, uuid string, profileID, start int) (created device.Instance, err error) {
	err = b.on(ctx, uuid, func(n *node, g *gpu) error {
		p := g.profile(profileID)
		if err := g.admits(p, profileID, start); err != nil {
			return err
		}
		i := device.Instance{
			GPUInstance: g.freeID(p), ProfileID: p.ID, Profile: p.Name, Start: start, Size: p.Size, MemoryMiB: p.MemoryMiB,
		}
		i.UUID = instanceUUID(g.UUID, i)
		before := g.instances
		g.instances = append(slices.Clone(before), i)
		slices.SortFunc(g.instances, func(a, b device.Instance) int { return cmp.Compare(a.Start, b.Start) })
		created = i
		return n.keep(func() { g.instances = before })
	})
	if err != nil {
		return device.Instance{}, fmt.Errorf("create MIG instance of profile %d at slice %d on device %.80s: %w", profileID, start, uuid, err)
	}
	return created, nil
}

// profile returns the profile with an id; zero when there is none.
func (g *gpu) profile(id int) device.Profile {
	if g.MIG != nil {
		for _, p := range g.MIG.Profiles {
			if p.ID == id {
				return p
			}
		}
	}
	return device.Profile{}
}

// admits says why an instance cannot be created; nil when it can.
func (g *gpu) admits(p device.Profile, id, start int) error {
	switch {
	case g.MIG == nil:
		return fmt.Errorf("the device cannot be cut: %w", device.ErrNotSupported)
	case !g.cut:
		return fmt.Errorf("MIG mode is off: %w", device.ErrNotSupported)
	case p.Size == 0:
		return fmt.Errorf("the device has no profile %d: %w", id, device.ErrNotSupported)
	case !slices.Contains(p.Starts, start):
		return fmt.Errorf("%s may begin at slices %v: %w", p.Name, p.Starts, device.ErrNotSupported)
	}
	for _, other := range g.instances {
		if start < other.Start+other.Size && other.Start < start+p.Size {
			return fmt.Errorf("%s at slice %d is in the way: %w", other.Profile, other.Start, device.ErrBusy)
		}
		if strings.HasSuffix(p.Name, media) && strings.HasSuffix(other.Profile, media) {
			return fmt.Errorf("%s at slice %d has the media engines: %w", other.Profile, other.Start, device.ErrBusy)
		}
	}
	return nil
}

// freeID is a GPU instance id that is not in use; 0 is for the instance of all slices.
func (g *gpu) freeID(p device.Profile) int {
	if p.ID == 0 {
		return 0
	}
	id := 1
	for slices.ContainsFunc(g.instances, func(i device.Instance) bool { return i.GPUInstance == id }) {
		id++
	}
	return id
}

// instanceUUID follows from the placement, so that the same cut has the same name again.
func instanceUUID(parent string, i device.Instance) string {
	h := sha256.Sum256(fmt.Appendf(nil, "%s/%d/%d/%d", parent, i.GPUInstance, i.ProfileID, i.Start))
	return fmt.Sprintf("MIG-%x-%x-%x-%x-%x", h[0:4], h[4:6], h[6:8], h[8:10], h[10:16])
}

// DestroyInstance implements device.Backend.
func (b *backend) DestroyInstance(ctx context.Context, uuid string, gpuInstance int) error {
	err := b.on(ctx, uuid, func(n *node, g *gpu) error {
		at := slices.IndexFunc(g.instances, func(i device.Instance) bool { return i.GPUInstance == gpuInstance })
		if at < 0 {
			return device.ErrNotFound
		}
		for _, u := range g.uses {
			if u.on(g.instances[at]) {
				return fmt.Errorf("a container uses it: %w", device.ErrBusy)
			}
		}
		before := g.instances
		g.instances = slices.Delete(slices.Clone(before), at, at+1)
		return n.keep(func() { g.instances = before })
	})
	if err != nil {
		return fmt.Errorf("destroy MIG instance %d of device %.80s: %w", gpuInstance, uuid, err)
	}
	return nil
}
