package examples

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

// TestAgentManifests: every document is an object that Kubernetes knows, without unknown
// or repeated fields; volumes and mounts fit together; and the
// observer has no mount that only a device plugin needs.
func TestAgentManifests(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{appsv1.AddToScheme, corev1.AddToScheme, rbacv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	sets := map[string]*appsv1.DaemonSet{}
	for _, text := range Agent() {
		documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
		for {
			document, err := documents.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			object, _, err := decoder.Decode(document, nil, nil)
			if err != nil {
				t.Errorf("%v in\n%s", err, document)
				continue
			}
			if set, ok := object.(*appsv1.DaemonSet); ok {
				sets[set.Name] = set
				checkVolumes(t, set)
			}
		}
	}
	observe, serve := sets["gpu-agent-observe"], sets["gpu-agent-serve"]
	if observe == nil || serve == nil || len(sets) != 2 {
		t.Fatalf("DaemonSets: %d, want gpu-agent-observe and gpu-agent-serve", len(sets))
	}
	for _, v := range observe.Spec.Template.Spec.Volumes {
		if v.Name == "cdi" || v.Name == "device-plugins" {
			t.Errorf("the observer mounts %s, which only a device plugin needs", v.Name)
		}
	}
	if got, not := observe.Spec.Template.Spec.NodeSelector["tangram.dev/gpu-agent"], serve.Spec.Template.Spec.NodeSelector["tangram.dev/gpu-agent"]; got == not {
		t.Errorf("both run on nodes with tangram.dev/gpu-agent=%s", got)
	}
}

// checkVolumes: each volume is mounted, each mount has its volume.
func checkVolumes(t *testing.T, set *appsv1.DaemonSet) {
	t.Helper()
	spec := set.Spec.Template.Spec
	volumes := map[string]bool{}
	for _, v := range spec.Volumes {
		volumes[v.Name] = false
	}
	for _, m := range spec.Containers[0].VolumeMounts {
		if _, ok := volumes[m.Name]; !ok {
			t.Errorf("%s: mount %s has no volume", set.Name, m.Name)
		}
		volumes[m.Name] = true
	}
	for name, mounted := range volumes {
		if !mounted {
			t.Errorf("%s: volume %s is not mounted", set.Name, name)
		}
	}
}
