package replica

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/core/engine"
	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/score"
	"github.com/tangram-dev/tangram/core/state"
	"github.com/tangram-dev/tangram/core/topology"
	"github.com/tangram-dev/tangram/internal/dialect"
	kubeengine "github.com/tangram-dev/tangram/internal/kube/engine"
	"github.com/tangram-dev/tangram/internal/kube/workload"
)

// Format and Version are of dumps: docs/formats/dump.md. Version changes when a reader of
// the old one would misunderstand the new one.
const (
	Format  = "tangram-dump"
	Version = 1
)

// Limits of dumps that are read.
const (
	// MaxDump is how large one may be, MaxDumpText how large what is compressed in it.
	MaxDump     = 256 << 20
	MaxDumpText = 1 << 30
	maxObjects  = 2_000_000
	maxArrival  = 1 << 60
)

// dump is the JSON form of a Snapshot.
type dump struct {
	Format    string                      `json:"format"`
	Version   int                         `json:"version"`
	Scheduler string                      `json:"scheduler"`
	At        time.Time                   `json:"at"`
	Settings  settings                    `json:"settings"`
	Learned   json.RawMessage             `json:"learned"`
	Estimates map[engine.ID]time.Duration `json:"estimates,omitempty"`
	Passing   engine.Passing              `json:"passing"`
	Arrivals  map[engine.ID]int64         `json:"arrivals,omitempty"`

	Nodes          []*v1.Node                              `json:"nodes"`
	GPUNodes       []*v1alpha1.GPUNode                     `json:"gpuNodes,omitempty"`
	NodeTopologies []*unstructured.Unstructured            `json:"nodeTopologies,omitempty"`
	Networks       map[string][]*unstructured.Unstructured `json:"networks,omitempty"`
	Groups         map[string][]*unstructured.Unstructured `json:"groups,omitempty"`
	Namespaces     []*v1.Namespace                         `json:"namespaces,omitempty"`
	Budgets        []*policyv1.PodDisruptionBudget         `json:"budgets,omitempty"`
	Pods           []*v1.Pod                               `json:"pods"`

	// Recording is for tangram replay.
	Recording string `json:"recording,omitempty"`

	Dynamic bool                         `json:"dynamic,omitempty"`
	Slices  []*resourceapi.ResourceSlice `json:"slices,omitempty"`
	Claims  []*resourceapi.ResourceClaim `json:"claims,omitempty"`
	Classes []*resourceapi.DeviceClass   `json:"classes,omitempty"`
}

// settings is the JSON form of Settings: durations are nanoseconds.
type settings struct {
	Options         engine.Options     `json:"options"`
	Timing          kubeengine.Timing  `json:"timing"`
	Levels          topology.Levels    `json:"levels"`
	Profiles        map[string]profile `json:"profiles"`
	Protected       []string           `json:"protected,omitempty"`
	TelemetryMaxAge time.Duration      `json:"telemetryMaxAge"`
}

type profile struct {
	Placements workload.Placements `json:"placements"`
	Models     []string            `json:"models,omitempty"`
	Weights    score.Weights       `json:"weights"`
	Tenants    *dialect.Tenants    `json:"tenants,omitempty"`
}

// WriteDump writes a snapshot, reduced to what scheduling reads.
func WriteDump(w io.Writer, s *kubeengine.Snapshot, scheduler string) error {
	d := dump{
		Format: Format, Version: Version, Scheduler: scheduler, At: s.At, Estimates: s.Estimates, Passing: s.Passing, Arrivals: s.Arrivals,
		Networks: kinds(s.Networks), Groups: kinds(s.Groups), Dynamic: s.Dynamic, Slices: s.Slices, Claims: s.Claims, Classes: s.Classes,
		NodeTopologies: s.NodeTopologies, Recording: string(s.Recording), Nodes: []*v1.Node{}, Pods: []*v1.Pod{},
		Settings: settings{Options: s.Settings.Options, Timing: s.Settings.Timing, Levels: s.Settings.Levels, Protected: s.Settings.Protected, TelemetryMaxAge: s.Settings.TelemetryMaxAge, Profiles: map[string]profile{}},
	}
	for name, p := range s.Settings.Profiles {
		out := profile{Placements: p.Placements, Weights: p.Weights, Tenants: p.Tenants}
		for _, m := range p.Models {
			out.Models = append(out.Models, m.String())
		}
		d.Settings.Profiles[name] = out
	}
	learned := *s.Learned
	learned.Runtimes = slices.Clone(learned.Runtimes)
	for i := range learned.Runtimes {
		learned.Runtimes[i] = reduceRuntime(learned.Runtimes[i])
	}
	text, _, err := learned.Encode()
	if err != nil {
		return fmt.Errorf("learned: %w", err)
	}
	d.Learned = text
	for _, n := range s.Nodes {
		d.Nodes = append(d.Nodes, reduceNode(n))
	}
	slices.SortFunc(d.Nodes, func(a, b *v1.Node) int { return strings.Compare(a.Name, b.Name) })
	for _, n := range s.GPUNodes {
		d.GPUNodes = append(d.GPUNodes, &v1alpha1.GPUNode{ObjectMeta: metaOf(&n.ObjectMeta), Spec: n.Spec, Status: n.Status})
	}
	for _, n := range s.Namespaces {
		d.Namespaces = append(d.Namespaces, &v1.Namespace{ObjectMeta: metaOf(&n.ObjectMeta)})
	}
	for _, b := range s.Budgets {
		d.Budgets = append(d.Budgets, &policyv1.PodDisruptionBudget{ObjectMeta: metaOf(&b.ObjectMeta), Spec: b.Spec, Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: b.Status.DisruptionsAllowed}})
	}
	for _, p := range s.Pods {
		d.Pods = append(d.Pods, ReducePod(p))
	}
	z := gzip.NewWriter(w)
	if err := json.NewEncoder(z).Encode(&d); err != nil {
		return err
	}
	return z.Close()
}

