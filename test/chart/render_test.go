package chart

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write what was rendered to the golden files and the table of values; commit only what you understand")

// TestLint runs helm's own checks over the defaults and every value file.
func TestLint(t *testing.T) {
	t.Parallel()
	args := []string{"lint", "--strict", chartDir}
	if out, err := runHelm(t, "", args...); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	for _, file := range valueFiles(t) {
		if out, err := runHelm(t, "", append(args, "-f", file)...); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
}

// valueFiles are those of the chart's ci folder.
func valueFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(chartDir + "/ci/*.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("value files %v: %v", files, err)
	}
	return files
}

// TestGolden renders the chart with each value file. What comes from config/ is left out:
// a change there is no change of the chart.
func TestGolden(t *testing.T) {
	t.Parallel()
	for _, file := range valueFiles(t) {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := runHelm(t, "", "template", release, chartDir, "--namespace", namespace, "--kube-version", "1.36.0", "-f", file)
			if err != nil {
				t.Fatal(err)
			}
			got := render(t, out)
			golden := filepath.Join("testdata", "golden", name+".yaml")
			if *update {
				if err := os.MkdirAll(filepath.Dir(golden), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(golden, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("not as in %s (go test ./test/chart -run Golden -update):\n%s", golden, diff)
			}
		})
	}
}

// render is helm's output in one form: sorted by kind and name, roles and definitions by
// name alone.
func render(t *testing.T, out string) []byte {
	t.Helper()
	var docs []string
	for _, o := range objects(t, out) {
		switch o["kind"] {
		case "ClusterRole", "Role":
			o["rules"] = "those of config/"
		case "CustomResourceDefinition":
			o["spec"] = "that of config/"
			delete(o["metadata"].(map[string]any)["annotations"].(map[string]any), "controller-gen.kubebuilder.io/version")
		}
		text, err := yaml.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, string(text))
	}
	slices.SortFunc(docs, func(a, b string) int { return strings.Compare(key(t, a), key(t, b)) })
	return []byte(strings.Join(docs, "---\n"))
}

func key(t *testing.T, doc string) string {
	t.Helper()
	var o struct {
		Kind     string
		Metadata struct{ Name string }
	}
	if err := yaml.Unmarshal([]byte(doc), &o); err != nil {
		t.Fatal(err)
	}
	return o.Kind + "/" + o.Metadata.Name
}

// objects are the documents of rendered manifests.
func objects(t *testing.T, text string) []map[string]any {
	t.Helper()
	var all []map[string]any
	for _, doc := range strings.Split("\n"+text, "\n---") {
		o := map[string]any{}
		if err := yaml.Unmarshal([]byte(doc), &o); err != nil {
			t.Fatalf("%v\n%s", err, doc)
		}
		if len(o) > 0 {
			all = append(all, o)
		}
	}
	return all
}

// TestRefused gives the chart invalid values: each is refused by its field.
func TestRefused(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ set, want string }{
		{"scheduler.replicas=0", "/scheduler/replicas"},
		{"scheduler.replicas=two", "/scheduler/replicas"},
		{"agent.mode=both", "/agent/mode"},
		{"agent.driverRoot=run/nvidia", "/agent/driverRoot"},
		{"agent.maxUnavailable=0", "/agent/maxUnavailable"},
		{"image.pullPolicy=Sometimes", "/image/pullPolicy"},
		{"image.registry=", "/image/registry"},
		{"scheduler.image.digest=sha256:12", "/scheduler/image/digest"},
		{"image.tag=a/b", "/image/tag"},
		{"logging.format=xml", "/logging/format"},
		{"logging.verbosity=-1", "/logging/verbosity"},
		{"extender.enabled=true", "/extender/tlsSecret"},
		{"scheduler.profiles={}", "/scheduler/profiles"},
		{"scheduler.defaultScheduler=perhaps", "/scheduler/defaultScheduler"},
		{"scheduler.extraArgs={v=3}", "/scheduler/extraArgs/0"},
		{"scheduler.config.kind=Deployment", "/scheduler/config"},
		{"scheduler.repliccas=3", "repliccas"},
		{"schedular.replicas=3", "schedular"},
		{"networkPolicy.apiServerPorts={70000}", "/networkPolicy/apiServerPorts/0"},
		{"priorityClasses[0].name=x", "/priorityClasses/0"},
		{"quotas[0].namespace=ml", "/quotas/0"},
		{"monitoring.readers[0].kind=Robot", "/monitoring/readers/0/kind"},
		{"scheduler.prices.perGPUHour.A100=-1", "/scheduler/prices"},
		{"tenants.enforce=maybe", "/tenants/enforce"},
	} {
		t.Run(test.set, func(t *testing.T) {
			t.Parallel()
			_, err := runHelm(t, "", "template", release, chartDir, "--set", test.set)
			if err == nil {
				t.Fatal("it is accepted")
			}
			if !strings.Contains(err.Error(), test.want) {
				t.Errorf("the refusal does not name %s: %v", test.want, err)
			}
		})
	}
}

