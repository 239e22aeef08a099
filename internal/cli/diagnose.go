package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/internal/ask"
	"github.com/tangram-dev/tangram/internal/cli/see"
	"github.com/tangram-dev/tangram/internal/diagnose"
	"github.com/tangram-dev/tangram/internal/terminal"
)

func newDiagnose() *cobra.Command {
	var l look
	var all bool
	cmd := &cobra.Command{
		Use:   "diagnose NODE...",
		Short: "Check a GPU node: driver, health, plugin, labels, allocations, and what to do",
		Long: `Check nodes from what the API server has: the Node, its GPUNode, the pods on it with their
records, and its ResourceSlices. Each check is ok, warn, fail or unknown, with the numbers
that were seen and what to do.

Checks: ` + strings.Join(diagnose.Names(), ", ") + `.

Nothing is changed, and nothing runs on the node. It takes the right to get nodes and
gpunodes and to list pods of all namespaces and resourceslices.

The exit code is 20 when a check fails, 0 when none does.`,
		Example: `  tangram diagnose a100-0
  tangram diagnose a100-0 -o json | jq '.checks[] | select(.result != "ok")'
  tangram diagnose --all                         # the fleet, one line per node
  tangram diagnose --all -o wide                 # with every finding`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, nodes []string) error {
			if all == (len(nodes) > 0) {
				return &ask.UsageError{Message: "name nodes, or say --all"}
			}
			s := screenOf(cmd)
			c, err := l.connect()
			if err != nil {
				return err
			}
			p := s.Progress("reading the cluster")
			reports, err := c.diagnose(cmd.Context(), nodes, time.Now())
			p.End()
			if err != nil {
				return err
			}
			if err := l.printDiagnosis(s, reports, all); err != nil {
				return err
			}
			if slices.ContainsFunc(reports, func(r diagnose.Report) bool { return r.Worst == diagnose.Fail }) {
				return see.Found()
			}
			return nil
		},
		ValidArgsFunction: func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			ctx, stop := context.WithTimeout(cmd.Context(), 3*time.Second)
			defer stop()
			return l.nodeNames(ctx), cobra.ShellCompDirectiveNoFileComp
		},
	}
	l.addTo(cmd, "json, yaml; wide: with --all, every finding")
	cmd.Flags().BoolVar(&all, "all", false, "all nodes that have GPUs, or a GPUNode")
	return cmd
}

// nodeNames are for completion: none when the cluster does not answer.
func (l *look) nodeNames(ctx context.Context) []string {
	c, err := l.connect()
	if err != nil {
		return nil
	}
	var out []string
	_ = c.each(ctx, nodesKind, "", func(o *unstructured.Unstructured) error {
		out = append(out, o.GetName())
		return nil
	})
	return out
}

var (
	nodesKind  = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
	podsKind   = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	slicesKind = schema.GroupVersionResource{Group: "resource.k8s.io", Version: "v1", Resource: "resourceslices"}
)

// diagnose reads what there is about nodes, all with GPUs when none are named, and checks it.
func (c *cluster) diagnose(ctx context.Context, nodes []string, now time.Time) ([]diagnose.Report, error) {
	objects := map[string]*diagnose.Objects{}
	for _, name := range nodes {
		u, err := c.dynamic.Resource(nodesKind).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		n := &v1.Node{}
		if err := into(u, n); err != nil {
			return nil, err
		}
		objects[name] = &diagnose.Objects{Node: n}
	}
	if len(nodes) == 0 {
		err := c.each(ctx, nodesKind, "", func(u *unstructured.Unstructured) error {
			n := &v1.Node{}
			objects[u.GetName()] = &diagnose.Objects{Node: n}
			return into(u, n)
		})
		if err != nil {
			return nil, err
		}
	}
	if err := c.fill(ctx, objects, nodes); err != nil {
		return nil, err
	}
	var reports []diagnose.Report
	for _, o := range objects {
		f := diagnose.FactsOf(*o, now)
		if len(nodes) > 0 || f.GPUs != nil || offers(f) {
			reports = append(reports, diagnose.Run(f))
		}
	}
	if len(reports) == 0 {
		return nil, missing("no node has GPUs: none offers any, and there is no GPUNode")
	}
	slices.SortFunc(reports, func(a, b diagnose.Report) int { return strings.Compare(a.Node, b.Node) })
	return reports, nil
}

// offers says whether kubelet, a label or a driver tells of GPUs.
func offers(f *diagnose.Facts) bool {
	for _, n := range f.Node.Capacity {
		if n > 0 {
			return true
		}
	}
	return f.Node.Labels["nvidia.com/gpu.present"] == "true" || f.Node.Labels["feature.node.kubernetes.io/pci-10de.present"] == "true" || f.Node.Labels["tangram.dev/gpu-agent"] == "true"
}

