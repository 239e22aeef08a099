package device

// Edits are what a container needs to use devices: a subset of CDI's container edits,
// from which every way of handing devices to a container is made.
type Edits struct {
	Env    []string // NAME=value
	Nodes  []Node
	Mounts []Mount
	Hooks  []Hook
}

// Node is a device node.
type Node struct {
	// Path is in the container, HostPath on the node; equal when HostPath is empty.
	Path, HostPath string
	// Permissions are cgroup's, such as rw; empty for rw.
	Permissions string
}

// Mount is a bind mount.
type Mount struct {
	HostPath, ContainerPath string
	Options                 []string // such as ro, nosuid
}

// Hook is an OCI hook.
type Hook struct {
	// Name is the stage, such as createContainer.
	Name, Path string
	Args       []string
}
