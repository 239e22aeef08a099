package scenario

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/cockroachdb/datadriven"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/tangram-dev/tangram/api/v1alpha1"
)

// verb does what a step says and returns how to print the answer.
type verb func(*story, context.Context, *datadriven.TestData) (view, error)

var verbs map[string]verb

func init() { // a table of functions that call each other cannot be a plain variable
	verbs = map[string]verb{
		"nodes": (*story).addNodes, "remove-node": (*story).removeNode,
		"health": (*story).health, "measure": (*story).measure, "label": (*story).label, "allocatable": (*story).allocatable,
		"submit": (*story).submit, "foreign": (*story).foreign, "record": (*story).foreign,
		"delete": (*story).deletePods, "run": (*story).runPods, "finish": (*story).finishPods, "terminate": (*story).terminatePods,
		"gang": (*story).gang, "queue": (*story).queue, "remove-queue": (*story).removeQueue, "quota": (*story).quota, "budget": (*story).budget,
		"relabel": (*story).relabel, "tick": (*story).tick,
		"kill": (*story).kill, "pods": (*story).listPods, "devices": (*story).listDevices, "records": (*story).listRecords,
	}
}

// lines parses a step's input.
func lines(d *datadriven.TestData) ([]*line, error) {
	var out []*line
	for text := range strings.Lines(d.Input) {
		if strings.TrimSpace(text) == "" || strings.HasPrefix(text, "#") {
			continue
		}
		l, err := parseLine(text)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", strings.TrimSpace(text), err)
		}
		out = append(out, l)
	}
	if len(out) == 0 {
		return nil, errors.New("needs lines below it")
	}
	return out, nil
}

// arguments are the names after a verb, ranges expanded.
func arguments(d *datadriven.TestData) ([]string, error) {
	var out []string
	for _, arg := range d.CmdArgs {
		names, err := expand(arg.Key)
		if err != nil {
			return nil, err
		}
		out = append(out, names...)
	}
	if len(out) == 0 {
		return nil, errors.New("needs names behind it")
	}
	return out, nil
}

// waiting returns the first pod that waits, or "".
func (s *story) waiting(ctx context.Context) (string, error) {
	state, err := s.engine.Observe(ctx)
	if err != nil {
		return "", err
	}
	for _, name := range s.order {
		if pod := state.Pods[name]; pod != nil && waits(pod) {
			return name, nil
		}
	}
	return "", nil
}

// alone refuses several changes in one step while pods wait: a real scheduler
// may act between any two of them, so the answer would depend on its speed.
func (s *story) alone(ctx context.Context, changes int) error {
	if changes < 2 {
		return nil
	}
	pod, err := s.waiting(ctx)
	if err == nil && pod != "" {
		err = fmt.Errorf("pod %s waits: change one thing per step, or the answer depends on the scheduler's speed", pod)
	}
	return err
}

// nodes adds or replaces nodes, each with its GPUNode:
//
//	nodes
//	a100-[0-1] gpus=8 model="NVIDIA A100-SXM4-80GB" memory=81920 link=NVSwitch:all
//	----
//	ok
func (s *story) addNodes(ctx context.Context, d *datadriven.TestData) (view, error) {
	list, err := lines(d)
	if err != nil {
		return nil, err
	}
	count := 0
	for _, l := range list {
		count += len(l.names)
	}
	if err := s.alone(ctx, count); err != nil {
		return nil, err
	}
	for _, l := range list {
		for _, name := range l.names {
			topology := l.topology(name)
			node, gn, err := l.node(name)
			if err == nil {
				err = s.setTopology(ctx, name, topology)
			}
			if err == nil {
				err = s.setNode(ctx, node, gn)
			}
			if err != nil {
				return nil, fmt.Errorf("node %s: %w", name, err)
			}
		}
	}
	return s.changes(), nil
}

// setNode brings a node in. Nothing orders Nodes and GPUNodes for a scheduler, so
// while a pod waits it must not see the one in a way that the other would change:
// a new node offers no GPUs until its devices are known, as in life, where the
// device plugin comes last.
func (s *story) setNode(ctx context.Context, node *v1.Node, gn *v1alpha1.GPUNode) error {
	pod, err := s.waiting(ctx)
	if err != nil {
		return err
	}
	careful, isNew := pod != "", s.nodes[node.Name] == nil
	if careful && isNew && gn != nil {
		if err := s.setAndSettle(ctx, withoutGPUs(node)); err != nil {
			return err
		}
	}
	old := s.gpuNodes[node.Name]
	switch {
	case gn != nil:
		s.gpuNodes[node.Name] = gn
		err = s.engine.Apply(ctx, gn)
	case old != nil:
		delete(s.gpuNodes, node.Name)
		err = s.engine.Delete(ctx, old)
	}
	if err == nil && careful {
		err = s.engine.Settle(ctx)
	}
	if err != nil {
		return err
	}
	s.nodes[node.Name] = node
	return s.engine.Apply(ctx, node)
}

