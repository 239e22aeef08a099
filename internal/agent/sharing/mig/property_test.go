package mig

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tangram-dev/tangram/internal/agent/device"
)

// Whatever containers, other programs, processes, crashes and reboots do: no foreign
// instance is touched, nothing overlaps, everything allocated exists, and in the end
// everything unwanted is gone.
func TestProperties(t *testing.T) {
	dir := t.TempDir()
	run := 0
	rapid.Check(t, func(t *rapid.T) {
		run++
		w := &world{T: t, model: newModel(2), clock: &clock{time.Unix(0, 0)},
			path: filepath.Join(dir, time.Duration(run).String(), "mig.json"), boot: "boot-1"}
		w.restart()
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) { w.check() },
			"start a container": func(t *rapid.T) {
				w.start(drawPlacement(t))
			},
			"start one, answer lost": func(t *rapid.T) {
				w.model.crash = rapid.Bool().Draw(t, "agent dies")
				w.model.timeout = !w.model.crash
				w.start(drawPlacement(t))
				w.model.crash, w.model.timeout = false, false
			},
			"start one, driver hangs": func(t *rapid.T) {
				w.model.lost = true
				p := drawPlacement(t)
				w.start(p)
				w.model.lost = false
				// Another program that cuts exactly there before the next look could
				// not be told apart; so look.
				w.later(patience)
				w.collect()
			},
			"end a container": func(t *rapid.T) {
				if len(w.live) > 0 {
					i := rapid.IntRange(0, len(w.live)-1).Draw(t, "which")
					w.live = slices.Delete(w.live, i, i+1)
				}
			},
			"hand out whole": func(t *rapid.T) {
				gpu := rapid.SampledFrom(w.model.gpus).Draw(t, "gpu")
				err := w.manager.EnsureWhole(context.Background(), gpu.uuid)
				if err == nil && gpu.on {
					t.Fatal("handed out whole with MIG mode on")
				}
			},
			"another program cuts": func(t *rapid.T) {
				g := rapid.SampledFrom(w.model.gpus).Draw(t, "gpu")
				p := rapid.SampledFrom(profiles()).Draw(t, "profile")
				at := rapid.SampledFrom(p.Starts).Draw(t, "start")
				if g.on && g.free(at, p.Size) {
					g.foreign[w.model.add(g, p, at).GPUInstance] = true
				}
			},
			"another program turns the mode on": func(t *rapid.T) {
				g := rapid.SampledFrom(w.model.gpus).Draw(t, "gpu")
				if !g.on && !g.busy {
					g.on = true
				}
			},
			"another program removes": func(t *rapid.T) {
				g := rapid.SampledFrom(w.model.gpus).Draw(t, "gpu")
				if len(g.instances) == 0 {
					return
				}
				i := rapid.IntRange(0, len(g.instances)-1).Draw(t, "which")
				gone := g.instances[i]
				g.instances = slices.Delete(g.instances, i, i+1)
				w.live = slices.DeleteFunc(w.live, func(p Placement) bool { return p.GPU == g.uuid && p.Start == gone.Start })
			},
			"process comes or goes": func(t *rapid.T) {
				g := rapid.SampledFrom(w.model.gpus).Draw(t, "gpu")
				if g.busy = !g.busy && !g.on; len(g.instances) > 0 {
					i := rapid.SampledFrom(g.instances).Draw(t, "instance")
					g.busyInst[i.GPUInstance] = !g.busyInst[i.GPUInstance]
				}
			},
			"agent restarts": func(t *rapid.T) { w.restart() },
			"node reboots": func(t *rapid.T) {
				w.boot += "+"
				for _, g := range w.model.gpus {
					g.instances, g.busy, g.on, g.onByUs = nil, false, false, false
				}
				w.live = nil
				w.restart()
			},
			"collect": func(t *rapid.T) { w.collect() },
			"time":    func(t *rapid.T) { w.later(time.Duration(rapid.IntRange(1, 90).Draw(t, "seconds")) * time.Second) },
		})
		w.quiesce()
	})
}

type world struct {
	*rapid.T
	model   *model
	clock   *clock
	path    string
	boot    string
	manager *Manager
	live    []Placement // what kubelet has allocated
}

func drawPlacement(t *rapid.T) Placement {
	p := rapid.SampledFrom(profiles()).Draw(t, "profile")
	return Placement{rapid.SampledFrom([]string{"GPU-0", "GPU-1"}).Draw(t, "gpu"), p.Name, rapid.SampledFrom(p.Starts).Draw(t, "start")}
}

func (w *world) restart() {
	m, err := New(w.model, Options{Journal: w.path, Linger: time.Minute, Boot: w.boot, Now: w.clock.read, Log: quiet()})
	if err != nil {
		w.Fatal(err)
	}
	w.manager = m
	w.collect()
}

func (w *world) later(d time.Duration) { w.clock.now = w.clock.now.Add(d) }

func (w *world) collect() {
	if err := w.manager.Collect(context.Background(), w.live); err != nil {
		w.Fatal(err)
	}
}

// start is what happens before a container starts; it runs when the instance is there.
func (w *world) start(p Placement) {
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(crashed); !ok {
				panic(r)
			}
			w.restart()
		}
	}()
	if slices.Contains(w.live, p) {
		return
	}
	instance, err := w.manager.Ensure(context.Background(), p)
	if err != nil {
		if !errors.Is(err, device.ErrBusy) && !errors.Is(err, ErrForeign) && !errors.Is(err, device.ErrTimeout) {
			w.Fatalf("unexpected: %v", err)
		}
		return
	}
	if instance.Start != p.Start || instance.Profile != p.Profile {
		w.Fatalf("asked for %v, got %+v", p, instance)
	}
	w.live = append(w.live, p)
}

func (w *world) check() {
	for _, wrong := range w.model.wrong {
		w.Fatal(wrong)
	}
	for _, p := range w.live {
		if !slices.ContainsFunc(w.model.gpu(p.GPU).instances, func(i device.Instance) bool {
			return i.Start == p.Start && i.Profile == p.Profile
		}) {
			w.Fatalf("%v is allocated and does not exist", p)
		}
	}
}

// quiesce: when everything has ended, nothing of ours is left.
func (w *world) quiesce() {
	w.live = nil
	for _, g := range w.model.gpus {
		g.busy = false
		clear(g.busyInst)
	}
	w.later(patience)
	w.collect()
	w.later(time.Minute)
	w.collect()
	w.check()
	if n := w.model.ours(); n > 0 {
		w.Fatalf("%d own instances are left", n)
	}
	for _, g := range w.model.gpus {
		if g.on && g.onByUs && len(g.instances) == 0 {
			w.Fatalf("MIG mode of %s is left on", g.uuid)
		}
	}
}