// kinds are objects by "group/version/resource".
func kinds(in map[schema.GroupVersionResource][]*unstructured.Unstructured) map[string][]*unstructured.Unstructured {
	out := map[string][]*unstructured.Unstructured{}
	for kind, list := range in {
		key := kind.Group + "/" + kind.Version + "/" + kind.Resource
		out[key] = []*unstructured.Unstructured{}
		for _, o := range list {
			out[key] = append(out[key], reduceObject(o))
		}
		slices.SortFunc(out[key], func(a, b *unstructured.Unstructured) int {
			return strings.Compare(a.GetNamespace()+"/"+a.GetName(), b.GetNamespace()+"/"+b.GetName())
		})
	}
	return out
}

// ReadDump reads a dump, compressed or not. An error names the field.
func ReadDump(r io.Reader) (*kubeengine.Snapshot, error) {
	text, err := readAll(r)
	if err != nil {
		return nil, err
	}
	var head struct {
		Format  string `json:"format"`
		Version int    `json:"version"`
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return nil, fmt.Errorf("not a dump: %w", place(err))
	}
	switch {
	case head.Format != Format:
		return nil, fmt.Errorf("format: %q, a dump says %q", clip(head.Format), Format)
	case head.Version != Version:
		return nil, fmt.Errorf("version: %d, this program reads %d", head.Version, Version)
	}
	var d dump
	if err := json.Unmarshal(text, &d); err != nil {
		return nil, place(err)
	}
	return d.snapshot()
}

// readAll reads a dump's text, within the limits.
func readAll(r io.Reader) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(r, MaxDump+1))
	if err != nil {
		return nil, err
	}
	if len(raw) > MaxDump {
		return nil, fmt.Errorf("the dump is larger than %d MiB", MaxDump>>20)
	}
	if !bytes.HasPrefix(raw, []byte{0x1f, 0x8b}) {
		return raw, nil
	}
	z, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("gzip: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(z, MaxDumpText+1))
	if err != nil {
		return nil, fmt.Errorf("gzip: %w", err)
	}
	if len(text) > MaxDumpText {
		return nil, fmt.Errorf("what is compressed in the dump is larger than %d MiB", MaxDumpText>>20)
	}
	return text, nil
}

// place says at which field a JSON error is.
func place(err error) error {
	if t, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && t.Field != "" {
		return fmt.Errorf("%s: a JSON %s is not a %s", t.Field, t.Value, t.Type)
	}
	return err
}

func clip(text string) string {
	if len(text) > 64 {
		return text[:64] + "..."
	}
	return text
}

// snapshot checks a dump and makes a snapshot of it.
func (d *dump) snapshot() (*kubeengine.Snapshot, error) {
	if d.At.IsZero() || d.At.Year() > 9999 || d.At.Year() < 1970 {
		return nil, fmt.Errorf("at: %s is no time of a dump", d.At.Format(time.RFC3339))
	}
	learned, err := state.Decode(d.Learned)
	if err != nil {
		return nil, fmt.Errorf("learned: %w", err)
	}
	s := &kubeengine.Snapshot{
		At: d.At, Learned: learned, Estimates: d.Estimates, Passing: d.Passing, Arrivals: d.Arrivals, Pods: d.Pods, Nodes: d.Nodes, Namespaces: d.Namespaces, Budgets: d.Budgets,
		Dynamic: d.Dynamic, Slices: d.Slices, Claims: d.Claims, Classes: d.Classes,
	}
	s.GPUNodes, s.NodeTopologies = d.GPUNodes, d.NodeTopologies
	if s.Settings, err = d.Settings.read(); err != nil {
		return nil, fmt.Errorf("settings.%w", err)
	}
	if s.Networks, err = readKinds("networks", d.Networks); err != nil {
		return nil, err
	}
	if s.Groups, err = readKinds("groups", d.Groups); err != nil {
		return nil, err
	}
	for id, e := range d.Estimates {
		if e < 0 {
			return nil, fmt.Errorf("estimates[%s]: is negative", clip(string(id)))
		}
	}
	for id, n := range d.Arrivals {
		if n < 0 || n > maxArrival {
			return nil, fmt.Errorf("arrivals[%s]: %d is no number of a gang", clip(string(id)), n)
		}
	}
	return s, errors.Join(
		named("nodes", d.Nodes, false), named("gpuNodes", d.GPUNodes, false), named("nodeTopologies", d.NodeTopologies, false), named("namespaces", d.Namespaces, false),
		named("budgets", d.Budgets, true), podsNamed(d.Pods), named("slices", d.Slices, false), named("claims", d.Claims, true), named("classes", d.Classes, false))
}

