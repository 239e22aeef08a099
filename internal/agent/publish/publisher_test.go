package publish

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"

	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/internal/agent/device"
)

// recorder keeps events.
type recorder struct {
	record.EventRecorder
	mu   sync.Mutex
	said []string
}

func (r *recorder) Event(_ runtime.Object, kind, reason, note string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said = append(r.said, kind+" "+reason+": "+note)
}

func (r *recorder) take() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := strings.Join(r.said, "\n")
	r.said = nil
	return out
}

// inventory is a node of H200s.
func inventory(gpus int) *device.Inventory {
	inv := &device.Inventory{Driver: "580.159.03", CUDA: "13.0"}
	for i := range gpus {
		inv.Devices = append(inv.Devices, device.Device{Index: i, UUID: fmt.Sprint("GPU-", i), Vendor: "nvidia", Model: "NVIDIA H200", MemoryMiB: 143771, SMs: 132, NUMA: i / 4,
			ComputeCapability: "9.0", PCIBusID: "0000:1b:00.0", MIG: &device.MIG{Profiles: []device.Profile{{ID: 19, Name: "1g.18gb", MemoryMiB: 16384, ComputeSlices: 1, SMs: 16, Size: 1, Starts: []int{0, 1}}}}})
	}
	return inv
}

// measured are samples of all devices with one utilization.
func measured(gpus int, utilization, temperature float64) []device.Sample {
	var out []device.Sample
	for i := range gpus {
		out = append(out, device.Sample{UUID: fmt.Sprint("GPU-", i), At: time.Now(), Values: map[device.Field]float64{
			device.Utilization: utilization, device.MemoryUsed: 1000, device.Temperature: temperature, device.Power: 100, device.PowerLimit: 700}})
	}
	return out
}

// world is a publisher that runs, and its API server.
type world struct {
	*Publisher
	t      *testing.T
	server *server
	events *recorder
	stop   func()
}

func run(t *testing.T, s *server, change ...func(*Options)) *world {
	w := &world{t: t, server: s, events: &recorder{}}
	o := Options{Node: "n", API: s, Events: w.events, Version: "v1", Mode: v1alpha1.Observing}
	for _, c := range change {
		c(&o)
	}
	w.Publisher = New(o)
	ctx, stop := context.WithCancel(t.Context())
	w.stop = stop
	go w.Run(ctx)
	return w
}

// object is the GPUNode as it is.
func (w *world) object() *v1alpha1.GPUNode {
	w.t.Helper()
	synctest.Wait()
	var gn v1alpha1.GPUNode
	w.server.do(func() {
		if o := w.server.objects["n"]; o == nil {
			w.t.Fatal("there is no GPUNode")
		} else if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o, &gn); err != nil {
			w.t.Fatal(err)
		}
	})
	return &gn
}

// wrote checks how many writes there were since the last time.
func (w *world) wrote(what string, spec, status, labels int) {
	w.t.Helper()
	synctest.Wait()
	w.server.do(func() {
		if got, want := w.server.writes, map[string]int{"spec": spec, "status": status, "labels": labels}; got["spec"] != spec || got["status"] != status || got["labels"] != labels {
			w.t.Errorf("%s: writes %v, want %v", what, got, want)
		}
		clear(w.server.writes)
	})
}

func condition(gn *v1alpha1.GPUNode, kind string) metav1.Condition {
	for _, c := range gn.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return metav1.Condition{}
}

