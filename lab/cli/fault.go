package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/retry"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/query"
	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/lab/fleet"
	"github.com/tangram-dev/tangram/lab/local"
)

// faultRequest is what the command line asks for.
type faultRequest struct {
	device string // index or all; empty when not given
	clear  bool
	faults []string // KIND or KIND=VALUE
}

func newFault() *cobra.Command {
	var dir string
	var asked faultRequest
	cmd := &cobra.Command{
		Use:   "fault NODE",
		Short: "Break simulated devices of the local cluster, or repair them",
		Long: `Inject faults into simulated devices of the cluster that tangram up started. Faults
add up and stay until they are cleared; the same XID twice is two errors. Without
flags the node's faults are printed.

The faults are the annotation ` + names.AnnotationSimulatedFaults + ` of the GPUNode, which
kubectl annotate sets as well.`,
		Example: `  tangram fault a100-0 --device 3 --xid 79
  tangram fault a100-0 --device 3 --hot 95 --throttle hw-thermal-slowdown
  tangram fault a100-0 --device all --hang
  tangram fault a100-0 --device 3 --clear
  tangram fault a100-0 --clear`,
		Args: cobra.ExactArgs(1),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			nodes, err := gpuNodesOf(dir)
			if err != nil || len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			list, err := nodes.List(cmd.Context(), metav1.ListOptions{Limit: 500})
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			var out []string
			for i := range list.Items {
				out = append(out, list.Items[i].GetName())
			}
			return out, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			asked.faults = askedFaults(cmd)
			if err := asked.check(); err != nil {
				return misused(err)
			}
			nodes, err := gpuNodesOf(dir)
			if err != nil {
				return err
			}
			list, err := injectFaults(cmd.Context(), nodes, args[0], asked)
			if err != nil {
				return err
			}
			text := fleet.FormatFaults(list)
			if text == "" {
				text = "no faults"
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", args[0], text)
			return err
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&asked.device, "device", "", "index of the device, or all")
	for _, kind := range fleet.FaultKinds() {
		if takes, _ := fleet.FaultTakesValue(kind); takes {
			flags.String(string(kind), "", fleet.FaultUsage(kind))
		} else {
			flags.Bool(string(kind), false, fleet.FaultUsage(kind))
		}
	}
	flags.BoolVar(&asked.clear, "clear", false, "end the faults of the device, or of the node without --device, before others are added")
	flags.StringVar(&dir, "dir", defaultDir, "the directory given to tangram up")
	return cmd
}

// askedFaults are the fields of the text form that the flags stand for, in the kinds'
// order.
func askedFaults(cmd *cobra.Command) []string {
	var fields []string
	for _, kind := range fleet.FaultKinds() {
		f := cmd.Flags().Lookup(string(kind))
		if f == nil || !f.Changed || f.Value.Type() == "bool" && f.Value.String() != "true" {
			continue
		}
		if f.Value.Type() == "bool" {
			fields = append(fields, f.Name)
		} else {
			fields = append(fields, f.Name+"="+f.Value.String())
		}
	}
	return fields
}

// parse returns the faults to add.
func (r faultRequest) parse() ([]fleet.Fault, error) {
	if len(r.faults) == 0 {
		return nil, nil
	}
	for _, field := range r.faults {
		if name, value, _ := strings.Cut(field, "="); strings.ContainsAny(value, ",;") {
			return nil, fmt.Errorf("--%s: takes one value, not %.40q", name, value)
		}
	}
	list, err := fleet.ParseFaults("device=" + r.device + "," + strings.Join(r.faults, ","))
	if err != nil {
		// Flags have the names of the fields; there is only one entry.
		if _, field, ok := strings.Cut(err.Error(), "): "); ok {
			return nil, errors.New("--" + field)
		}
		return nil, err
	}
	return list, nil
}

func (r faultRequest) check() error {
	if r.device == "" && len(r.faults) > 0 {
		return errors.New("--device is missing: an index, or all")
	}
	if r.device != "" && len(r.faults) == 0 && !r.clear {
		return errors.New("no fault is given: see tangram fault --help, or --clear")
	}
	if r.device != "" { // also where there is only something to clear
		if _, err := fleet.ParseFaults("device=" + r.device + "," + string(fleet.FaultHang)); err != nil {
			return fmt.Errorf("--device: %q is neither an index nor all", r.device)
		}
	}
	_, err := r.parse()
	return err
}

// apply returns the faults of a node after the request.
func (r faultRequest) apply(before []fleet.Fault) ([]fleet.Fault, error) {
	added, err := r.parse()
	if err != nil {
		return nil, err
	}
	if !r.clear {
		return append(before, added...), nil
	}
	if r.device == "" {
		return added, nil
	}
	about, err := fleet.ParseFaults("device=" + r.device + "," + string(fleet.FaultHang))
	if err != nil {
		return nil, err
	}
	var kept []fleet.Fault
	for _, f := range before {
		if f.Device != about[0].Device {
			kept = append(kept, f)
		}
	}
	return append(kept, added...), nil
}

// gpuNodesOf is a client for the GPUNodes of the cluster that runs in a directory.
func gpuNodesOf(dir string) (dynamic.ResourceInterface, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if _, running, err := local.Running(dir); err != nil {
		return nil, err
	} else if !running {
		return nil, &query.Error{Status: http.StatusServiceUnavailable, Message: fmt.Sprintf("nothing runs in %s: tangram up starts a cluster", dir)}
	}
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(dir, "kubeconfig"))
	if err != nil {
		return nil, err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return client.Resource(v1alpha1.GPUNodes), nil
}

// faultRetries is how often a write is tried that another writer of the GPUNode, such
// as its agent, was faster than.
const faultRetries = 20

// injectFaults changes the node's faults and returns them; without anything to change it
// only reads.
func injectFaults(ctx context.Context, nodes dynamic.ResourceInterface, name string, asked faultRequest) (list []fleet.Fault, err error) {
	backoff := retry.DefaultRetry
	backoff.Steps = faultRetries
	err = retry.RetryOnConflict(backoff, func() error {
		node, err := nodes.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		before, err := fleet.ParseFaults(node.GetAnnotations()[names.AnnotationSimulatedFaults])
		if err != nil && !asked.clear {
			return fmt.Errorf("gpunode %s: annotation %s: %w (--clear removes it)", name, names.AnnotationSimulatedFaults, err)
		}
		if list = before; len(asked.faults) == 0 && !asked.clear {
			return nil
		}
		if list, err = asked.apply(before); err != nil {
			return err
		}
		if err := checkDevices(node, list); err != nil {
			return err
		}
		patch, err := faultPatch(node.GetResourceVersion(), list)
		if err != nil {
			return err
		}
		_, err = nodes.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// checkDevices refuses faults of devices that the node does not have.
func checkDevices(node *unstructured.Unstructured, list []fleet.Fault) error {
	devices, _, err := unstructured.NestedSlice(node.Object, "spec", "devices")
	if err != nil {
		return fmt.Errorf("gpunode %s: %w", node.GetName(), err)
	}
	for _, f := range list {
		if f.Device >= len(devices) {
			return misused(fmt.Errorf("--device: %s has %d devices, there is no %d", node.GetName(), len(devices), f.Device))
		}
	}
	return nil
}

// faultPatch sets the annotation, or removes it, if the object has the version.
func faultPatch(version string, list []fleet.Fault) ([]byte, error) {
	var value any // null removes
	if len(list) > 0 {
		value = fleet.FormatFaults(list)
	}
	return json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": version, "annotations": map[string]any{names.AnnotationSimulatedFaults: value},
	}})
}
