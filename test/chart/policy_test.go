package chart

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tangram-dev/tangram/api/v1alpha1"
	"github.com/tangram-dev/tangram/lab/fleet"
	"github.com/tangram-dev/tangram/test/cluster"
)

// newAPI starts an API server alone.
func newAPI(t *testing.T) *world {
	t.Helper()
	return &world{World: cluster.ForTest(t, cluster.Options{Programs: []string{"helm"}})}
}

// TestTrustedRegistry applies the example policy: images of other registries are refused,
// by name, in whatever container they are.
func TestTrustedRegistry(t *testing.T) {
	t.Parallel()
	w := newAPI(t)
	policy, err := os.ReadFile(root + "/examples/policy/00-trusted-registry.yaml")
	if err != nil {
		t.Fatal(err)
	}
	w.Apply(string(policy))
	w.AddNamespace("trusting", `tangram.dev/trusted-images: "true"`)
	w.AddNamespace("open")
	create := func(namespace, image string, more ...func(*v1.Pod)) error {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "p-"}, Spec: v1.PodSpec{Containers: []v1.Container{{Name: "main", Image: image}}}}
		for _, m := range more {
			m(p)
		}
		_, err := w.Client.CoreV1().Pods(namespace).Create(t.Context(), p, metav1.CreateOptions{})
		return err
	}
	w.Eventually("the policy is in force", func() (bool, string) {
		err := create("trusting", "docker.io/library/busybox")
		return err != nil, "a foreign image is admitted"
	})
	const good = "ghcr.io/tangram-dev/gpu-scheduler:0.1.0"
	initImage := func(image string) func(*v1.Pod) {
		return func(p *v1.Pod) { p.Spec.InitContainers = []v1.Container{{Name: "init", Image: image}} }
	}
	for _, test := range []struct {
		name, namespace, image string
		more                   []func(*v1.Pod)
		refused                string // the image the refusal names
	}{
		{name: "trusted", namespace: "trusting", image: good},
		{name: "trusted by digest", namespace: "trusting", image: "registry.example.com/a/b@sha256:" + strings.Repeat("0", 64)},
		{name: "no registry", namespace: "trusting", image: "busybox", refused: "busybox"},
		{name: "other path of the registry", namespace: "trusting", image: "ghcr.io/others/gpu-scheduler", refused: "ghcr.io/others/gpu-scheduler"},
		{name: "name that begins alike", namespace: "trusting", image: "registry.example.com.evil.org/a", refused: "registry.example.com.evil.org/a"},
		{name: "init container", namespace: "trusting", image: good, more: []func(*v1.Pod){initImage("evil.org/a")}, refused: "evil.org/a"},
		{name: "init container, trusted", namespace: "trusting", image: good, more: []func(*v1.Pod){initImage(good)}},
		{name: "namespace without the label", namespace: "open", image: "busybox"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := create(test.namespace, test.image, test.more...)
			switch {
			case test.refused == "" && err != nil:
				t.Error(err)
			case test.refused != "" && (err == nil || !strings.Contains(err.Error(), "image "+test.refused+" is not from a trusted registry")):
				t.Errorf("%v, want a refusal that names %s", err, test.refused)
			}
		})
	}
	t.Run("ephemeral container", func(t *testing.T) {
		p, err := w.Client.CoreV1().Pods("trusting").Create(t.Context(), &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "debugged"}, Spec: v1.PodSpec{Containers: []v1.Container{{Name: "main", Image: good}}}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		p.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "debug", Image: "evil.org/a"}}}
		if _, err := w.Client.CoreV1().Pods("trusting").UpdateEphemeralContainers(t.Context(), p.Name, p, metav1.UpdateOptions{}); err == nil || !strings.Contains(err.Error(), "image evil.org/a is not from a trusted registry") {
			t.Errorf("%v, want a refusal", err)
		}
	})
	t.Run("image of a running pod", func(t *testing.T) {
		patch := []byte(`{"spec":{"containers":[{"name":"main","image":"evil.org/a"}]}}`)
		if _, err := w.Client.CoreV1().Pods("trusting").Patch(t.Context(), "debugged", types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err == nil || !strings.Contains(err.Error(), "evil.org/a") {
			t.Errorf("%v, want a refusal", err)
		}
	})
}