// TestPublishes: a GPUNode comes to be, owned by its node; what does not change is not
// written; what changes is.
func TestPublishes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := run(t, newServer(t, "n"))
		w.wrote("nothing is known", 0, 0, 0)
		w.SetInventory(inventory(2), nil)
		gn := w.object()
		if len(gn.Spec.Devices) != 2 || gn.Spec.Devices[1].UUID != "GPU-1" || *gn.Spec.Devices[1].NUMA != 0 || gn.Spec.Driver.Version != "580.159.03" || gn.Spec.Agent.Mode != v1alpha1.Observing {
			t.Errorf("%+v", gn.Spec)
		}
		if o := gn.OwnerReferences; len(o) != 1 || o[0].Kind != "Node" || o[0].UID != w.server.nodes["n"].UID {
			t.Errorf("owners %v", o)
		}
		if d, h := condition(gn, v1alpha1.DriverReady), condition(gn, v1alpha1.DevicesHealthy); d.Status != "True" || h.Status != "True" || d.LastTransitionTime.IsZero() {
			t.Errorf("%+v", gn.Status.Conditions)
		}
		w.wrote("the first time", 1, 1, 1)
		time.Sleep(11 * time.Second)
		w.SetInventory(inventory(2), nil)
		w.SetHealth(nil)
		w.wrote("nothing new", 0, 0, 0)
		w.SetInventory(inventory(1), nil)
		if gn := w.object(); len(gn.Spec.Devices) != 1 || len(gn.Status.Devices) != 1 {
			t.Errorf("a device that is gone: %+v, %+v", gn.Spec.Devices, gn.Status.Devices)
		}
		w.wrote("a device is gone", 1, 1, 1)
		cut := inventory(1)
		cut.Devices[0].MIG.Enabled = true
		cut.Devices[0].MIG.Instances = []device.Instance{{UUID: "MIG-a", Profile: "1g.18gb", ProfileID: 19, Start: 0}, {UUID: "MIG-b", Profile: "1g.18gb", ProfileID: 19, Start: 1}}
		w.SetInventory(cut, map[string]bool{"MIG-b": true})
		if in := w.object().Spec.Devices[0].MIG.Instances; len(in) != 2 || in[0].Owned || !in[1].Owned {
			t.Errorf("instances %+v", in)
		}
	})
}

// TestHealthAtOnce: health is written at once, however young the last write is, with
// conditions and events.
func TestHealthAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := run(t, newServer(t, "n"))
		w.SetInventory(inventory(2), nil)
		w.SetSamples(measured(2, 50, 40))
		synctest.Wait()
		was := condition(w.object(), v1alpha1.DevicesHealthy).LastTransitionTime
		time.Sleep(3 * time.Second)
		clear(w.server.writes)
		since := time.Now()
		w.SetHealth([]Health{{UUID: "GPU-1", State: v1alpha1.Failed, Reason: "XID 79: fell off the bus", Since: since, LastXID: 79}})
		gn := w.object()
		if d := gn.Status.Devices[1]; d.Health != v1alpha1.Failed || d.Reason == "" || *d.LastXID != 79 || d.Since.Unix() != since.Unix() {
			t.Errorf("%+v", d)
		}
		if c := condition(gn, v1alpha1.DevicesHealthy); c.Status != "False" || !strings.Contains(c.Message, "device 1 is Failed: XID 79") || !c.LastTransitionTime.After(was.Time) {
			t.Errorf("%+v", c)
		}
		w.wrote("a device failed", 0, 1, 0)
		if got, want := w.events.take(), "Warning GPUFailed: GPU 1 (GPU-1) was Healthy and is Failed: XID 79: fell off the bus"; got != want {
			t.Errorf("events %q", got)
		}
		w.SetHealth([]Health{{UUID: "GPU-1", State: v1alpha1.Failed, Reason: "XID 79: fell off the bus", Since: since, LastXID: 79}})
		w.wrote("the same again", 0, 0, 0)
		w.SetHealth([]Health{{UUID: "GPU-1", State: v1alpha1.Suspect, Since: since}})
		w.SetHealth([]Health{{UUID: "GPU-1", State: v1alpha1.Healthy}})
		synctest.Wait()
		if got, want := w.events.take(), "Warning GPUSuspect: GPU 1 (GPU-1) was Failed and is Suspect\nNormal GPUHealthy: GPU 1 (GPU-1) was Suspect and is Healthy"; got != want {
			t.Errorf("events %q", got)
		}
		if c := condition(w.object(), v1alpha1.DevicesHealthy); c.Status != "True" {
			t.Errorf("%+v", c)
		}
	})
}

