package simulated

import (
	"context"
	"testing"
	"time"

	"github.com/tangram-dev/tangram/internal/agent/device"
	"github.com/tangram-dev/tangram/lab/fleet"
)

const testFleet = `
pools:
- name: h
  count: 2
  gpu: {model: H100-80GB, count: 4, mig: true}
- name: t
  count: 1
  gpu: {model: T4, count: 2}
- name: amd
  count: 1
  gpu: {model: MI300X, count: 2}
- name: cpu
  count: 1
`

// clock is a time that tests move.
type clock struct{ now time.Time }

func (c *clock) read() time.Time      { return c.now }
func (c *clock) add(d time.Duration)  { c.now = c.now.Add(d) }
func (c *clock) seconds(n float64)    { c.add(time.Duration(n * float64(time.Second))) }
func newClock() *clock                { return &clock{now: time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)} }
func options(c *clock) Options        { return Options{Clock: c.read} }
func parse(t testing.TB) *fleet.Fleet { return parseText(t, testFleet) }

func parseText(t testing.TB, text string) *fleet.Fleet {
	t.Helper()
	f, err := fleet.Parse("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func newFleet(t testing.TB, o Options) *Fleet {
	t.Helper()
	s, err := New(parse(t), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func inventory(t testing.TB, b device.Backend) *device.Inventory {
	t.Helper()
	inv, err := b.Inventory(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return inv
}

func sampleOf(t testing.TB, b device.Backend) []device.Sample {
	t.Helper()
	samples, err := b.Sample(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return samples
}

func setFaults(t testing.TB, s *Fleet, node, text string) {
	t.Helper()
	list, err := fleet.ParseFaults(text)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SetFaults(node, list); err != nil {
		t.Fatal(err)
	}
}