func (s *settings) read() (kubeengine.Settings, error) {
	out := kubeengine.Settings{Options: s.Options, Timing: s.Timing, Levels: s.Levels, Protected: s.Protected, TelemetryMaxAge: s.TelemetryMaxAge, Profiles: map[string]workload.Profile{}}
	if err := s.Levels.Validate(); err != nil {
		return out, fmt.Errorf("levels%w", err)
	}
	o := &s.Options
	switch {
	case o.Reservations < 0 || o.Reservations > 1000:
		return out, fmt.Errorf("options.Reservations: %d is not from 0 to 1000", o.Reservations)
	case o.Effort < 1 || o.Effort > 1_000_000:
		return out, fmt.Errorf("options.Effort: %d is not from 1 to 1000000", o.Effort)
	case o.Ground < 1 || o.Ground > 1_000_000:
		return out, fmt.Errorf("options.Ground: %d is not from 1 to 1000000", o.Ground)
	case o.BatchTimeout <= 0 || o.Patience <= 0:
		return out, fmt.Errorf("options.BatchTimeout, options.Patience: not above 0")
	case len(s.Profiles) == 0:
		return out, fmt.Errorf("profiles: none")
	}
	for name, p := range s.Profiles {
		read := workload.Profile{Placements: p.Placements, Weights: p.Weights, Tenants: p.Tenants}
		for i, m := range p.Models {
			parsed := model.ParseModel(m)
			if !parsed.Known() {
				return out, fmt.Errorf("profiles[%s].models[%d]: %q does not name a GPU model", clip(name), i, clip(m))
			}
			read.Models = append(read.Models, parsed)
		}
		if err := p.Weights.Validate(); err != nil && p.Weights != (score.Weights{}) {
			return out, fmt.Errorf("profiles[%s].weights: %w", clip(name), err)
		}
		out.Profiles[name] = read
	}
	return out, nil
}

func readKinds(field string, in map[string][]*unstructured.Unstructured) (map[schema.GroupVersionResource][]*unstructured.Unstructured, error) {
	out := map[schema.GroupVersionResource][]*unstructured.Unstructured{}
	for _, key := range slices.Sorted(maps.Keys(in)) {
		parts := strings.Split(key, "/")
		if len(parts) != 3 {
			return nil, fmt.Errorf("%s[%s]: is not group/version/resource", field, clip(key))
		}
		if err := named(field+"["+key+"]", in[key], false); err != nil {
			return nil, err
		}
		out[schema.GroupVersionResource{Group: parts[0], Version: parts[1], Resource: parts[2]}] = in[key]
	}
	return out, nil
}

// named checks that objects are there and have names.
func named[T interface {
	comparable
	metav1.Object
}](field string, list []T, namespaced bool) error {
	if len(list) > maxObjects {
		return fmt.Errorf("%s: %d, at most %d are read", field, len(list), maxObjects)
	}
	var none T
	for i, o := range list {
		switch {
		case o == none:
			return fmt.Errorf("%s[%d]: null", field, i)
		case o.GetName() == "":
			return fmt.Errorf("%s[%d].metadata.name: missing", field, i)
		case namespaced && o.GetNamespace() == "":
			return fmt.Errorf("%s[%d].metadata.namespace: missing", field, i)
		}
	}
	return nil
}

// podsNamed checks pods: each has an identity of its own.
func podsNamed(pods []*v1.Pod) error {
	if err := named("pods", pods, true); err != nil {
		return err
	}
	uids, keys := map[types.UID]int{}, map[string]int{}
	for i, p := range pods {
		sameUID, uidTwice := uids[p.UID]
		sameKey, keyTwice := keys[keyOf(p)]
		switch {
		case p.UID == "":
			return fmt.Errorf("pods[%d].metadata.uid: missing", i)
		case uidTwice:
			return fmt.Errorf("pods[%d].metadata.uid: is also that of pods[%d]", i, sameUID)
		case keyTwice:
			return fmt.Errorf("pods[%d].metadata.name: is also that of pods[%d]", i, sameKey)
		}
		uids[p.UID], keys[keyOf(p)] = i, i
	}
	return nil
}
