package sharing

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tangram-dev/tangram/internal/agent/device"
	"github.com/tangram-dev/tangram/internal/agent/sharing/hami"
	"github.com/tangram-dev/tangram/internal/agent/sharing/mps"
)

// Prepare makes everything ready for the container of an allocation and writes its CDI file. It may be called again
// for the same allocation, with other devices too. On an error the container must not start; device.ErrBusy and
// mps.ErrOvercommitted may go away when other containers end.
func (s *Sharing) Prepare(ctx context.Context, a device.Allocation) error {
	edits, err := s.Edits(ctx, a)
	if s.options.Live != nil && (errors.Is(err, device.ErrBusy) || errors.Is(err, mps.ErrOvercommitted)) {
		// What is in the way may belong to a container that has just ended.
		if live, listErr := s.options.Live(ctx); listErr == nil {
			if collectErr := s.Collect(ctx, live); collectErr != nil {
				s.options.Log.Error("Could not collect ended allocations", "err", collectErr)
			}
			edits, err = s.Edits(ctx, a)
		}
	}
	if err == nil {
		err = s.specs.Write(a.ID, edits)
	}
	if err != nil {
		return fmt.Errorf("prepare %s/%s/%s: %w", a.Namespace, a.Pod, a.Container, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recent[a.ID] = prepared{a, s.options.Now()}
	return nil
}

// Edits makes everything ready but the CDI file, and returns what would be in it: for
// device list strategies other than CDI.
func (s *Sharing) Edits(ctx context.Context, a device.Allocation) (device.Edits, error) {
	k, err := kindsOf(a)
	if err != nil {
		return device.Edits{}, err
	}
	inventory, err := s.options.Backend.Inventory(ctx)
	if err != nil {
		return device.Edits{}, err
	}
	if a.Admin {
		return s.asTheyAre(ctx, inventory, a)
	}
	if k == amount && s.options.Shares == "" {
		return device.Edits{}, fmt.Errorf("%w: shares by amount, because sharing.shares is not set", device.ErrNotSupported)
	}
	gpu, share, byMPS, err := s.share(a, k, finder(inventory))
	if err != nil {
		return device.Edits{}, err
	}
	uuids, err := s.devices(ctx, a, k, byMPS)
	if err != nil {
		return device.Edits{}, err
	}
	limits := device.Edits{}
	switch {
	case byMPS:
		limits, err = s.mps.Add(ctx, gpu, share)
	case k == amount && s.hami != nil:
		limits, err = s.hami.Edits(a, hamiLimits(a))
	}
	if err != nil {
		return device.Edits{}, err
	}
	base, err := s.options.Backend.Edits(ctx, uuids)
	if err != nil {
		return device.Edits{}, fmt.Errorf("what %v need in a container: %w", uuids, err)
	}
	return merge(base, limits), nil
}

// asTheyAre is what a container needs to look at devices that others may use.
func (s *Sharing) asTheyAre(ctx context.Context, inventory *device.Inventory, a device.Allocation) (device.Edits, error) {
	var uuids []string
	for _, grant := range a.Devices {
		uuid := grant.UUID
		if grant.Profile != "" && !strings.HasPrefix(uuid, "MIG-") {
			i := inventory.Find(grant.UUID).InstanceAt(grant.Profile, grant.Start)
			if i == nil || i.UUID == "" {
				return device.Edits{}, fmt.Errorf("MIG instance %v: %w: it does not exist, and admin access makes none", placement(grant), device.ErrNotFound)
			}
			uuid = i.UUID
		}
		uuids = append(uuids, uuid)
	}
	return s.options.Backend.Edits(ctx, uuids)
}

// devices brings the devices of an allocation into the state they must have and returns
// the UUIDs of devices or MIG instances, each once.
func (s *Sharing) devices(ctx context.Context, a device.Allocation, k kind, byMPS bool) ([]string, error) {
	var out []string
	for _, grant := range a.Devices {
		if s.mps != nil && !byMPS {
			if err := s.mps.Free(grant.UUID); err != nil {
				return nil, err
			}
		}
		uuid := grant.UUID
		if k == slice && strings.HasPrefix(uuid, "MIG-") {
			// An instance that another program has cut: it is there, or the container cannot start.
		} else if k == slice {
			instance, err := s.mig.Ensure(ctx, placement(grant))
			if err != nil {
				return nil, err
			}
			uuid = instance.UUID
		} else if err := s.mig.EnsureWhole(ctx, uuid); err != nil {
			return nil, err
		}
		if !slices.Contains(out, uuid) {
			out = append(out, uuid)
		}
	}
	return out, nil
}

// hamiLimits are the limits in the order of the devices; shares of the same device add up.
func hamiLimits(a device.Allocation) (out []hami.Limit) {
	var seen []string
	for _, grant := range a.Devices {
		i := slices.Index(seen, grant.UUID)
		if i < 0 {
			i, seen, out = len(seen), append(seen, grant.UUID), append(out, hami.Limit{})
		}
		out[i].MemoryMiB += grant.MemoryMiB
		out[i].ComputeMilli += grant.ComputeMilli
	}
	return out
}

// merge puts edits together. Of a variable or mount point that both have, the second's counts.
func merge(base, over device.Edits) device.Edits {
	out := device.Edits{Nodes: slices.Concat(base.Nodes, over.Nodes), Hooks: slices.Concat(base.Hooks, over.Hooks)}
	name := func(variable string) string { n, _, _ := strings.Cut(variable, "="); return n }
	for _, variable := range base.Env {
		if !slices.ContainsFunc(over.Env, func(o string) bool { return name(o) == name(variable) }) {
			out.Env = append(out.Env, variable)
		}
	}
	out.Env = append(out.Env, over.Env...)
	for _, mount := range base.Mounts {
		if !slices.ContainsFunc(over.Mounts, func(o device.Mount) bool { return o.ContainerPath == mount.ContainerPath }) {
			out.Mounts = append(out.Mounts, mount)
		}
	}
	out.Mounts = append(out.Mounts, over.Mounts...)
	return out
}