// fill adds GPUNodes, pods and slices. Kinds that the cluster does not have are left out.
func (c *cluster) fill(ctx context.Context, objects map[string]*diagnose.Objects, nodes []string) error {
	gpuNode := func(u *unstructured.Unstructured) error {
		if o := objects[u.GetName()]; o != nil {
			o.GPUNode = &v1alpha1.GPUNode{}
			return into(u, o.GPUNode)
		}
		return nil
	}
	err := c.each(ctx, v1alpha1.GPUNodes, "", gpuNode)
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	for _, o := range objects {
		o.Defined = err == nil
	}
	pod := func(u *unstructured.Unstructured) error {
		name, _, _ := unstructured.NestedString(u.Object, "spec", "nodeName")
		o := objects[name]
		if o == nil {
			return nil
		}
		p := &v1.Pod{}
		o.Pods = append(o.Pods, p)
		return into(u, p)
	}
	selectors := []string{""}
	if len(nodes) > 0 && len(nodes) <= 10 {
		selectors = slices.Clone(nodes)
		for i, n := range nodes {
			selectors[i] = "spec.nodeName=" + n
		}
	}
	for _, s := range selectors {
		if err := c.each(ctx, podsKind, s, pod); err != nil {
			return err
		}
	}
	var found []resourceapi.ResourceSlice
	err = c.each(ctx, slicesKind, "", func(u *unstructured.Unstructured) error {
		var s resourceapi.ResourceSlice
		err := into(u, &s)
		found = append(found, s)
		return err
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for name, o := range objects {
		o.Slices = []resourceapi.ResourceSlice{}
		for _, s := range found {
			if s.Spec.NodeName != nil && *s.Spec.NodeName == name {
				o.Slices = append(o.Slices, s)
			}
		}
	}
	return nil
}

func into(u *unstructured.Unstructured, typed any) error {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, typed); err != nil {
		return fmt.Errorf("%s %s: %w", u.GetKind(), u.GetName(), err)
	}
	return nil
}

// printDiagnosis writes reports: of one node all checks, of several one line for each.
func (l *look) printDiagnosis(s *terminal.Screen, reports []diagnose.Report, all bool) error {
	var v any = reports
	if !all && len(reports) == 1 {
		v = reports[0]
	}
	if done, err := l.data(s, v); done || err != nil {
		return err
	}
	switch {
	case all && l.format != "wide":
		fleetTable(s, reports)
	case all:
		t := terminal.NewTable("NODE", "CHECK", "RESULT", "SEEN", "DO")
		for _, r := range reports {
			for _, x := range r.Results {
				t.Add(r.Node, x.Check, stateCell(x.State), x.Seen, x.Do)
			}
		}
		t.Write(s)
	default:
		for i, r := range reports {
			if i > 0 {
				s.Blank()
			}
			nodeTable(s, &r)
		}
	}
	return s.Failed()
}

func nodeTable(s *terminal.Screen, r *diagnose.Report) {
	t := terminal.NewTable("CHECK", "RESULT", "SEEN")
	for _, x := range r.Results {
		t.Add(x.Check, stateCell(x.State), x.Seen)
	}
	s.Line(terminal.Bold, "%s", r.Node)
	t.Write(s)
	first := true
	for _, state := range []diagnose.State{diagnose.Fail, diagnose.Warn, diagnose.Unknown} {
		for _, x := range r.Of(state) {
			if x.Do == "" {
				continue
			}
			if first {
				s.Blank()
				s.Line(terminal.Bold, "What to do")
				first = false
			}
			s.Field("  "+x.Check, 14, terminal.Plain, x.Do)
		}
	}
}

// fleetTable has one line for each node: counts, and the worst finding.
func fleetTable(s *terminal.Screen, reports []diagnose.Report) {
	t := terminal.NewTable("NODE", "RESULT", ">FAIL", ">WARN", ">UNKNOWN", ">OK", "WORST")
	bad := 0
	for i := range reports {
		r := &reports[i]
		worst := ""
		if list := r.Of(r.Worst); r.Worst != diagnose.OK && len(list) > 0 {
			worst = list[0].Check + ": " + list[0].Seen
		}
		if r.Worst == diagnose.Fail {
			bad++
		}
		count := func(state diagnose.State) string { return fmt.Sprint(len(r.Of(state))) }
		t.Add(r.Node, stateCell(r.Worst), count(diagnose.Fail), count(diagnose.Warn), count(diagnose.Unknown), count(diagnose.OK), worst)
	}
	t.Write(s)
	s.Blank()
	s.Line(terminal.Plain, "%d nodes with GPUs, %d of them fail a check. tangram diagnose NODE says what to do.", len(reports), bad)
}

func stateCell(state diagnose.State) terminal.Cell {
	style := map[diagnose.State]terminal.Style{diagnose.OK: terminal.Good, diagnose.Warn: terminal.Warn, diagnose.Fail: terminal.Bad, diagnose.Unknown: terminal.Dim}[state]
	return terminal.Cell{Text: string(state), Style: style}
}
