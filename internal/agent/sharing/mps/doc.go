// Package mps shares a GPU by CUDA's Multi-Process Service: unequal amounts of compute
// and memory for each container, at the same time and not in turns.
//
// One control daemon runs for each GPU that has shares: started for the first share,
// stopped after the last, started again with back-off when it dies. It outlives the
// agent, because all programs on the GPU end with it; a new agent takes it over.
//
// What is enforced, and by what:
//
//   - The driver limits each client process to the percentage of SMs and the device
//     memory in its environment. The environment is set through CDI, and a container's
//     own processes can change it for themselves before they use CUDA.
//   - The daemon's own limits are the most that any share of the GPU was promised. No
//     client gets more, whatever its environment says.
//   - A client that ignores the daemon would have the whole device. So the device is in
//     compute mode EXCLUSIVE_PROCESS (Options.Exclusive) while it is shared: only the
//     daemon's server may use it. The daemon is also where CUDA looks when the variable
//     is unset (ContainerPipe).
//   - The Guard compares the memory that each container really uses, all its processes
//     together, with what it was promised, and ends what is over. It reports
//     environments that were changed. A process that changes its environment after its
//     start and before it uses CUDA is seen by its memory only: more compute than
//     promised, up to the daemon's limit, remains possible.
//
// Users: one server serves one user at a time unless the daemon runs with
// -multiuser-server (Options.MultiUser, Volta and later). Then clients of all users
// share root's server at the same time. CUDA gives each client its own address space,
// but a fault of one client can end the others: share a GPU only between pods that may
// fail together.
//
// A container gets shares of one GPU only: a client has one daemon.
//
// Reading order: options.go, share.go (amounts), manager.go, daemon.go (supervision),
// launch.go, control.go (the daemon's commands), exclusive.go (compute modes), process.go
// and owner.go (what /proc says), guard.go.
package mps
