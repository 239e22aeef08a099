//go:build cgo && linux

package nvml

import (
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/tangram-dev/tangram/internal/agent/device"
)

// instanceState is what is kept of a GPU instance between samples.
type instanceState struct {
	// memory is what was read while nobody used the instance; nil when it must be read.
	memory map[device.Field]float64
	// before is the performance monitor's last sample, nil when there is none.
	before nvml.GpmSample
	// load is the percentage of time the instance worked, as last known.
	load  float64
	known bool
}

// monitorShare bounds what the performance monitor may cost: after a round of questions it
// rests so many times as long as the round took. On an H200 in a virtual machine a question
// took 30 ms of a core; with this share it costs no more than a thousandth of a core.
const monitorShare = 1000

// sampleInstances reads what can be told apart by MIG instance. Instances that nobody uses
// do not work and their memory does not change, so the driver is not asked about them. A
// device in MIG mode has no utilization of its own; it is that of its instances by their
// compute slices.
func (b *Backend) sampleInstances(r *reader, g *gpu, h nvml.Device, devices []migDevice, s *device.Sample) {
	used := map[string]bool{}
	for _, p := range s.Processes {
		used[p.Instance] = true
	}
	working := map[int]bool{}
	slices := map[int]int{}
	for _, m := range devices {
		working[m.gpuInstance] = working[m.gpuInstance] || used[m.uuid]
		slices[m.gpuInstance] = m.slices
	}
	b.forget(r, g, working)

	began, asked := time.Now(), false
	due := began.After(g.monitorNext)
	sum, all := 0.0, true
	for gi, works := range working {
		state := g.instances[gi]
		if works && (due || !state.known) {
			b.monitor(r, h, gi, state)
			asked = true
		}
		if !works {
			b.release(r, state)
			state.load, state.known = 0, true
		}
		sum += state.load * float64(slices[gi])
		all = all && state.known && slices[gi] > 0
	}
	if asked {
		g.monitorNext = time.Now().Add(monitorShare * time.Since(began))
	}
	if total := g.computeSlices(); all && total > 0 {
		s.Values[device.Utilization] = sum / float64(total)
	}

	s.Instances = map[string]map[device.Field]float64{}
	for _, m := range devices {
		state := g.instances[m.gpuInstance]
		memory := state.memory
		if memory == nil || working[m.gpuInstance] {
			memory = map[device.Field]float64{}
			readMemory(r, m.handle, memory)
			if len(memory) == 0 {
				g.forgetCuts() // the handle may be of an instance that is gone
				continue
			}
			state.memory = nil
			if !working[m.gpuInstance] {
				state.memory = memory
			}
		}
		values := map[device.Field]float64{}
		for field, value := range memory {
			values[field] = value
		}
		if state.known {
			values[device.Utilization] = state.load
		}
		s.Instances[m.uuid] = values
	}
}

// monitor asks the performance monitor, which Hopper and later have, how much of the time
// an instance worked since the last question. The first time there is nothing to compare
// with.
func (b *Backend) monitor(r *reader, h nvml.Device, instance int, state *instanceState) {
	now, ok := read(r, "nvmlGpmSampleAlloc", b.library.GpmSampleAlloc)
	if !ok {
		return
	}
	if _, ok := read(r, "nvmlGpmMigSampleGet", func() (struct{}, nvml.Return) {
		return struct{}{}, h.GpmMigSampleGet(instance, now)
	}); !ok {
		b.free(r, now)
		return
	}
	before := state.before
	state.before = now
	if before == nil {
		return
	}
	defer b.free(r, before)
	metric, ok := read(r, "nvmlGpmMetricsGet", func() (nvml.GpmMetric, nvml.Return) {
		ask := nvml.GpmMetricsGetType{NumMetrics: 1, Sample1: before, Sample2: now}
		ask.Metrics[0].MetricId = uint32(nvml.GPM_METRIC_GRAPHICS_UTIL)
		ret := b.library.GpmMetricsGet(&ask)
		return ask.Metrics[0], ret
	})
	if ok && nvml.Return(metric.NvmlReturn) == nvml.SUCCESS {
		state.load, state.known = metric.Value, true
	}
}

// forget makes the state of instances that are new and drops that of those that are gone.
func (b *Backend) forget(r *reader, g *gpu, exist map[int]bool) {
	var gone []*instanceState
	g.mu.Lock()
	for gi, state := range g.instances {
		if _, ok := exist[gi]; !ok {
			gone = append(gone, state)
			delete(g.instances, gi)
		}
	}
	if g.instances == nil {
		g.instances = map[int]*instanceState{}
	}
	for gi, works := range exist {
		if g.instances[gi] == nil {
			g.instances[gi] = &instanceState{}
		}
		if state := g.instances[gi]; works && state.memory != nil {
			// It begins to work: what was known of it as idle is no longer true.
			state.memory, state.known = nil, false
		}
	}
	g.mu.Unlock()
	for _, state := range gone {
		b.release(r, state)
	}
}

// release gives back the monitor's sample of an instance.
func (b *Backend) release(r *reader, state *instanceState) {
	if state.before != nil {
		b.free(r, state.before)
		state.before = nil
	}
}

// free gives a sample's memory back; after a call on it that hangs it is leaked, since
// the driver may still write to it.
func (b *Backend) free(r *reader, sample nvml.GpmSample) {
	if r.err == nil {
		read(r, "nvmlGpmSampleFree", func() (struct{}, nvml.Return) { return struct{}{}, sample.Free() })
	}
}

// computeSlices is how many compute slices the largest instance of a device has.
func (g *gpu) computeSlices() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	most := 0
	if g.known != nil && g.known.MIG != nil {
		for _, p := range g.known.MIG.Profiles {
			most = max(most, p.ComputeSlices)
		}
	}
	return most
}
