package operators

import (
	"slices"
	"strings"
	"testing"
)

const manifests = `
apiVersion: v1
kind: Namespace
metadata: {name: sys}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec: {conversion: {strategy: Webhook, webhook: {clientConfig: {service: {name: hook, namespace: sys, path: /convert}}, conversionReviewVersions: [v1]}}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: m}
webhooks:
- {name: a.example.com, clientConfig: {caBundle: Cg==, service: {name: hook, namespace: sys, path: /mutate}}}
`

// TestDefinitions: webhooks of all kinds lead to this machine, each way.
func TestDefinitions(t *testing.T) {
	for name, tt := range map[string]struct {
		way      reach
		has, not []string
		fails    string
	}{
		"by URL":     {byURL, []string{"url: https://127.0.0.1:7/convert", "url: https://127.0.0.1:7/mutate", "caBundle: UEVN", "kind: Namespace"}, []string{"service:", "Cg=="}, ""},
		"by service": {byService, []string{"port: 7", "externalName: localhost", "path: /convert", "name: hook"}, []string{"url:"}, ""},
		"none":       {none, nil, nil, "CustomResourceDefinition things.example.com has webhooks"},
	} {
		t.Run(name, func(t *testing.T) {
			out, paths, err := definitions([]byte(manifests), tt.way, 7, []byte("PEM"))
			if tt.fails != "" {
				if err == nil || !strings.Contains(err.Error(), tt.fails) {
					t.Fatalf("got %v, want %q", err, tt.fails)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(paths, []string{"/mutate"}) {
				t.Errorf("paths %v", paths)
			}
			for _, want := range tt.has {
				if !strings.Contains(string(out), want) {
					t.Errorf("lacks %q:\n%s", want, out)
				}
			}
			for _, bad := range tt.not {
				if strings.Contains(string(out), bad) {
					t.Errorf("has %q:\n%s", bad, out)
				}
			}
			if tt.way == byService && strings.Count(string(out), "kind: Service") != 1 {
				t.Errorf("one Service for both webhooks:\n%s", out)
			}
		})
	}
}

// TestMerge: maps are merged, everything else is replaced.
func TestMerge(t *testing.T) {
	config := managerConfig("v", serving{webhook: 7})
	merge(config, object{"webhook": object{"host": "other"}, "metrics": "off", "new": []any{1}})
	hook := config["webhook"].(object)
	if hook["port"] != 7 || hook["host"] != "other" || config["metrics"] != "off" || config["new"] == nil {
		t.Errorf("got %v", config)
	}
}

// TestRequire: a name that is not in the table, and programs that are not built, are told apart.
func TestRequire(t *testing.T) {
	if err := Require(t.TempDir(), "kuberay", "nosuch"); err == nil || !strings.Contains(err.Error(), `no operator "nosuch"; there are: jobset,`) {
		t.Errorf("got %v", err)
	}
	if err := Require(t.TempDir(), "kuberay"); err == nil || !strings.Contains(err.Error(), "lacks kuberay, kuberay.crds.yaml: run make operators") {
		t.Errorf("got %v", err)
	}
}
