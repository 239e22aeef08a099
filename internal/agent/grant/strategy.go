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

// Strategy is a form in which a container is told its devices, by the names of NVIDIA's
// device plugin.
type Strategy string

// The strategies.
const (
	// EnvVar: NVIDIA's container runtime reads NVIDIA_VISIBLE_DEVICES.
	EnvVar Strategy = "envvar"
	// VolumeMounts: it reads the names of mounts, which a container cannot forge.
	VolumeMounts Strategy = "volume-mounts"
	// CDIAnnotations: the runtime reads CDI devices from an annotation.
	CDIAnnotations Strategy = "cdi-annotations"
	// CDICRI: kubelet tells the runtime the CDI devices.
	CDICRI Strategy = "cdi-cri"
)

var strategies = []Strategy{EnvVar, VolumeMounts, CDIAnnotations, CDICRI}

const (
	visible   = "NVIDIA_VISIBLE_DEVICES"
	mountRoot = "/var/run/nvidia-container-devices"
	// cdiKind is the kind of CDI device of an allocation.
	cdiKind = "tangram.dev/allocation"
)

func (g *Granter) cdi() bool {
	return slices.Contains(g.o.Strategies, CDICRI) || slices.Contains(g.o.Strategies, CDIAnnotations)
}

// byEnvironment: the container's own environment decides what it sees, because no CDI
// specification overrides it.
func (g *Granter) byEnvironment() bool { return !g.cdi() }

// answer is what a container on these devices needs, in all forms that are asked for.
func (g *Granter) answer(ctx context.Context, resource string, ids []string) (device.Answer, error) {
	var out device.Answer
	parsed := make([]records.ID, len(ids))
	for i, s := range slices.Sorted(slices.Values(ids)) {
		id, err := records.ParseID(s)
		if err != nil {
			return out, fmt.Errorf("%s: %w", resource, err)
		}
		parsed[i] = id
	}
	id := AllocationID(resource, ids)
	var other bool
	for _, s := range g.o.Strategies {
		switch s {
		case CDICRI:
			out.CDI = []string{cdiKind + "=" + id}
		case CDIAnnotations:
			out.Annotations = map[string]string{g.o.CDIAnnotationPrefix + "tangram_" + id: cdiKind + "=" + id}
		default:
			other = true
		}
	}
	if !other {
		return out, nil
	}
	names, uuids, err := g.names(resource, parsed)
	if err != nil {
		return device.Answer{}, err
	}
	if slices.Contains(g.o.Strategies, VolumeMounts) {
		out.Edits.Env = append(out.Edits.Env, visible+"="+mountRoot)
		for _, n := range names {
			out.Edits.Mounts = append(out.Edits.Mounts, device.Mount{HostPath: "/dev/null", ContainerPath: mountRoot + "/" + n})
		}
	} else {
		out.Edits.Env = append(out.Edits.Env, visible+"="+strings.Join(names, ","))
	}
	if g.o.PassDeviceSpecs && g.o.Edits != nil {
		e, err := g.o.Edits(ctx, uuids)
		if err != nil {
			return device.Answer{}, fmt.Errorf("%s: device nodes: %w", resource, err)
		}
		out.Edits.Nodes = append(out.Edits.Nodes, e.Nodes...)
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
		out.Edits.Env = append(out.Edits.Env, e.Env...)
		out.Edits.Mounts = append(out.Edits.Mounts, e.Mounts...)
		out.Edits.Nodes = append(out.Edits.Nodes, e.Nodes...)
	}
	return out, nil
}

// names are what the container runtime calls the devices, each once, and their UUIDs.
// MIG instances are always named by UUID.
func (g *Granter) names(resource string, ids []records.ID) (names, uuids []string, err error) {
	inv := g.o.Inventory()
	for _, id := range ids {
		if id.Kind == records.NewSlice {
			return nil, nil, fmt.Errorf("%s: device %s is made when the container starts, which needs a CDI strategy; deviceListStrategy is %v", resource, id, g.o.Strategies)
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
