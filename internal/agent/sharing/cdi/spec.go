package cdi

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"tags.cncf.io/container-device-interface/pkg/parser"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"github.com/tangram-dev/tangram/internal/agent/device"
)

// The parts of a CDI device's full name, tangram.dev/allocation=<ID>.
const (
	Vendor = "tangram.dev"
	Class  = "allocation"
	Kind   = Vendor + "/" + Class
)

// visible is the variable by which NVIDIA's container runtime decides on devices by
// itself. It is void in every spec: what a container gets is in the spec, and an image
// or a pod that says "all" must not widen it. CDI's environment wins over theirs.
const visible = "NVIDIA_VISIBLE_DEVICES"

// Name is the full CDI name of an allocation, as Allocate hands it to kubelet.
func Name(id string) string { return parser.QualifiedName(Vendor, Class, id) }

// spec is the CDI spec of one allocation.
func spec(id string, edits device.Edits) (*specs.Spec, error) {
	if err := parser.ValidateDeviceName(id); err != nil {
		return nil, fmt.Errorf("allocation ID %q: %w", id, err)
	}
	out := &specs.Spec{Kind: Kind, Devices: []specs.Device{{Name: id, ContainerEdits: containerEdits(edits)}}}
	version, err := specs.MinimumRequiredVersion(out)
	if err != nil {
		return nil, err
	}
	out.Version = version
	return out, nil
}

func containerEdits(edits device.Edits) specs.ContainerEdits {
	out := specs.ContainerEdits{Env: []string{visible + "=void"}}
	for _, variable := range edits.Env {
		if name, _, _ := strings.Cut(variable, "="); name != visible {
			out.Env = append(out.Env, variable)
		}
	}
	for _, node := range edits.Nodes {
		converted := &specs.DeviceNode{Path: node.Path, HostPath: node.HostPath, Permissions: cmp.Or(node.Permissions, "rw")}
		if converted.HostPath == converted.Path {
			converted.HostPath = ""
		}
		out.DeviceNodes = append(out.DeviceNodes, converted)
	}
	for _, mount := range edits.Mounts {
		// Runtimes take a mount without a type for a file system of that name unless
		// an option says that it is a bind mount.
		options := slices.Clone(mount.Options)
		if !slices.Contains(options, "bind") && !slices.Contains(options, "rbind") {
			options = append(options, "rbind")
		}
		out.Mounts = append(out.Mounts, &specs.Mount{HostPath: mount.HostPath,
			ContainerPath: mount.ContainerPath, Options: options, Type: "bind"})
	}
	for _, hook := range edits.Hooks {
		out.Hooks = append(out.Hooks, &specs.Hook{HookName: hook.Name, Path: hook.Path, Args: slices.Clone(hook.Args)})
	}
	return out
}
