package mig

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/tangram-dev/tangram/internal/agent/device"
)

// model is a driver that behaves like an H200's, notes which program made what, and complains
// about every call that a good manager does not make.
type model struct {
	gpus  []*modelGPU
	wrong []string
	// What the next calls do besides.
	crash, timeout bool // of CreateInstance, after it made the instance
	lost           bool // CreateInstance reports a timeout and made nothing
	next           int  // GPU instance id
}

type modelGPU struct {
	uuid       string
	on, onByUs bool
	busy       bool // a process runs on the device without MIG
	instances  []device.Instance
	foreign    map[int]bool // by GPU instance
	busyInst   map[int]bool
	hasNoMIG   bool
}

// crashed is what a manager's process dies of.
type crashed struct{}

func profiles() []device.Profile {
	return []device.Profile{
		{ID: 0, Name: "7g.141gb", Starts: []int{0}, Size: 8},
		{ID: 5, Name: "4g.71gb", Starts: []int{0}, Size: 4},
		{ID: 9, Name: "3g.71gb", Starts: []int{0, 4}, Size: 4},
		{ID: 14, Name: "2g.35gb", Starts: []int{0, 2, 4}, Size: 2},
		{ID: 19, Name: "1g.18gb", Starts: []int{0, 1, 2, 3, 4, 5, 6}, Size: 1},
		{ID: 20, Name: "1g.18gb+me", Starts: []int{0, 1, 2, 3, 4, 5, 6}, Size: 1},
	}
}

func newModel(gpus int) *model {
	m := &model{}
	for i := range gpus {
		m.gpus = append(m.gpus, &modelGPU{uuid: fmt.Sprintf("GPU-%d", i), foreign: map[int]bool{}, busyInst: map[int]bool{}})
	}
	return m
}

func (m *model) gpu(uuid string) *modelGPU {
	for _, g := range m.gpus {
		if g.uuid == uuid {
			return g
		}
	}
	return nil
}

func (m *model) complain(format string, args ...any) {
	m.wrong = append(m.wrong, fmt.Sprintf(format, args...))
}

func (m *model) Inventory(context.Context) (*device.Inventory, error) {
	out := &device.Inventory{}
	for i, g := range m.gpus {
		d := device.Device{Index: i, UUID: g.uuid, Model: "NVIDIA H200"}
		if !g.hasNoMIG {
			d.MIG = &device.MIG{Enabled: g.on, Profiles: profiles(), Instances: slices.Clone(g.instances)}
		}
		out.Devices = append(out.Devices, d)
	}
	return out, nil
}

func (m *model) Sample(context.Context) ([]device.Sample, error) {
	var out []device.Sample
	for _, g := range m.gpus {
		s := device.Sample{UUID: g.uuid}
		if g.busy {
			s.Processes = []device.Process{{PID: 42}}
		}
		out = append(out, s)
	}
	return out, nil
}

func (m *model) SetMIG(_ context.Context, uuid string, on bool) error {
	g := m.gpu(uuid)
	switch {
	case on && g.busy:
		m.complain("MIG mode of %s turned on while a process uses it", uuid)
	case !on && len(g.instances) > 0:
		m.complain("MIG mode of %s turned off with instances", uuid)
	case !on && g.on && !g.onByUs:
		m.complain("MIG mode of %s turned off that another program turned on", uuid)
	}
	g.on, g.onByUs = on, on
	return nil
}

func (g *modelGPU) free(start, size int) bool {
	return !slices.ContainsFunc(g.instances, func(i device.Instance) bool {
		return i.Start < start+size && start < i.Start+i.Size
	})
}

func (m *model) add(g *modelGPU, p device.Profile, start int) device.Instance {
	m.next++
	instance := device.Instance{UUID: fmt.Sprintf("MIG-%d", m.next), GPUInstance: m.next, ProfileID: p.ID, Profile: p.Name, Start: start, Size: p.Size}
	g.instances = append(g.instances, instance)
	return instance
}

func (m *model) CreateInstance(_ context.Context, uuid string, profileID, start int) (device.Instance, error) {
	g := m.gpu(uuid)
	ps := profiles()
	p := ps[slices.IndexFunc(ps, func(p device.Profile) bool { return p.ID == profileID })]
	if !g.on || !slices.Contains(p.Starts, start) || !g.free(start, p.Size) {
		m.complain("%s at slice %d of %s asked for, which cannot be", p.Name, start, uuid)
		return device.Instance{}, device.ErrBusy
	}
	if m.lost {
		m.lost = false
		return device.Instance{}, device.ErrTimeout
	}
	instance := m.add(g, p, start)
	if m.crash {
		m.crash = false
		panic(crashed{})
	}
	if m.timeout {
		m.timeout = false
		return device.Instance{}, device.ErrTimeout
	}
	return instance, nil
}

func (m *model) DestroyInstance(_ context.Context, uuid string, gi int) error {
	g := m.gpu(uuid)
	i := slices.IndexFunc(g.instances, func(i device.Instance) bool { return i.GPUInstance == gi })
	if i < 0 {
		return device.ErrNotFound
	}
	if g.foreign[gi] {
		m.complain("instance %d of %s destroyed, which is another program's", gi, uuid)
	}
	if g.busyInst[gi] {
		return device.ErrBusy
	}
	g.instances = slices.Delete(g.instances, i, i+1)
	return nil
}

// ours counts the instances that the manager made.
func (m *model) ours() int {
	n := 0
	for _, g := range m.gpus {
		for _, i := range g.instances {
			if !g.foreign[i.GPUInstance] {
				n++
			}
		}
	}
	return n
}

// clock is a time that tests move.
type clock struct{ now time.Time }

func (c *clock) read() time.Time { return c.now }

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

func manager(t testing.TB, m *model, path string, c *clock, change func(*Options)) *Manager {
	t.Helper()
	options := Options{Journal: path, Linger: time.Minute, Boot: "boot-1", Now: c.read, Log: quiet()}
	if change != nil {
		change(&options)
	}
	out, err := New(m, options)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