// TestDefaultScheduler: where it is asked for, and only there, the scheduler has the profile
// default-scheduler, and tenants' GPU pods may name no scheduler.
func TestDefaultScheduler(t *testing.T) {
	t.Parallel()
	for _, on := range []bool{false, true} {
		text, err := runHelm(t, "", "template", release, chartDir, "--set", fmt.Sprintf("scheduler.defaultScheduler=%t,tenants.enforce=true", on))
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, o := range objects(t, text) {
			spec := fmt.Sprint(o["spec"])
			switch metadata, _ := o["metadata"].(map[string]any); {
			case o["kind"] == "ConfigMap" && metadata["name"] == "gpu-scheduler":
				found++
				settings, _ := o["data"].(map[string]any)["config.yaml"].(string)
				var c struct {
					Profiles []struct{ SchedulerName string }
				}
				if err := yaml.Unmarshal([]byte(settings), &c); err != nil {
					t.Fatal(err)
				}
				if got := slices.ContainsFunc(c.Profiles, func(p struct{ SchedulerName string }) bool { return p.SchedulerName == "default-scheduler" }); got != on {
					t.Errorf("defaultScheduler %t: profiles %v", on, c.Profiles)
				}
			case metadata["name"] == "tangram-tenants-pods" && o["kind"] == "ValidatingAdmissionPolicy":
				found++
				if got := strings.Contains(spec, "in ['default-scheduler', 'gpu-scheduler',"); got != on {
					t.Errorf("defaultScheduler %t: GPU pods may name default-scheduler: %t", on, got)
				}
			}
		}
		if found != 2 {
			t.Errorf("%d of configuration and policy", found)
		}
	}
}

// TestTooOld: on a version of Kubernetes that lacks what the scheduler watches, it would wait
// for ever. Helm says so instead.
func TestTooOld(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]bool{"1.33.9": false, oldest + ".0": true, "1.34.4-gke.100": true, "1.36.3": true} {
		_, err := runHelm(t, "", "template", release, chartDir, "--kube-version", version)
		if (err == nil) != want || err != nil && !strings.Contains(err.Error(), "requires kubeVersion") {
			t.Errorf("Kubernetes %s: %v, want accepted=%t", version, err, want)
		}
	}
}

// TestKAITooOld: KAI's fractions need a policy that older versions of Kubernetes do not serve.
// Helm says so by the value; without it nothing of the policy is rendered.
func TestKAITooOld(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]bool{"1.35.9": false, "1.36.0": true} {
		out, err := runHelm(t, "", "template", release, chartDir, "--kube-version", version, "--set", "kai.fractions=true")
		if (err == nil) != want || err != nil && !strings.Contains(err.Error(), "kai.fractions: needs Kubernetes 1.36") {
			t.Errorf("Kubernetes %s: %v, want accepted=%t", version, err, want)
		}
		if has := strings.Contains(out, "MutatingAdmissionPolicyBinding"); has != want {
			t.Errorf("Kubernetes %s: policy rendered %t", version, has)
		}
	}
	if out, err := runHelm(t, "", "template", release, chartDir, "--kube-version", "1.36.0"); err != nil || strings.Contains(out, "MutatingAdmission") {
		t.Errorf("by default: %v, policy rendered %t", err, err == nil)
	}
}

