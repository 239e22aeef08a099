package simulated

import (
	"math"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tangram-dev/tangram/internal/agent/device"
)

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-6*(1+math.Abs(a)+math.Abs(b)) }

func (m motion) near(o motion) bool {
	return near(m.utilization, o.utilization) && near(m.power, o.power) && near(m.heat, o.heat) && near(m.energy, o.energy) && near(m.work, o.work)
}

// One long step equals two short ones, and never leaves what is physically possible.
func TestStepsAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newClimate(rapid.Float64Range(5, 200).Draw(t, "idle"), rapid.Float64Range(50, 1000).Draw(t, "limit"), rapid.Float64Range(0, 1).Draw(t, "place"))
		m := c.atRest()
		for range rapid.IntRange(1, 5).Draw(t, "changes") {
			target := rapid.Float64Range(0, 1).Draw(t, "target")
			share := rapid.SampledFrom([]float64{1, 0.6}).Draw(t, "share")
			first, second := rapid.Float64Range(0, 600).Draw(t, "first"), rapid.Float64Range(0, 600).Draw(t, "second")
			whole := c.advance(m, first+second, target, share)
			parts := c.advance(c.advance(m, first, target, share), second, target, share)
			if !whole.near(parts) {
				t.Fatalf("%g s: %+v, in two steps %+v", first+second, whole, parts)
			}
			if whole.utilization < -1e-9 || whole.utilization > 1+1e-9 || whole.power < c.idle-1e-6 || whole.power > c.full+1e-6 ||
				whole.heat < c.ambient || whole.heat > c.ambient+c.perWatt*c.full+1e-6 || whole.energy < m.energy || whole.work < m.work {
				t.Fatalf("%+v from %+v under %+v", whole, m, c)
			}
			m = whole
		}
	})
}

// The closed form is the solution of the equations: compare with many tiny steps of
// Euler's method.
func TestClosedForm(t *testing.T) {
	c := newClimate(70, 700, 0.5)
	exact, euler := c.atRest(), c.atRest()
	for _, leg := range []struct{ seconds, target, share float64 }{{7, 0.9, 1}, {40, 0.3, 0.6}, {90, 0, 1}} {
		exact = c.advance(exact, leg.seconds, leg.target, leg.share)
		const dt = 1e-3
		for range int(leg.seconds / dt) {
			power := c.idle + (c.full-c.idle)*leg.share*euler.utilization
			next := motion{
				utilization: euler.utilization + dt*(leg.target-euler.utilization)/utilizationLag,
				power:       euler.power + dt*(power-euler.power)/powerLag,
				heat:        euler.heat + dt*(c.ambient+c.perWatt*euler.power-euler.heat)/heatLag,
				energy:      euler.energy + dt*euler.power,
				work:        euler.work + dt*euler.utilization,
			}
			euler = next
		}
		if math.Abs(exact.utilization-euler.utilization) > 1e-3 || math.Abs(exact.power-euler.power) > 0.3 || math.Abs(exact.heat-euler.heat) > 0.05 ||
			math.Abs(exact.energy/euler.energy-1) > 1e-3 || math.Abs(exact.work/euler.work-1) > 1e-3 {
			t.Errorf("after %g s: %+v, by small steps %+v", leg.seconds, exact, euler)
		}
	}
}

// Utilization follows the load within seconds, power right after, heat within a minute
// or two; and all go back.
func TestTelemetryFollowsLoad(t *testing.T) {
	c := newClock()
	s := newFleet(t, options(c))
	b := s.Backend("h-0")
	value := func(f device.Field) float64 { return sampleOf(t, b)[1].Values[f] }
	if u, p := value(device.Utilization), value(device.Power); u != 0 || p != 70 {
		t.Fatalf("at rest: utilization %g, power %g", u, p)
	}
	cold := value(device.Temperature)
	if value(device.SMClock) != 345 || value(device.ClockEventReasons) != reasonIdle || value(device.MemoryUsed) != 0 {
		t.Errorf("at rest: %v", sampleOf(t, b)[1].Values)
	}
	s.nodes["h-0"].setLoad([]Use{{Device: 1, Utilization: 60, MemoryMiB: 1000, Start: WholeDevice}, {Device: 1, Utilization: 30, MemoryMiB: 500, Start: WholeDevice}})
	if value(device.Utilization) != 0 || value(device.MemoryUsed) != 1500 {
		t.Errorf("at once: utilization %g, memory %g", value(device.Utilization), value(device.MemoryUsed))
	}
	if value(device.SMClock) != 1980 {
		t.Errorf("clock %g", value(device.SMClock))
	}
	c.seconds(3)
	if u, warm := value(device.Utilization), value(device.Temperature); u < 50 || u > 80 || warm > cold+5 {
		t.Errorf("after 3 s: utilization %g, %g degrees from %g", u, warm, cold)
	}
	c.seconds(120)
	hot := value(device.Temperature)
	if u, p := value(device.Utilization), value(device.Power); u < 84 || u > 96 || p < 500 || p > 700 || hot < cold+25 || hot > 85 {
		t.Errorf("warm: utilization %g, power %g, %g degrees from %g", u, p, hot, cold)
	}
	if other := sampleOf(t, b)[0].Values; other[device.Utilization] != 0 || other[device.Temperature] > 45 {
		t.Errorf("an idle neighbour: %v", other)
	}
	energy, moved := value(device.Energy), value(device.NVLinkBandwidth)
	if energy < 1000*60*500 || energy > 1000*123*700 || moved <= 0 {
		t.Errorf("energy %g mJ, %g bytes over NVLink", energy, moved)
	}
	s.nodes["h-0"].setLoad(nil)
	c.seconds(300)
	if u, end := value(device.Utilization), value(device.Temperature); u != 0 || end != cold || value(device.Energy) <= energy {
		t.Errorf("after the load: utilization %g, %g degrees, was %g", u, end, cold)
	}
	c.add(-time.Hour) // a clock that is put back
	if value(device.Temperature) != cold {
		t.Error("a clock that is put back changes the temperature")
	}
}

// The same inputs give the same telemetry, however often it is read; another seed gives
// other devices.
func TestSameInputsSameTelemetry(t *testing.T) {
	run := func(seed uint64, reads int) device.Sample {
		c := newClock()
		s := newFleet(t, Options{Clock: c.read, Seed: seed})
		s.nodes["h-1"].setLoad([]Use{{Device: 2, Utilization: 77, Start: WholeDevice}})
		for range reads {
			sampleOf(t, s.Backend("h-1"))
			c.seconds(60 / float64(reads))
		}
		return sampleOf(t, s.Backend("h-1"))[2]
	}
	once, often, other := run(1, 1), run(1, 60), run(2, 1)
	if !reflect.DeepEqual(once, often) {
		t.Errorf("read once %v\nread often %v", once, often)
	}
	if reflect.DeepEqual(once.Values, other.Values) {
		t.Error("the seed changes nothing")
	}
}

func TestSpeed(t *testing.T) {
	c := newClock()
	slow, fast := newFleet(t, options(c)), newFleet(t, Options{Clock: c.read, Speed: 60})
	for _, s := range []*Fleet{slow, fast} {
		s.nodes["h-0"].setLoad([]Use{{Utilization: 100, Start: WholeDevice}})
	}
	c.seconds(3)
	a, b := sampleOf(t, slow.Backend("h-0"))[0].Values[device.Temperature], sampleOf(t, fast.Backend("h-0"))[0].Values[device.Temperature]
	if b < a+20 {
		t.Errorf("%g degrees at speed 60, %g at 1", b, a)
	}
}