// TestPace: telemetry is written when it moved, at most every ten seconds, and at least
// every five minutes; noise is not.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := run(t, newServer(t, "n"))
		w.SetInventory(inventory(1), nil)
		w.SetSamples(measured(1, 50, 40))
		synctest.Wait()
		time.Sleep(15 * time.Second)
		if d := w.object().Status.Devices[0]; *d.UtilizationPercent != 50 || *d.TemperatureCelsius != 40 || *d.MemoryUsedMiB != 1000 || *d.PowerWatts != 100 {
			t.Errorf("%+v", d)
		}
		clear(w.server.writes)
		for range 60 { // moves all the time, for a minute
			w.SetSamples(measured(1, float64(time.Now().Second()%2*50), 40))
			time.Sleep(time.Second)
		}
		if n := w.server.count("status"); n < 5 || n > 7 {
			t.Errorf("%d writes in a minute", n)
		}
		last := w.object()
		clear(w.server.writes)
		quiet := time.Now()
		for time.Since(quiet) < time.Hour { // noise
			w.SetSamples(measured(1, float64(*last.Status.Devices[0].UtilizationPercent)+float64(time.Now().Second()%9), 42))
			time.Sleep(5 * time.Second)
		}
		if n := w.server.count("status"); n < 11 || n > 17 {
			t.Errorf("%d writes in an hour of noise", n)
		}
		if age := time.Since(w.object().Status.MeasuredAt.Time); age > heartbeatTo+10*time.Second {
			t.Errorf("measured %s ago", age)
		}
		w.SetSamples([]device.Sample{{UUID: "GPU-0", Err: device.ErrTimeout}})
		time.Sleep(11 * time.Second)
		if d := w.object().Status.Devices[0]; d.UtilizationPercent != nil || d.TemperatureCelsius != nil {
			t.Errorf("a device that does not answer: %+v", d)
		}
	})
}

// TestOperatorsAndNewerAgents: what others write stays, and meeting them is no error.
func TestOperatorsAndNewerAgents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := run(t, newServer(t, "n"))
		w.SetInventory(inventory(2), nil)
		synctest.Wait()
		w.server.edit("n", func(spec, status map[string]any) {
			spec["cordoned"] = []any{"1"}
			spec["future"] = map[string]any{"a": int64(1)}
			spec["devices"].([]any)[0].(map[string]any)["future"] = "x"
			status["devices"].([]any)[1].(map[string]any)["future"] = "y"
			status["future"] = true
		})
		clear(w.server.writes)
		w.SetHealth([]Health{{UUID: "GPU-0", State: v1alpha1.Degraded, Reason: "slow"}})
		changed := inventory(2)
		changed.Driver = "590.1"
		w.SetInventory(changed, nil)
		gn := w.object()
		if len(gn.Spec.Cordoned) != 1 || gn.Spec.Driver.Version != "590.1" || gn.Status.Devices[0].Health != v1alpha1.Degraded {
			t.Errorf("%+v", gn)
		}
		w.server.do(func() {
			o := w.server.objects["n"]
			spec, status := o["spec"].(map[string]any), o["status"].(map[string]any)
			if spec["future"] == nil || spec["devices"].([]any)[0].(map[string]any)["future"] != "x" || status["future"] != true || status["devices"].([]any)[1].(map[string]any)["future"] != "y" {
				t.Errorf("a newer agent's fields are gone: %v", o)
			}
		})
		// What others break is repaired with the next heartbeat.
		w.server.edit("n", func(spec, _ map[string]any) { spec["devices"] = spec["devices"].([]any)[:1] })
		time.Sleep(heartbeatTo + time.Second)
		if gn := w.object(); len(gn.Spec.Devices) != 2 || len(gn.Spec.Cordoned) != 1 {
			t.Errorf("%+v", gn.Spec)
		}
		w.server.do(func() { delete(w.server.objects, "n") })
		time.Sleep(heartbeatTo + time.Second)
		if gn := w.object(); len(gn.Spec.Devices) != 2 || len(gn.Status.Devices) != 2 {
			t.Errorf("a GPUNode that was deleted: %+v", gn)
		}
	})
}

