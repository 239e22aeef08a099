//go:build cgo && linux

package nvml

import (
	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// wholeDevice stands for the device itself where a GPU instance is asked for.
const wholeDevice = -1

// monitor is the percentage of time in which a GPU instance, or the device, worked since
// the last time it was asked: from the performance monitor that Hopper and later have.
// The first time there is nothing to compare with, and no answer.
func (b *Backend) monitor(r *reader, g *gpu, h nvml.Device, instance int) (float64, bool) {
	now, ok := read(r, "nvmlGpmSampleAlloc", b.library.GpmSampleAlloc)
	if !ok {
		return 0, false
	}
	name, take := "nvmlGpmSampleGet", func() nvml.Return { return h.GpmSampleGet(now) }
	if instance != wholeDevice {
		name, take = "nvmlGpmMigSampleGet", func() nvml.Return { return h.GpmMigSampleGet(instance, now) }
	}
	if _, ok := read(r, name, func() (struct{}, nvml.Return) { return struct{}{}, take() }); !ok {
		b.free(r, now)
		return 0, false
	}
	g.mu.Lock()
	before := g.gpm[instance]
	if g.gpm == nil {
		g.gpm = map[int]nvml.GpmSample{}
	}
	g.gpm[instance] = now
	g.mu.Unlock()
	if before == nil {
		return 0, false
	}
	defer b.free(r, before)
	metric, ok := read(r, "nvmlGpmMetricsGet", func() (nvml.GpmMetric, nvml.Return) {
		ask := nvml.GpmMetricsGetType{NumMetrics: 1, Sample1: before, Sample2: now}
		ask.Metrics[0].MetricId = uint32(nvml.GPM_METRIC_GRAPHICS_UTIL)
		ret := b.library.GpmMetricsGet(&ask)
		return ask.Metrics[0], ret
	})
	if !ok || nvml.Return(metric.NvmlReturn) != nvml.SUCCESS {
		return 0, false
	}
	return metric.Value, true
}

// forget drops the monitor's samples of instances that are gone.
func (b *Backend) forget(r *reader, g *gpu, exist []migDevice) {
	keep := map[int]bool{wholeDevice: true}
	for _, m := range exist {
		keep[m.gpuInstance] = true
	}
	var gone []nvml.GpmSample
	g.mu.Lock()
	for instance, sample := range g.gpm {
		if !keep[instance] {
			gone = append(gone, sample)
			delete(g.gpm, instance)
		}
	}
	g.mu.Unlock()
	for _, sample := range gone {
		b.free(r, sample)
	}
}

// free gives a sample's memory back; after a call on it that hangs it is leaked, since
// the driver may still write to it.
func (b *Backend) free(r *reader, sample nvml.GpmSample) {
	if r.err == nil {
		read(r, "nvmlGpmSampleFree", func() (struct{}, nvml.Return) { return struct{}{}, sample.Free() })
	}
}
