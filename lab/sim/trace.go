package sim

import (
	"fmt"
	"slices"

	"github.com/tangram-dev/tangram/core/pack"
)

// Trace is a fleet and the requests made to it.
type Trace struct {
	Nodes  []Node
	Pods   []Pod
	Models []string // by pack.ModelID; the first is "" for nodes without GPUs
}

// Node is one row of a node list.
type Node struct {
	Name  string
	Empty pack.Shape
}

// Pod is one row of a pod list.
type Pod struct {
	Name  string
	Class pack.Class
}

// Capacity is the GPU amount of the fleet, in milli.
func (t *Trace) Capacity() int64 {
	var sum int64
	for i := range t.Nodes {
		sum += t.Nodes[i].Empty.Idle()
	}
	return sum
}

// Demand is the GPU amount all pods ask for, in milli.
func (t *Trace) Demand() int64 {
	var sum int64
	for i := range t.Pods {
		sum += t.Pods[i].Class.Demand()
	}
	return sum
}

// Workload counts the pods by class, in the order of first appearance.
func (t *Trace) Workload() []pack.Demand {
	at := map[pack.Class]int{}
	var demands []pack.Demand
	for i := range t.Pods {
		c := t.Pods[i].Class
		j, ok := at[c]
		if !ok {
			j = len(demands)
			at[c] = j
			demands = append(demands, pack.Demand{Class: c})
		}
		demands[j].Count++
	}
	return demands
}

// Times is the trace with every node n times, under names of their own. Pods
// stay as they are: the protocol draws as many as the fleet needs.
func (t *Trace) Times(n int) *Trace {
	out := &Trace{Pods: t.Pods, Models: t.Models}
	for copied := range n {
		for _, node := range t.Nodes {
			if copied > 0 {
				node.Name = fmt.Sprintf("%s-%d", node.Name, copied)
			}
			out.Nodes = append(out.Nodes, node)
		}
	}
	return out
}

// model is the ID of a model name, given out in order of appearance.
func (t *Trace) model(name string) (pack.ModelID, error) {
	if len(t.Models) == 0 {
		t.Models = []string{""}
	}
	at := slices.Index(t.Models, name)
	if at < 0 {
		if len(t.Models) == pack.MaxModels {
			return 0, fmt.Errorf("more than %d GPU models", pack.MaxModels-1)
		}
		at = len(t.Models)
		t.Models = append(t.Models, name)
	}
	return pack.ModelID(at), nil
}