// TestOlderCRD: fields that the API server does not store are not sent for ever.
func TestOlderCRD(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, "n")
		s.prunes = []string{"computeCapability", "measuredAt", "conditions", "agent"}
		w := run(t, s)
		w.SetInventory(inventory(2), nil)
		synctest.Wait()
		clear(s.writes)
		for range 100 {
			w.SetInventory(inventory(2), nil)
			w.SetHealth(nil)
			synctest.Wait()
		}
		w.wrote("nothing new", 0, 0, 0)
	})
}

// TestNodeGone: nothing is written for a node that does not exist, and a node that comes
// back under the same name is another owner.
func TestNodeGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := run(t, newServer(t))
		w.SetInventory(inventory(1), nil)
		w.wrote("no node yet", 0, 0, 0)
		w.server.do(func() { w.server.addNode("n") })
		time.Sleep(2 * absentNode)
		first := w.object().OwnerReferences[0].UID
		w.server.do(func() { delete(w.server.nodes, "n"); delete(w.server.objects, "n") }) // as the garbage collector does
		time.Sleep(heartbeatTo + time.Second)
		synctest.Wait()
		clear(w.server.writes)
		for range 20 {
			w.SetHealth([]Health{{UUID: "GPU-0", State: v1alpha1.Failed}})
			w.SetSamples(measured(1, 100, 90))
			time.Sleep(time.Minute)
		}
		w.wrote("the node is gone", 0, 0, 0)
		w.server.do(func() { w.server.addNode("n") })
		time.Sleep(2 * absentNode)
		gn := w.object()
		if gn.OwnerReferences[0].UID == first || gn.Status.Devices[0].Health != v1alpha1.Failed {
			t.Errorf("%+v", gn)
		}
		// The node is another one before the garbage collector has noticed.
		w.server.do(func() { w.server.addNode("n") })
		time.Sleep(heartbeatTo + time.Second)
		if o := w.object().OwnerReferences; len(o) != 1 || o[0].UID != w.server.nodes["n"].UID {
			t.Errorf("owners %v", o)
		}
	})
}

// TestOutage: the API server is away for ten minutes. It is asked less and less often,
// only the newest state is kept, and one write of each kind catches up.
func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := run(t, newServer(t, "n"))
		w.SetInventory(inventory(2), nil)
		w.SetSamples(measured(2, 10, 40))
		synctest.Wait()
		time.Sleep(20 * time.Second)
		w.server.do(func() { w.server.down, w.server.calls = true, 0 })
		clear(w.server.writes)
		began := time.Now()
		for i := 0; time.Since(began) < 10*time.Minute; i++ {
			w.SetHealth([]Health{{UUID: "GPU-1", State: []v1alpha1.Health{v1alpha1.Suspect, v1alpha1.Failed}[i%2], Reason: fmt.Sprint("fault ", i)}})
			w.SetSamples(measured(2, float64(i%2*90), 60))
			time.Sleep(time.Second)
		}
		changed := inventory(2)
		changed.Driver = "590.1"
		w.SetInventory(changed, nil)
		w.SetHealth([]Health{{UUID: "GPU-1", State: v1alpha1.Failed, Reason: "the last word"}})
		time.Sleep(longest * 3 / 2) // it was tried to write that, too
		synctest.Wait()
		w.server.do(func() {
			if w.server.calls < 15 || w.server.calls > 80 {
				t.Errorf("%d calls in ten minutes without an API server", w.server.calls)
			}
			w.server.down = false
		})
		time.Sleep(longest * 3 / 2)
		if gn := w.object(); gn.Status.Devices[1].Reason != "the last word" || gn.Spec.Driver.Version != "590.1" || *gn.Status.Devices[0].UtilizationPercent != 90 {
			t.Errorf("%+v", gn)
		}
		w.wrote("after the outage", 1, 1, 1)
		if n := strings.Count(w.events.take(), "\n") + 1; n > maxPending {
			t.Errorf("%d events", n)
		}
	})
}

