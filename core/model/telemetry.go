package model

// Reading is one measured value. The zero Reading was never taken: nobody may
// mistake it for a measured 0.
type Reading struct {
	Value int
	Known bool
}

// Measured is a reading that was taken.
func Measured(value int) Reading { return Reading{value, true} }

// Telemetry is what was last measured on one device. It says how a device is doing,
// not who may use it: it can make a placement better or worse, never possible or
// impossible.
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
