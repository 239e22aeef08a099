package simulated

import "math"

// How fast a device follows its load, in seconds: after so long, 63 % of a change is
// done. All three differ, which the closed form below needs.
const (
	utilizationLag = 2.0
	powerLag       = 3.0
	heatLag        = 30.0
)

// climate says what a device draws and how warm it gets.
type climate struct {
	// idle and full are watts at rest and at full load.
	idle, full float64
	// ambient is the temperature at no power, perWatt what each watt adds, in degrees
	// Celsius.
	ambient, perWatt float64
}

// fullLoadShare is how much of the power limit a device draws at full load.
const fullLoadShare = 0.9

// newClimate gives a device that draws all it does at full load about 75 degrees, and a
// little more or less by its place in the chassis, from 0 to 1.
func newClimate(idle, limit, place float64) climate {
	const ambient, full = 28, 72
	most := math.Max(limit*fullLoadShare, idle+1)
	inlet := ambient + 6*place
	return climate{idle: idle, full: most, ambient: inlet, perWatt: (full - ambient) / most}
}

// motion is what moves: a chain of three first-order systems. Utilization follows its
// target, power follows utilization, temperature follows power.
type motion struct {
	utilization float64 // 0 to 1
	power       float64 // watts
	heat        float64 // degrees Celsius
	energy      float64 // joules so far
	work        float64 // seconds of full utilization so far
}

// atRest is the state of a device that has been idle for long.
func (c climate) atRest() motion {
	return motion{power: c.idle, heat: c.ambient + c.perWatt*c.idle}
}

// advance moves the state by a time in seconds, with a constant target (0 to 1) and
// the share of its power that the device may draw above idle (1 unless it is
// throttled). It is the exact solution, so that one long step equals many short ones:
// how often telemetry is sampled changes nothing.
//
// With a target T, u(t) = T + U e^-at. What follows with rate b obeys x' = b (target - x)
// and its solution takes over each exponential of its input, scaled by b/(b-rate), and
// adds one of its own.
func (c climate) advance(m motion, seconds, target, powerShare float64) motion {
	if seconds <= 0 {
		return m
	}
	const a, b, d = 1 / utilizationLag, 1 / powerLag, 1 / heatLag
	ea, eb, ed := math.Exp(-a*seconds), math.Exp(-b*seconds), math.Exp(-d*seconds)

	u := m.utilization - target
	span := (c.full - c.idle) * powerShare
	steadyPower := c.idle + span*target
	pa := span * u * b / (b - a)
	pb := m.power - steadyPower - pa

	steadyHeat := c.ambient + c.perWatt*steadyPower
	ha := c.perWatt * pa * d / (d - a)
	hb := c.perWatt * pb * d / (d - b)
	hd := m.heat - steadyHeat - ha - hb

	return motion{
		utilization: target + u*ea,
		power:       steadyPower + pa*ea + pb*eb,
		heat:        steadyHeat + ha*ea + hb*eb + hd*ed,
		// Rounding must not take back what a counter has counted.
		energy: m.energy + math.Max(0, steadyPower*seconds+pa*(1-ea)/a+pb*(1-eb)/b),
		work:   m.work + math.Max(0, target*seconds+u*(1-ea)/a),
	}
}
