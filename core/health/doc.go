// Package health decides in which state one device is: healthy, suspect, degraded or
// failed. It is told what happened to the device (events) and what was measured on it
// (samples), each with the time; it reads no clock and no hardware. New pods are kept
// off every device that is not healthy, so each rule here also says whether one tenant
// can take capacity away from the others.
//
// A state is the worst of the causes that a device has. A cause begins when an event or
// a sample shows it, lasts until it is verified to be gone, and is forgotten only after
// a quiet time. So the severity never falls while a cause lasts, and a device never
// comes back from failed because its trouble was merely not seen again.
//
// Errors that an application can provoke (an illegal memory access, a hung kernel) do
// not change the state of a device: a tenant could otherwise take devices from all
// others by writing a bad kernel. They are held against the device only when several
// tenants had them within an hour, none of which can be blamed for all; then for five
// minutes, and not again within the hour. The driver's own verdict (recovery action)
// stands above all tables.
//
// An operator's cordon is no matter of health and unknown here. Memory, clocks and what
// pods do are unknown too.
//
// Read in this order: state.go (states, what helps), xid.go (the table of driver
// errors), code.go (causes), input.go (events and samples), options.go, device.go (the
// state machine), cause.go (how causes begin and end), blame.go (application errors),
// saved.go (over a restart of the agent).
package health
