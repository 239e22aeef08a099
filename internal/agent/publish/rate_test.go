//go:build !race

// A thousand agents share nothing but a counter: the race detector, which other tests of
// this package have, finds nothing here and takes a minute for it.

package publish

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/internal/agent/device"
)

// load is what a GPU does at a time.
type load func(random *rand.Rand, node, gpu int, at time.Duration) map[device.Field]float64

// counter is an API server that counts writes and keeps nothing but what was written
// last, which is enough for objects that have one writer.
type counter struct {
	mu           sync.Mutex
	spec, status int
	objects      map[string]*unstructured.Unstructured
}

func (c *counter) GetNode(_ context.Context, name string) (*v1.Node, error) {
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}, nil
}

func (c *counter) PatchNode(ctx context.Context, name string, _ []byte) (*v1.Node, error) {
	return c.GetNode(ctx, name)
}

func (c *counter) Get(_ context.Context, name string) (*unstructured.Unstructured, error) {
	return nil, apierrors.NewNotFound(resource, name)
}

func (c *counter) Create(_ context.Context, o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.spec++
	o.SetGeneration(1)
	c.objects[o.GetName()] = o
	return o, nil
}

func (c *counter) Patch(_ context.Context, name string, _ []byte, status bool) (*unstructured.Unstructured, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if status {
		c.status++
	} else {
		c.spec++
	}
	return c.objects[name], nil
}

func (c *counter) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.status
}

func values(utilization, memory, temperature, power float64) map[device.Field]float64 {
	return map[device.Field]float64{device.Utilization: utilization, device.MemoryUsed: memory, device.Temperature: temperature, device.Power: power, device.PowerLimit: 700}
}

// TestWritesOfAThousandNodes: a thousand agents of eight GPUs each, started within the
// same second, measure every five seconds; writes per second are counted from the second
// minute on, and the most in any one second.
func TestWritesOfAThousandNodes(t *testing.T) {
	const nodes, gpus, warmUp = 1000, 8, time.Minute
	noise := func(r *rand.Rand, n float64) float64 { return (2*r.Float64() - 1) * n }
	for _, tt := range []struct {
		name  string
		load  load
		lasts time.Duration
		// atMost is per second, over time and in the busiest second.
		atMost, peak float64
	}{
		{"idle", func(r *rand.Rand, _, _ int, _ time.Duration) map[device.Field]float64 {
			return values(0, 5, 32+noise(r, 1), 75+noise(r, 3))
		}, 10 * time.Minute, 4.5, 20},
		// Jobs on all GPUs of a node begin and end every half an hour, at any time.
		{"training", func(r *rand.Rand, node, _ int, at time.Duration) map[device.Field]float64 {
			if (int(at.Minutes())+node)%60 < 30 {
				return values(95+noise(r, 4), 120_000, 68+noise(r, 2), 620+noise(r, 30))
			}
			return values(0, 5, 34+noise(r, 1), 80+noise(r, 3))
		}, 10 * time.Minute, 8, 60},
		// The worst that can be: every value of every GPU is another one each time.
		{"wild", func(r *rand.Rand, _, _ int, _ time.Duration) map[device.Field]float64 {
			return values(100*r.Float64(), 140_000*r.Float64(), 90*r.Float64(), 700*r.Float64())
		}, 2 * time.Minute, 100, 200},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &counter{objects: map[string]*unstructured.Unstructured{}}
				random := rand.New(rand.NewPCG(1, 2))
				all := make([]*Publisher, nodes)
				inv := inventory(gpus)
				for i := range all {
					name := fmt.Sprint("n", i)
					all[i] = New(Options{Node: name, API: s, Version: "v1", Mode: v1alpha1.Observing})
					go all[i].Run(t.Context())
					all[i].SetInventory(inv, nil)
				}
				began, counted, peak := time.Now(), 0, 0
				for at := time.Duration(0); at < warmUp+tt.lasts; at = time.Since(began) {
					// Agents measure at any time of the five seconds.
					for node := int(at.Seconds()) % 5; node < nodes; node += 5 {
						samples := make([]device.Sample, gpus)
						for gpu := range samples {
							samples[gpu] = device.Sample{UUID: fmt.Sprint("GPU-", gpu), At: time.Now(), Values: tt.load(random, node, gpu, at)}
						}
						all[node].SetSamples(samples)
					}
					synctest.Wait()
					before := s.count()
					time.Sleep(time.Second)
					synctest.Wait()
					if n := s.count() - before; at >= warmUp {
						counted += n
						peak = max(peak, n)
					}
				}
				rate := float64(counted) / tt.lasts.Seconds()
				t.Logf("%d nodes: %.1f status writes per second, %d in the busiest", nodes, rate, peak)
				if rate > tt.atMost || float64(peak) > tt.peak || rate < 3 {
					t.Errorf("at most %.1f and %.0f in the busiest", tt.atMost, tt.peak)
				}
				if s.spec != nodes {
					t.Errorf("%d writes of inventories", s.spec)
				}
			})
		})
	}
}