// TestNoDriver: devices that were published stay, as failed ones; a node that never had a
// driver has none; and the driver may come back.
func TestNoDriver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := run(t, newServer(t, "n"))
		w.SetProblem(Problem{Reason: "NoDriver", Message: "libnvidia-ml.so.1: not found"})
		gn := w.object()
		if c := condition(gn, v1alpha1.DriverReady); len(gn.Spec.Devices) != 0 || c.Status != "False" || c.Reason != "NoDriver" || !strings.Contains(c.Message, "libnvidia-ml") {
			t.Errorf("%+v", gn)
		}
		if got := w.events.take(); !strings.HasPrefix(got, "Warning GPUDriverNotReady: libnvidia-ml") {
			t.Errorf("events %q", got)
		}
		w.SetInventory(inventory(2), nil)
		if gn := w.object(); len(gn.Spec.Devices) != 2 || condition(gn, v1alpha1.DriverReady).Status != "True" {
			t.Errorf("%+v", gn)
		}
		since := time.Now()
		time.Sleep(time.Minute)
		w.SetProblem(Problem{Reason: "NoAnswer", Message: "the driver does not answer"})
		first := w.object().Status.Devices[0].Since
		time.Sleep(time.Minute)
		w.SetProblem(Problem{Reason: "NoAnswer", Message: "the driver does not answer"})
		gn = w.object()
		if d := gn.Status.Devices; len(gn.Spec.Devices) != 2 || len(d) != 2 || d[0].Health != v1alpha1.Failed || d[0].Reason != "the driver does not answer" || !d[0].Since.Equal(first) || !first.After(since) {
			t.Errorf("%+v", gn.Status)
		}
		if c := condition(gn, v1alpha1.DevicesHealthy); c.Status != "Unknown" {
			t.Errorf("%+v", c)
		}
		w.SetInventory(inventory(2), nil)
		if d := w.object().Status.Devices[0]; d.Health != v1alpha1.Healthy || d.Reason != "" {
			t.Errorf("%+v", d)
		}
		if got := w.events.take(); strings.Contains(got, "GPU 0") || strings.Count(got, "\n") != 2 {
			t.Errorf("events %q", got)
		}
	})
}

// TestRestartedAgent: an agent that starts again writes and tells nothing that is said
// already.
func TestRestartedAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, "n")
		sick := []Health{{UUID: "GPU-0", State: v1alpha1.Suspect, Reason: "hot", Since: time.Now()}}
		first, stop := context.WithCancel(t.Context())
		one := New(Options{Node: "n", API: s, Version: "v1", Mode: v1alpha1.Observing})
		go one.Run(first)
		one.SetInventory(inventory(2), nil)
		one.SetHealth(sick)
		synctest.Wait()
		stop()
		synctest.Wait()
		was := s.objects["n"]["status"]
		clear(s.writes)
		w := run(t, s)
		w.SetHealth(sick) // first, as an agent does: nothing is written without an inventory
		w.SetInventory(inventory(2), nil)
		w.wrote("nothing is new", 0, 0, 0)
		if got := w.events.take(); got != "" || !equal(s.objects["n"]["status"], was) {
			t.Errorf("events %q", got)
		}
		w.SetHealth(nil)
		synctest.Wait()
		if got := w.events.take(); !strings.HasPrefix(got, "Normal GPUHealthy") {
			t.Errorf("events %q", got)
		}
	})
}