// TestOneSource compares the chart's copies with config/: hack/chart.sh makes them.
func TestOneSource(t *testing.T) {
	t.Parallel()
	copies := map[string]string{"scheduler.yaml": "scheduler.yaml", "autoscaling.yaml": "autoscaling.yaml", "deviceclasses.yaml": "deviceclasses.yaml", "kai.yaml": "admission/kai.yaml", "rbac/scheduler.yaml": "rbac.yaml"}
	for _, name := range []string{"controller", "agent", "agent-dra", "extender"} {
		copies["rbac/"+name+".yaml"] = name + "-rbac.yaml"
	}
	for _, dir := range []string{"crd", "crd/volcano"} {
		files, err := filepath.Glob(root + "/config/" + dir + "/*.yaml")
		if err != nil || len(files) == 0 {
			t.Fatalf("%v: %v", files, err)
		}
		for _, file := range files {
			copies[dir+"/"+filepath.Base(file)] = dir + "/" + filepath.Base(file)
		}
	}
	for in, from := range copies {
		want, err := os.ReadFile(filepath.Join(root, "config", from))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(chartDir, "files", in)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("charts/gpu-scheduler/files/%s is not config/%s: run hack/chart.sh . (%v)", in, from, err)
		}
	}
	err := filepath.WalkDir(chartDir+"/files", func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name := strings.TrimPrefix(filepath.ToSlash(path), chartDir+"/files/")
		if copies[name] == "" && !strings.HasPrefix(name, "monitoring/") && !strings.HasPrefix(name, "tenants/") {
			t.Errorf("charts/gpu-scheduler/files/%s has no source", name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestRolesAreTheirSources compares every rule that is rendered with config/: a template
// that changed one would be a second source.
func TestRolesAreTheirSources(t *testing.T) {
	t.Parallel()
	out, err := runHelm(t, "", "template", release, chartDir, "--namespace", namespace, "--set", "extender.enabled=true,extender.tlsSecret=x,agent.dra.enabled=true")
	if err != nil {
		t.Fatal(err)
	}
	rules := func(text string) map[string]any {
		all := map[string]any{}
		for _, o := range objects(t, text) {
			if kind := o["kind"].(string); strings.HasSuffix(kind, "Role") {
				all[kind+" "+o["metadata"].(map[string]any)["name"].(string)] = o["rules"]
			}
		}
		return all
	}
	var sources strings.Builder
	for _, name := range []string{"rbac.yaml", "controller-rbac.yaml", "agent-rbac.yaml", "agent-dra-rbac.yaml", "extender-rbac.yaml"} {
		data, err := os.ReadFile(filepath.Join(root, "config", name))
		if err != nil {
			t.Fatal(err)
		}
		sources.WriteString("\n---\n" + string(data))
	}
	if diff := cmp.Diff(rules(sources.String()), rules(out)); diff != "" {
		t.Errorf("roles of config/ (-) and of the chart (+):\n%s", diff)
	}
}

// TestSecurity holds every container to what the guide promises.
func TestSecurity(t *testing.T) {
	t.Parallel()
	out, err := runHelm(t, "", "template", release, chartDir, "--namespace", namespace, "--set", "extender.enabled=true,extender.tlsSecret=x,agent.mode=serve,agent.dra.enabled=true")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, o := range objects(t, out) {
		name := o["metadata"].(map[string]any)["name"].(string)
		var pod map[string]any
		switch o["kind"] {
		case "Deployment", "DaemonSet":
			pod = dig(o, "spec", "template", "spec")
		case "Pod":
			pod = dig(o, "spec")
		default:
			continue
		}
		seen[name] = true
		container := pod["containers"].([]any)[0].(map[string]any)
		security := dig(container, "securityContext")
		if security["readOnlyRootFilesystem"] != true {
			t.Errorf("%s can write to its root file system", name)
		}
		if name == "gpu-agent" {
			if security["privileged"] != true {
				t.Error("the agent is not privileged: it cannot open the driver's devices")
			}
			continue
		}
		if diff := cmp.Diff(map[string]any{
			"runAsNonRoot": true, "runAsUser": 65532.0, "runAsGroup": 65532.0, "seccompProfile": map[string]any{"type": "RuntimeDefault"},
		}, pod["securityContext"]); diff != "" {
			t.Errorf("%s: security of the pod:\n%s", name, diff)
		}
		if diff := cmp.Diff(map[string]any{
			"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": map[string]any{"drop": []any{"ALL"}},
		}, security); diff != "" {
			t.Errorf("%s: security of the container:\n%s", name, diff)
		}
		for _, field := range []string{"hostNetwork", "hostPID", "hostIPC"} {
			if pod[field] == true {
				t.Errorf("%s has %s", name, field)
			}
		}
	}
	for _, name := range []string{"gpu-scheduler", "gpu-controller", "gpu-agent", "gpu-extender", "first-gpu-pod"} {
		if !seen[name] {
			t.Errorf("%s is not rendered", name)
		}
	}
}

func dig(o map[string]any, path ...string) map[string]any {
	for _, name := range path {
		o, _ = o[name].(map[string]any)
	}
	return o
}
