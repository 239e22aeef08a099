package grant

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tangram-dev/tangram/internal/agent/device"
	"github.com/tangram-dev/tangram/internal/agent/records"
)

const (
	visible   = "NVIDIA_VISIBLE_DEVICES"
	mountRoot = "/var/run/nvidia-container-devices"
)

// answer is what a container on these devices needs.
func (g *Granter) answer(ctx context.Context, resource string, ids []string) (device.Answer, error) {
	parsed := make([]records.ID, len(ids))
	for i, s := range slices.Sorted(slices.Values(ids)) {
		id, err := records.ParseID(s)
		if err != nil {
			return device.Answer{}, fmt.Errorf("%s: %w", resource, err)
		}
		parsed[i] = id
	}
	if g.o.CDI != nil {
		return device.Answer{CDI: []string{g.o.CDI(AllocationID(resource, ids))}}, nil
	}
	names, uuids, err := g.names(resource, parsed)
	if err != nil {
		return device.Answer{}, err
	}
	edits := device.Edits{Env: []string{visible + "=" + strings.Join(names, ",")}}
	if g.o.Mounts {
		edits.Env = []string{visible + "=" + mountRoot}
		for _, n := range names {
			edits.Mounts = append(edits.Mounts, device.Mount{HostPath: "/dev/null", ContainerPath: mountRoot + "/" + n})
		}
	}
	if g.o.PassDeviceSpecs && g.o.Edits != nil {
		e, err := g.o.Edits(ctx, uuids)
		if err != nil {
			return device.Answer{}, fmt.Errorf("%s: device nodes: %w", resource, err)
		}
		edits.Nodes = e.Nodes
	}
	if g.o.Share != nil {
		var devices []device.Grant
		for _, p := range parsed {
			devices = append(devices, device.Grant{UUID: p.UUID, Turn: p.Kind == records.Turn, Number: p.Turn})
		}
		e, err := g.o.Share(ctx, resource, devices)
		if err != nil {
			return device.Answer{}, fmt.Errorf("%s: %w", resource, err)
		}
		edits.Env, edits.Mounts = append(edits.Env, e.Env...), append(edits.Mounts, e.Mounts...)
	}
	return device.Answer{Edits: edits}, nil
}

// names are what the container runtime calls the devices, each once, and their UUIDs.
// MIG instances are always named by UUID.
func (g *Granter) names(resource string, ids []records.ID) (names, uuids []string, err error) {
	inv := g.o.Inventory()
	for _, id := range ids {
		if id.Kind == records.NewSlice {
			return nil, nil, fmt.Errorf("%s: device %s is made when the container starts, which needs deviceListStrategy cdi-cri", resource, id)
		}
		name := id.UUID
		if d := inv.Find(id.UUID); d != nil && g.o.ByIndex {
			name = strconv.Itoa(d.Index)
		}
		if !slices.Contains(uuids, id.UUID) {
			names, uuids = append(names, name), append(uuids, id.UUID)
		}
	}
	return names, uuids, nil
}
