// Package contest follows pods whose records name a device that another pod holds. Such a
// contest is reported, and where this process itself gave the device to the other pod, the
// younger pod has to go. It reads core's ledger and changes nothing: what to report and
// which pods to evict are values for the engine.
//
// Read contest.go.
package contest
