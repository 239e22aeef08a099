package publish

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tangram-dev/tangram/api/v1alpha1"
)

// tries is how often a write is repeated at once that met another one.
const tries = 4

// writeObject brings the GPUNode up to date.
func (p *Publisher) writeObject(ctx context.Context, s *state, now time.Time) error {
	for try := 1; ; try++ {
		err := p.tryObject(ctx, s, now)
		switch {
		case err == nil:
			return nil
		case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err) && p.object != nil:
			p.object = nil // it was written or removed meanwhile: read it again
			if try < tries {
				continue
			}
		}
		return fmt.Errorf("write GPUNode %s: %w", p.options.Node, err)
	}
}

func (p *Publisher) tryObject(ctx context.Context, s *state, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if p.object != nil && !now.Before(p.heartbeat) && !p.measuredAnew(s) {
		p.object = nil // nothing will be written that would meet what others wrote
	}
	if p.object == nil {
		if err := p.readObject(ctx, s); err != nil {
			return err
		}
	}
	if err := p.writeSpec(ctx, s); err != nil {
		return err
	}
	return p.writeStatus(ctx, s, now)
}

// measuredAnew says whether there is younger telemetry than the object's.
func (p *Publisher) measuredAnew(s *state) bool {
	at := timeOf(s.measuredAt())
	was, _, _ := unstructured.NestedString(p.object.Object, "status", "measuredAt")
	return at != nil && at.Format(time.RFC3339) != was
}

// readObject reads the GPUNode, or makes it.
func (p *Publisher) readObject(ctx context.Context, s *state) error {
	object, err := p.options.API.Get(ctx, p.options.Node)
	p.sent, p.described = nil, 0
	if apierrors.IsNotFound(err) {
		object, err = p.create(ctx, s)
	}
	if err != nil {
		return err
	}
	p.object = object
	p.health = "" // what its status says is not known
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.told == nil {
		var gn v1alpha1.GPUNode
		if runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &gn) != nil {
			gn = v1alpha1.GPUNode{} // a newer version, or a forgery
		}
		p.told = newTold(&gn)
	}
	return nil
}

func (p *Publisher) create(ctx context.Context, s *state) (*unstructured.Unstructured, error) {
	spec, _ := specOf(p.optionsFor(s), s.inventory, s.owned)
	want, err := toMap(&spec)
	if err != nil {
		return nil, err
	}
	o := &unstructured.Unstructured{Object: map[string]any{"spec": want}}
	o.SetAPIVersion(v1alpha1.GroupVersion.String())
	o.SetKind("GPUNode")
	o.SetName(p.options.Node)
	o.SetOwnerReferences([]metav1.OwnerReference{p.owner()})
	created, err := p.options.API.Create(ctx, o)
	p.options.Wrote("spec", err)
	if err == nil {
		p.sent, p.generation = want, created.GetGeneration()
	}
	return created, err
}

// owner makes the GPUNode go with its node. Both are cluster-scoped, as the garbage
// collector demands.
func (p *Publisher) owner() metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: p.node.Name, UID: p.node.UID}
}

// writeSpec writes the inventory if it differs from the object's. Without a driver
// nothing is known of it: then what was written stays.
func (p *Publisher) writeSpec(ctx context.Context, s *state) error {
	old, _ := p.object.Object["spec"].(map[string]any)
	want := old
	if s.problem == nil && s.inventory != nil {
		if p.spec == nil || p.revision != s.revision {
			spec, left := specOf(p.optionsFor(s), s.inventory, s.owned)
			known, err := toMap(&spec)
			if err != nil {
				return err
			}
			p.spec, p.left, p.revision = known, left, s.revision
		}
		if p.object.GetGeneration() != p.generation || !reflect.DeepEqual(p.spec, p.sent) {
			want = overlay(old, p.spec, reflect.TypeFor[v1alpha1.GPUNodeSpec]())
		}
	}
	patch := map[string]any{}
	if inner := mergePatch(old, want); len(inner) > 0 {
		patch["spec"] = inner
	}
	if owners := p.owners(); owners != nil {
		patch["metadata"] = map[string]any{"ownerReferences": owners}
	}
	if len(patch) > 0 {
		if err := p.patch(ctx, patch, false); err != nil {
			return err
		}
	}
	if s.problem == nil && s.inventory != nil {
		p.sent, p.generation = p.spec, p.object.GetGeneration()
	}
	p.describe(s)
	return nil
}

// owners are the GPUNode's owners with its node among them; nil when they are already.
func (p *Publisher) owners() []any {
	mine := p.owner()
	out := []metav1.OwnerReference{mine}
	for _, o := range p.object.GetOwnerReferences() {
		if o.UID == mine.UID {
			return nil
		}
		if o.Kind != "Node" || o.APIVersion != "v1" {
			out = append(out, o)
		}
	}
	var list []any
	for i := range out {
		if m, err := toMap(&out[i]); err == nil {
			list = append(list, m)
		}
	}
	return list
}

