package publish

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tangram-dev/tangram/api/v1alpha1"
)

// writer is what the loop remembers between two writes.
type writer struct {
	// node and object are as the API server showed them last; nil when they have to be
	// read.
	node   *v1.Node
	object *unstructured.Unstructured
	// sent is the spec that was sent last, and the generation it led to: what the API
	// server does not keep of it (an older CRD) must not be sent for ever.
	sent       map[string]any
	generation int64
	// spec is the spec of a revision of the inventory, left what cannot be in it.
	spec     map[string]any
	left     []string
	revision int
	// described is the generation whose devices are known.
	described int64
	// health is the health that was written last, in JSON. Telemetry may be written again
	// from telemetryAt on, and is written at heartbeat whatever happens; spread: the first
	// heartbeat is over.
	health                 string
	telemetryAt, heartbeat time.Time
	spread                 bool
	retryAt                time.Time
	// gone: the node does not exist, and nothing is written.
	gone bool
	// taken are labels that were taken over from others, wrote those that were written.
	taken map[string]bool
	wrote map[string]string
}

// callTimeout bounds each call of the API server.
const callTimeout = 10 * time.Second

// absentNode is how often a node that does not exist is looked for.
const absentNode = 30 * time.Second

// sync makes the API equal to what is known, as far as that is worth writing now, and
// returns when to look again.
func (p *Publisher) sync(ctx context.Context, now time.Time) (next time.Duration, err error) {
	p.mu.Lock()
	s := p.state
	p.mu.Unlock()
	if !s.known() {
		return heartbeatTo, nil // it wakes when something is
	}
	if p.node == nil || !now.Before(p.heartbeat) {
		if err := p.readNode(ctx); err != nil {
			return 0, err
		}
	}
	if p.gone {
		return absentNode/2 + rand.N(absentNode), nil
	}
	// Labels do not wait for a GPUNode that cannot be written: its CRD may be missing.
	err = errors.Join(p.writeObject(ctx, &s, now), p.writeLabels(ctx, &s))
	if err != nil {
		return 0, err
	}
	p.tell()
	return p.next(now), nil
}

// tell writes the events that wait. While the API server cannot be written to they do,
// the newest of them.
func (p *Publisher) tell() {
	p.mu.Lock()
	notices := p.pending
	p.pending = nil
	p.mu.Unlock()
	say(p.options.Events, p.node, notices)
}

// readNode looks at the node. One that is gone takes its GPUNode with it, as its owner;
// one that came back is another one.
func (p *Publisher) readNode(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	node, err := p.options.API.GetNode(ctx, p.options.Node)
	switch {
	case apierrors.IsNotFound(err):
		if !p.gone {
			p.logger.Info("The node does not exist: nothing is written until it does")
		}
		p.gone, p.node, p.object = true, nil, nil
		return nil
	case err != nil:
		return fmt.Errorf("read node %s: %w", p.options.Node, err)
	}
	if p.gone || p.node != nil && p.node.UID != node.UID {
		p.object = nil
	}
	p.gone, p.node = false, node
	p.labels.Store(node.Labels)
	return nil
}

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
			p.object = nil // somebody wrote or removed it meanwhile: read it again
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
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &gn); err == nil {
			p.told = newTold(&gn)
		} else {
			p.told = newTold(&v1alpha1.GPUNode{}) // a newer version, or a forgery
		}
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
	p.options.wrote("spec", err)
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
		p.logger.Error(err, "The GPUNode's devices cannot be read")
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
	patch := map[string]any{}
	if inner := mergePatch(old, overlay(old, want, reflect.TypeFor[v1alpha1.GPUNodeStatus]())); len(inner) > 0 {
		patch["status"] = inner
	}
	if len(patch) > 0 {
		if err := p.patch(ctx, patch, true); err != nil {
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

// healthOf is what of a status must be written at once, in JSON.
func healthOf(status v1alpha1.GPUNodeStatus) (string, error) {
	status.MeasuredAt = nil
	devices := make([]v1alpha1.DeviceStatus, len(status.Devices))
	for i, d := range status.Devices {
		devices[i] = v1alpha1.DeviceStatus{Index: d.Index, UUID: d.UUID, Health: d.Health, Reason: d.Reason, Since: d.Since, LastXID: d.LastXID}
		for _, o := range d.OverMemory { // who, not how much: that changes all the time
			devices[i].OverMemory = append(devices[i].OverMemory, v1alpha1.MemoryUse{PodUID: o.PodUID})
		}
	}
	status.Devices = devices
	out, err := json.Marshal(status)
	return string(out), err
}

// patch writes a change of the version that was read, and takes over what it led to.
func (p *Publisher) patch(ctx context.Context, patch map[string]any, status bool) error {
	metadata, _ := patch["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	if metadata == nil {
		metadata = map[string]any{}
	}
	metadata["resourceVersion"] = p.object.GetResourceVersion()
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
	p.options.wrote(part, err)
	if err == nil {
		p.object = object
	}
	return err
}

// writeLabels brings the node's labels up to date.
func (p *Publisher) writeLabels(ctx context.Context, s *state) error {
	if p.options.NoLabels || s.problem != nil || s.inventory == nil {
		return nil // without a driver nothing is known: what was written stays
	}
	o := p.optionsFor(s)
	labels := patchLabels(p.node, labelsOf(o, s.inventory), o.Mode == v1alpha1.Serving, p.taken, p.wrote)
	if len(labels) == 0 {
		return nil
	}
	body, err := nodePatch(p.node, labels)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	node, err := p.options.API.PatchNode(ctx, p.options.Node, body)
	p.options.wrote("labels", err)
	if err != nil {
		p.node = nil // it may be another one by now
		return fmt.Errorf("write labels of node %s: %w", p.options.Node, err)
	}
	p.node = node
	for key, value := range labels {
		if text, set := value.(string); set {
			p.wrote[key] = text
		} else {
			delete(p.wrote, key)
		}
	}
	return nil
}

// next is when to look again.
func (p *Publisher) next(now time.Time) time.Duration {
	next := p.heartbeat
	p.mu.Lock()
	if p.moved() && p.telemetryAt.Before(next) {
		next = p.telemetryAt
	}
	p.mu.Unlock()
	return max(time.Millisecond, next.Sub(now))
}

// toMap is an object as JSON has it.
func toMap(object any) (map[string]any, error) {
	return runtime.DefaultUnstructuredConverter.ToUnstructured(object)
}
