// Package health keeps the health of one node's devices: it receives the back end's
// events, samples all devices at intervals, feeds both to the state machines of
// core/health, and tells a sink about each change. It keeps the last samples to be
// published and exported, and resets devices that need it and that are idle,
// where the operator allows that.
//
// Health belongs to the physical device: Status answers for every name by which a
// device, a turn of it or a slice of it is sold. An error of a MIG instance that does not
// touch its neighbours is held against the instance alone.
//
// It decides nothing about health (core/health does) and does not know what a pod is:
// tenants and holders are the caller's words.
//
// Read in this order: monitor.go (what it keeps, what one may ask), feed.go (events and
// samples in), xids.go (errors counted over time), sample.go and watch.go (the loops),
// reset.go, saved.go.
package health