// describe finds what is to be told of the devices that are published.
func (p *Publisher) describe(s *state) {
	if g := p.object.GetGeneration(); g != p.described || g == 0 {
		p.readDevices()
		p.described = g
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pending = append(p.pending, p.told.changes(&p.state, p.devices)...)
	if s.problem == nil && s.inventory != nil {
		labelled := ""
		if len(s.inventory.Devices) > 0 {
			d, _ := mostFrequent(s.inventory)
			labelled = d.Model
		}
		p.pending = append(p.pending, p.told.models(p.devices, labelled, p.left)...)
	}
}

// readDevices takes over the devices that are published.
func (p *Publisher) readDevices() {
	var published v1alpha1.GPUNodeSpec
	spec, _ := p.object.Object["spec"].(map[string]any)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(spec, &published); err != nil {
		p.logger.Error(err, "Could not read the GPUNode's devices")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.devices = published.Devices
}

// writeStatus writes health and telemetry if it is time.
func (p *Publisher) writeStatus(ctx context.Context, s *state, now time.Time) error {
	status := statusOf(s, p.devices)
	health, err := healthOf(status)
	if err != nil {
		return err
	}
	p.mu.Lock()
	moved := p.moved()
	p.mu.Unlock()
	if health == p.health && now.Before(p.heartbeat) && !(moved && !now.Before(p.telemetryAt)) {
		return nil
	}
	var before v1alpha1.GPUNodeStatus
	old, _ := p.object.Object["status"].(map[string]any)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(old, &before); err != nil {
		before = v1alpha1.GPUNodeStatus{}
	}
	setTimes(status.Conditions, before.Conditions, now)
	want, err := toMap(&status)
	if err != nil {
		return err
	}
	if inner := mergePatch(old, overlay(old, want, reflect.TypeFor[v1alpha1.GPUNodeStatus]())); len(inner) > 0 {
		if err := p.patch(ctx, map[string]any{"status": inner}, true); err != nil {
			return err
		}
	}
	p.statusWritten(s, health, now)
	return nil
}

// statusWritten remembers what was written, and when to write again. Agents that start
// together, or come back together after an outage, must not go on together: the first
// times are anything up to the longest, the later ones vary.
func (p *Publisher) statusWritten(s *state, health string, now time.Time) {
	switch first := p.heartbeat.IsZero(); {
	case first:
		p.heartbeat = now.Add(p.options.TelemetryEvery + rand.N(p.options.Heartbeat*5/4-p.options.TelemetryEvery))
		p.telemetryAt = now.Add(rand.N(p.options.TelemetryEvery))
	default:
		p.spread = p.spread || !now.Before(p.heartbeat)
		if p.spread {
			p.heartbeat = now.Add(p.options.Heartbeat + rand.N(p.options.Heartbeat/4))
		}
		p.telemetryAt = now.Add(p.options.TelemetryEvery + rand.N(p.options.TelemetryEvery/5))
	}
	p.health = health
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.written)
	for _, d := range p.devices {
		p.written[d.UUID] = readingOf(s, d.UUID)
	}
}

// healthOf is what of a status must be written at once, in JSON: all but telemetry, which
// changes all the time. Of pods that use too much memory it is which, not how much.
func healthOf(status v1alpha1.GPUNodeStatus) (string, error) {
	status.MeasuredAt, status.Devices = nil, slices.Clone(status.Devices)
	for i := range status.Devices {
		d := &status.Devices[i]
		d.UtilizationPercent, d.MemoryUsedMiB, d.TemperatureCelsius, d.PowerWatts = nil, nil, nil, nil
		d.OverMemory = slices.Clone(d.OverMemory)
		for j := range d.OverMemory {
			d.OverMemory[j].UsedMiB, d.OverMemory[j].GivenMiB = 0, 0
		}
	}
	out, err := json.Marshal(status)
	return string(out), err
}

// patch writes a change of the version that was read, and takes over what it led to.
func (p *Publisher) patch(ctx context.Context, patch map[string]any, status bool) error {
	metadata := map[string]any{"resourceVersion": p.object.GetResourceVersion()}
	given, _ := patch["metadata"].(map[string]any)
	maps.Copy(metadata, given)
	patch["metadata"] = metadata
	body, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	object, err := p.options.API.Patch(ctx, p.options.Node, body, status)
	part := "spec"
	if status {
		part = "status"
	}
	p.options.Wrote(part, err)
	if err == nil {
		p.object = object
	}
	return err
}

// toMap is an object as JSON has it.
func toMap(object any) (map[string]any, error) {
	return runtime.DefaultUnstructuredConverter.ToUnstructured(object)
}
