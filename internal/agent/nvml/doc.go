// Package nvml is the agent's back end on NVIDIA's driver. It is the only package that
// calls the driver, through NVIDIA's go-nvml, which opens libnvidia-ml at run time:
// the program starts without a driver, and calls fail with device.ErrNoDriver until there is
// one.
//
// Reading order: options.go, backend.go (opening, and what may run at the same time),
// guard.go (every call of the driver goes through it), inventory.go with links.go and
// mig.go, cut.go (MIG instances made and destroyed), sample.go with fields.go and instances.go, watch.go, edits.go with driverfiles.go,
// reset.go.
//
// # Symbols
//
// libnvidia-ml is linked lazily. A call of a function that an older driver does not have
// ends the process, so the guard looks every function up before its first call and
// answers device.ErrNotSupported instead. For that, a call's name is the C function's.
//
// # Files of the driver
//
// What a container needs of the driver is found by driverfiles.go and not by the
// generator of NVIDIA's container toolkit (pkg/nvcdi, v1.20.0), because of what the
// toolkit brings along: runc, cgroups, logrus, go-nvlib and CDI's runtime code, and
// newer versions of grpc, golang.org/x/sys, x/net and OpenTelemetry for this whole
// module, the scheduler included. The rule itself is small: the libraries that carry the
// driver's version in their name, under that name and their SONAME, and five programs.
// Not handed out, and needing the toolkit's own device plugin or runtime: files for
// graphics (Vulkan, EGL, X), GDS, MOFED and gdrcopy.
//
// # Privileges
//
// Reading needs the device nodes. Listing, creating and destroying MIG instances,
// switching MIG mode and resetting need CAP_SYS_ADMIN on the node.
//
// Without cgo (CGO_ENABLED=0) all calls fail with device.ErrNoDriver (nocgo.go).
package nvml