func (s *story) setAndSettle(ctx context.Context, node *v1.Node) error {
	if err := s.engine.Apply(ctx, node); err != nil {
		return err
	}
	return s.engine.Settle(ctx)
}

// withoutGPUs is a node before its device plugins have registered.
func withoutGPUs(node *v1.Node) *v1.Node {
	out := node.DeepCopy()
	for name := range out.Status.Allocatable {
		if strings.Contains(string(name), "/") {
			delete(out.Status.Allocatable, name)
			delete(out.Status.Capacity, name)
		}
	}
	return out
}

// remove-node takes nodes away, and what is known of them; pods on them stay bound.
func (s *story) removeNode(ctx context.Context, d *datadriven.TestData) (view, error) {
	list, err := arguments(d)
	if err != nil {
		return nil, err
	}
	for _, name := range list {
		node, gn := s.nodes[name], s.gpuNodes[name]
		if node == nil {
			return nil, fmt.Errorf("there is no node %s", name)
		}
		delete(s.nodes, name)
		delete(s.gpuNodes, name)
		if err := s.engine.Delete(ctx, node); err != nil {
			return nil, err
		}
		if gn == nil && s.topologies[name] == nil {
			continue
		}
		// Or the scheduler may see the node without its devices.
		if err := s.engine.Settle(ctx); err != nil {
			return nil, err
		}
		if gn != nil {
			if err := s.engine.Delete(ctx, gn); err != nil {
				return nil, err
			}
		}
		if err := s.setTopology(ctx, name, nil); err != nil {
			return nil, err
		}
	}
	return s.changes(), nil
}

// changeNode applies the key=value arguments of a verb to its one node.
func (s *story) changeNode(d *datadriven.TestData, change func(node *v1.Node, key, value string) error) (*v1.Node, error) {
	if len(d.CmdArgs) < 2 || s.nodes[d.CmdArgs[0].Key] == nil {
		return nil, errors.New("needs a node that exists, and changes")
	}
	node := s.nodes[d.CmdArgs[0].Key]
	for _, arg := range d.CmdArgs[1:] {
		if err := change(node, arg.Key, strings.Join(arg.Vals, ",")); err != nil {
			return nil, fmt.Errorf("%s: %w", arg, err)
		}
	}
	return node, nil
}

// health sets device states in a GPUNode's status: health a100-0 0=Failed.
func (s *story) health(ctx context.Context, d *datadriven.TestData) (view, error) {
	node, err := s.changeNode(d, func(node *v1.Node, key, value string) error {
		gn := s.gpuNodes[node.Name]
		index, err := strconv.ParseInt(key, 10, 32)
		if err != nil || gn == nil {
			return errors.New("needs device=State, and a node with an agent")
		}
		setHealth(gn, int32(index), v1alpha1.Health(value))
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s.changes(), s.engine.Apply(ctx, s.gpuNodes[node.Name])
}

// label sets labels of a node, or takes them away: label a100-0 tier=gold old-.
func (s *story) label(ctx context.Context, d *datadriven.TestData) (view, error) {
	node, err := s.changeNode(d, func(node *v1.Node, key, value string) error {
		if gone, ok := strings.CutSuffix(key, "-"); ok && value == "" {
			delete(node.Labels, gone)
		} else {
			node.Labels[key] = value
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s.changes(), s.engine.Apply(ctx, node)
}

// allocatable sets what a node's kubelet offers: allocatable a100-0
// nvidia.com/gpu=6.
func (s *story) allocatable(ctx context.Context, d *datadriven.TestData) (view, error) {
	node, err := s.changeNode(d, func(node *v1.Node, key, value string) error {
		q, err := resource.ParseQuantity(value)
		node.Status.Allocatable[v1.ResourceName(key)] = q
		return err
	})
	if err != nil {
		return nil, err
	}
	return s.changes(), s.engine.Apply(ctx, node)
}

// kill ends the scheduler without warning and starts a new one, which must come to know
// all that the old one knew.
func (s *story) kill(ctx context.Context, _ *datadriven.TestData) (view, error) {
	return s.changes(), s.engine.Restart(ctx)
}

// pods lists all pods.
func (s *story) listPods(context.Context, *datadriven.TestData) (view, error) {
	return s.changes(s.order...), nil
}

// devices lists who holds which device.
func (s *story) listDevices(context.Context, *datadriven.TestData) (view, error) {
	return (*State).deviceTable, nil
}

// records lists what each container was given.
func (s *story) listRecords(context.Context, *datadriven.TestData) (view, error) {
	return func(state *State) (string, error) { return state.recordTable(s.order) }, nil
}
