package cli

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/lab/fleet"
)

// parseFault is the command line as the command understands it.
func parseFault(t *testing.T, args ...string) (faultRequest, error) {
	t.Helper()
	cmd := newFault()
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	r := faultRequest{faults: askedFaults(cmd)}
	var err error
	if r.device, err = cmd.Flags().GetString("device"); err != nil {
		t.Fatal(err)
	}
	if r.clear, err = cmd.Flags().GetBool("clear"); err != nil {
		t.Fatal(err)
	}
	return r, r.check()
}

func TestFaultFlags(t *testing.T) {
	const before = "device=1,gone;device=all,hang"
	for _, tt := range []struct {
		args, want, wantError string
	}{
		{args: "", want: before},
		{args: "--device 3 --xid 79", want: before + ";device=3,xid=79"},
		{args: "--device=3 --hot=95 --throttle sw-power-cap --gone", want: before + ";device=3,hot=95;device=3,throttle=sw-power-cap;device=3,gone"},
		{args: "--device all --no-driver", want: before + ";device=all,no-driver"},
		{args: "--device 3 --gone=false --hang", want: before + ";device=3,hang"},
		{args: "--clear", want: ""},
		{args: "--device 1 --clear", want: "device=all,hang"},
		{args: "--device all --clear --ecc 2", want: "device=1,gone;device=all,ecc=2"},
		{args: "--xid 79", wantError: "--device is missing: an index, or all"},
		{args: "--device 3", wantError: "no fault is given: see tangram fault --help, or --clear"},
		{args: "--device 99 --clear", wantError: `--device: "99" is neither an index nor all`},
		{args: "--device 3 --xid many", wantError: `--xid: must be a whole number from 1 to 999, not "many"`},
		{args: "--device 3 --xid 79;device=1,gone", wantError: `--xid: takes one value, not "79;device=1,gone"`},
		{args: "--device 3 --recovery PRAYER", wantError: `--recovery: "PRAYER" is not one of GPU_RESET, `},
		{args: "--device 3 --no-driver", wantError: "--no-driver: needs device=all: a node has one driver"},
	} {
		t.Run(tt.args, func(t *testing.T) {
			r, err := parseFault(t, strings.Fields(tt.args)...)
			if tt.wantError != "" {
				if err == nil || !strings.HasPrefix(err.Error(), tt.wantError) {
					t.Errorf("error %v, want %s", err, tt.wantError)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			list, err := fleet.ParseFaults(before)
			if err != nil {
				t.Fatal(err)
			}
			if list, err = r.apply(list); err != nil || fleet.FormatFaults(list) != tt.want {
				t.Errorf("faults %s, %v, want %s", fleet.FormatFaults(list), err, tt.want)
			}
		})
	}
}

func fakeGPUNodes(t *testing.T, annotation string) (*dynamicfake.FakeDynamicClient, dynamic.ResourceInterface) {
	t.Helper()
	node := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": "GPUNode",
		"metadata": map[string]any{"name": "n", "annotations": map[string]any{"other": "kept"}},
		"spec":     map[string]any{"devices": []any{map[string]any{"index": int64(0)}, map[string]any{"index": int64(1)}}},
	}}
	if annotation != "" {
		node.SetAnnotations(map[string]string{"other": "kept", names.AnnotationSimulatedFaults: annotation})
	}
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{v1alpha1.GPUNodes: "GPUNodeList"}, node)
	return client, client.Resource(v1alpha1.GPUNodes)
}

func TestInjectFaults(t *testing.T) {
	client, nodes := fakeGPUNodes(t, "")
	annotation := func() string {
		t.Helper()
		node, err := nodes.Get(t.Context(), "n", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if node.GetAnnotations()["other"] != "kept" {
			t.Errorf("annotations %v", node.GetAnnotations())
		}
		return node.GetAnnotations()[names.AnnotationSimulatedFaults]
	}
	inject := func(args ...string) error {
		t.Helper()
		r, err := parseFault(t, args...)
		if err != nil {
			t.Fatal(err)
		}
		_, err = injectFaults(t.Context(), nodes, "n", r)
		return err
	}
	// The agent is faster twice.
	conflicts := 2
	client.PrependReactor("patch", "gpunodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		if conflicts--; conflicts >= 0 {
			return true, nil, apierrors.NewConflict(v1alpha1.GPUNodes.GroupResource(), "n", nil)
		}
		return false, nil, nil
	})
	if err := inject("--device=1", "--xid=79"); err != nil || annotation() != "device=1,xid=79" {
		t.Errorf("annotation %q, %v", annotation(), err)
	}
	if err := inject("--device=1", "--xid=79"); err != nil || annotation() != "device=1,xid=79;device=1,xid=79" {
		t.Errorf("again: annotation %q, %v", annotation(), err)
	}
	if err := inject("--device=2", "--gone"); err == nil || err.Error() != "--device: n has 2 devices, there is no 2" {
		t.Errorf("a device that is not there: %v", err)
	}
	if err := inject("--clear"); err != nil || annotation() != "" {
		t.Errorf("cleared: annotation %q, %v", annotation(), err)
	}
	if _, err := injectFaults(t.Context(), nodes, "other", faultRequest{clear: true}); !apierrors.IsNotFound(err) {
		t.Errorf("an unknown node: %v", err)
	}

	_, nodes = fakeGPUNodes(t, "nonsense")
	if err := inject("--device=1", "--gone"); err == nil || !strings.Contains(err.Error(), "nonsense: unknown field") || !strings.Contains(err.Error(), "--clear removes it") {
		t.Errorf("beside nonsense: %v", err)
	}
	if err := inject("--clear"); err != nil || annotation() != "" {
		t.Errorf("nonsense cleared: annotation %q, %v", annotation(), err)
	}
}

func TestFaultWithoutCluster(t *testing.T) {
	cmd := newFault()
	cmd.SetArgs([]string{"n", "--device", "1", "--gone", "--dir", t.TempDir()})
	if err := cmd.Execute(); err == nil || !strings.Contains(err.Error(), "nothing runs in ") {
		t.Errorf("error %v", err)
	}
}
