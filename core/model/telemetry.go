package model

// Reading is one measured value. The zero Reading means "not measured", which is
// different from a measured 0.
type Reading struct {
	Value int
	Known bool
}

// Measured is a reading that was taken.
func Measured(value int) Reading { return Reading{value, true} }

// Telemetry is what was last measured on one device. It describes load, not permission:
// it changes a node's score, never whether a request fits.
type Telemetry struct {
	// Utilization is the share of time the device was busy, in percent.
	Utilization Reading
	// MemoryUsed is in MiB.
	MemoryUsed Reading
	// Temperature is in degrees Celsius.
	Temperature Reading
	// Power is in watts.
	Power Reading
}