// TestAgentPolicy lets an agent that was taken over try what it must not: it has the token
// of its own pod, and the rights of the chart's role.
func TestAgentPolicy(t *testing.T) {
	t.Parallel()
	w := newAPI(t)
	w.AddNamespace(namespace)
	out, err := runHelm(t, "", "template", release, chartDir, "--namespace", namespace, "--kube-version", "1.36.0",
		"-s", "templates/crds.yaml", "-s", "templates/rbac.yaml", "-s", "templates/agent-policy.yaml", "--set", "crds.volcano=false,agent.dra.enabled=true")
	if err != nil {
		t.Fatal(err)
	}
	w.Apply(out)
	for _, name := range []string{"own", "other"} {
		if _, err := w.Client.CoreV1().Nodes().Create(t.Context(), &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		w.Within(namespace).Create(cluster.Pod("on-"+name, 0, cluster.Label("team", "a"), func(p *v1.Pod) { p.Spec.NodeName, p.Spec.ServiceAccountName = name, "gpu-agent" }))
	}
	simulated, err := fleet.Parse("fleet.yaml", []byte("pools:\n- {name: a, count: 1, gpu: {model: T4, count: 1}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	described := simulated.GPUNodes()[0]
	agent, objects := w.agentOn("own")
	nodes := objects.Resource(v1alpha1.GPUNodes)
	writes := map[string]func(node string) error{
		"label the node": func(node string) error {
			_, err := agent.CoreV1().Nodes().Patch(t.Context(), node, types.MergePatchType, []byte(fmt.Sprintf(`{"metadata":{"labels":{"at":"%d"}}}`, time.Now().UnixNano())), metav1.PatchOptions{})
			return err
		},
		"correct a record": func(node string) error {
			_, err := agent.CoreV1().Pods(namespace).Patch(t.Context(), "on-"+node, types.MergePatchType, []byte(fmt.Sprintf(`{"metadata":{"annotations":{"at":"%d"}}}`, time.Now().UnixNano())), metav1.PatchOptions{})
			return err
		},
		"describe the GPUs": func(node string) error {
			o := described.DeepCopy()
			o.Name, o.Spec.Devices = node, []v1alpha1.Device{}
			return createGPUNode(t.Context(), nodes, o)
		},
		"publish a ResourceSlice": func(node string) error {
			_, err := agent.ResourceV1().ResourceSlices().Create(t.Context(), slice(node, "gpu.tangram.dev"), metav1.CreateOptions{})
			return err
		},
		"delete a ResourceSlice": func(node string) error {
			s := slice(node, "gpu.tangram.dev")
			s.Name = ""
			s.GenerateName = "of-" + node + "-"
			made, err := w.Client.ResourceV1().ResourceSlices().Create(t.Context(), s, metav1.CreateOptions{})
			if err != nil {
				return err
			}
			return agent.ResourceV1().ResourceSlices().Delete(t.Context(), made.Name, metav1.DeleteOptions{})
		},
	}
	for what, write := range writes {
		w.Eventually("the policy refuses to "+what+" of another node", func() (bool, string) {
			err := write("other")
			return err != nil && strings.Contains(err.Error(), `gpu-agent of node "own" may not write about node "other"`), fmt.Sprint(err)
		})
		if err := write("own"); err != nil {
			t.Errorf("%s of its own node: %v", what, err)
		}
	}
	for what, try := range map[string]func() error{
		"gpu-agent may change labels of its node, not its spec": func() error {
			_, err := agent.CoreV1().Nodes().Patch(t.Context(), "own", types.MergePatchType, []byte(`{"spec":{"unschedulable":true}}`), metav1.PatchOptions{})
			return err
		},
		"gpu-agent may write ResourceSlices of driver gpu.tangram.dev alone": func() error {
			_, err := agent.ResourceV1().ResourceSlices().Create(t.Context(), slice("own", "nic.example.com"), metav1.CreateOptions{})
			return err
		},
		"gpu-agent may change annotations of pods alone": func() error {
			_, err := agent.CoreV1().Pods(namespace).Patch(t.Context(), "on-own", types.MergePatchType, []byte(`{"metadata":{"labels":{"team":"b"}}}`), metav1.PatchOptions{})
			return err
		},
	} {
		if err := try(); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%v, want: %s", err, what)
		}
	}
}

// slice is a ResourceSlice of a node without devices.
func slice(node, driver string) *resourceapi.ResourceSlice {
	return &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: node + "-" + driver},
		Spec:       resourceapi.ResourceSliceSpec{Driver: driver, NodeName: &node, Pool: resourceapi.ResourcePool{Name: node, ResourceSliceCount: 1}},
	}
}

func createGPUNode(ctx context.Context, nodes dynamic.ResourceInterface, o *v1alpha1.GPUNode) error {
	object, err := toUnstructured(o)
	if err != nil {
		return err
	}
	_, err = nodes.Create(ctx, object, metav1.CreateOptions{})
	return err
}

// agentOn are clients with the token of the agent's pod on a node.
func (w *world) agentOn(node string) (kubernetes.Interface, dynamic.Interface) {
	t := w.T
	t.Helper()
	p := w.Within(namespace).Get("on-" + node)
	token, err := w.Client.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), "gpu-agent", &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: p.Name, UID: p.UID}},
	}, metav1.CreateOptions{})
	w.Must(err)
	admin := w.RESTConfig()
	config := &rest.Config{Host: admin.Host, BearerToken: token.Status.Token, TLSClientConfig: rest.TLSClientConfig{CAData: admin.CAData}}
	client, err := kubernetes.NewForConfig(config)
	w.Must(err)
	objects, err := dynamic.NewForConfig(config)
	w.Must(err)
	return client, objects
}

func toUnstructured(o *v1alpha1.GPUNode) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{Object: content}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("GPUNode"))
	return object, nil
}
