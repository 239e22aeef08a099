package blueprint

import (
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/pem"
	"maps"
	"math/big"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	"github.com/tangram-dev/tangram/internal/kube/controller/lifecycle"
)

func gpuTask(name string, replicas int32, gpus string) batch.TaskSpec {
	return batch.TaskSpec{Name: name, Replicas: replicas, Template: v1.PodTemplateSpec{Spec: v1.PodSpec{Containers: []v1.Container{{
		Name: "main", Resources: v1.ResourceRequirements{Limits: v1.ResourceList{"nvidia.com/gpu": resource.MustParse(gpus)}},
	}}}}}
}

func newJob(tasks ...batch.TaskSpec) *batch.Job {
	return &batch.Job{ObjectMeta: metav1.ObjectMeta{Name: "j", Namespace: "ns", UID: "u"}, Spec: batch.JobSpec{Tasks: tasks}}
}

func TestPod(t *testing.T) {
	j := newJob(gpuTask("w", 2, "1"))
	j.Annotations = map[string]string{"volcano.sh/preemptable": "true", "tangram.dev/topology": "required=rack", "other": "x"}
	j.Spec.Volumes = []batch.VolumeSpec{{MountPath: "/data", VolumeClaimName: "mine"}, {MountPath: "/scratch"}, {MountPath: "/out", VolumeClaim: &v1.PersistentVolumeClaimSpec{}}}
	j.Spec.Tasks[0].Template.Annotations = map[string]string{"tangram.dev/topology": "preferred=nvlink"}
	j.Status.Version = 4
	spec := lifecycle.SpecOf(j)
	p := Pod(j, &spec, lifecycle.Slot{Task: "w", Index: 1}, nil)
	if p.Name != "j-w-1" || p.Spec.SchedulerName != "volcano" || p.Spec.RestartPolicy != v1.RestartPolicyOnFailure {
		t.Errorf("%s %s %s", p.Name, p.Spec.SchedulerName, p.Spec.RestartPolicy)
	}
	for key, want := range map[string]string{
		"volcano.sh/preemptable": "true", "tangram.dev/topology": "preferred=nvlink", "other": "", "volcano.sh/job-version": "4",
		"scheduling.k8s.io/group-name": "j-u",
	} {
		if p.Annotations[key] != want {
			t.Errorf("annotation %s is %q, want %q", key, p.Annotations[key], want)
		}
	}
	got := lifecycle.PodOf(p)
	if got.Slot != (lifecycle.Slot{Task: "w", Index: 1}) || got.Version != 4 {
		t.Errorf("read back as %+v", got)
	}
	var mounts []string
	for _, m := range p.Spec.Containers[0].VolumeMounts {
		mounts = append(mounts, m.MountPath)
	}
	if strings.Join(mounts, " ") != "/data /scratch /out" || p.Spec.Volumes[0].PersistentVolumeClaim.ClaimName != "mine" || p.Spec.Volumes[1].EmptyDir == nil {
		t.Errorf("mounts %v, volumes %+v", mounts, p.Spec.Volumes)
	}
	claims := Claims(j)
	if len(claims) != 1 || claims[0].Want.GetName() != "j-volume-2" || p.Spec.Volumes[2].PersistentVolumeClaim.ClaimName != "j-volume-2" {
		t.Errorf("claims %+v", claims)
	}
	if len(j.Spec.Tasks[0].Template.Labels) != 0 || len(j.Spec.Tasks[0].Template.Spec.Volumes) != 0 {
		t.Error("the job's template was changed")
	}
}

func TestPodGroup(t *testing.T) {
	one := int32(1)
	master, worker := gpuTask("master", 1, "1"), gpuTask("worker", 4, "8")
	master.MinAvailable = &one
	j := newJob(worker, master)
	j.Spec.MinAvailable = 3
	spec := lifecycle.SpecOf(j)
	g := PodGroup(j, &spec, map[string]bool{"master": true, "worker": true})
	// The master's own minimum first, then two of the workers.
	if gpus := (*g.Spec.MinResources)["nvidia.com/gpu"]; g.Spec.MinMember != 3 || gpus.Value() != 17 || g.Spec.MinTaskMember["master"] != 1 || len(g.Spec.MinTaskMember) != 1 {
		t.Errorf("%+v, %s GPUs", g.Spec, gpus.String())
	}
	g = PodGroup(j, &spec, map[string]bool{"master": true})
	if gpus := (*g.Spec.MinResources)["nvidia.com/gpu"]; g.Spec.MinMember != 1 || gpus.Value() != 1 {
		t.Errorf("while the workers wait: %+v", g.Spec)
	}
}

func TestPluginErrors(t *testing.T) {
	long := gpuTask(strings.Repeat("w", 63), 1, "1")
	for _, test := range []struct {
		name    string
		job     *batch.Job
		plugins map[string][]string
		want    string
	}{
		{"unknown", newJob(gpuTask("w", 1, "1")), map[string][]string{"mpi": nil}, "spec.plugins.mpi: unknown plugin; known are env, pytorch, ssh, svc"},
		{"bad flag", newJob(gpuTask("w", 1, "1")), map[string][]string{"env": {"--x=1"}}, "spec.plugins.env: flag provided but not defined: -x"},
		{"no master", newJob(gpuTask("w", 1, "1")), map[string][]string{"pytorch": nil}, "spec.plugins.pytorch: --master=master: the job has no such task"},
		{"bad port", newJob(gpuTask("master", 1, "1")), map[string][]string{"pytorch": {"--port=0"}}, "spec.plugins.pytorch: --port=0 is not a port"},
		{"no such worker", newJob(gpuTask("master", 1, "1")), map[string][]string{"pytorch": {"--worker=slave"}}, "spec.plugins.pytorch: --worker=slave: the job has no such task"},
		{"master alone", newJob(gpuTask("master", 1, "1")), map[string][]string{"pytorch": nil}, ""},
		{"no patience", newJob(gpuTask("master", 1, "1")), map[string][]string{"pytorch": {"--wait-master-timeout=0"}}, "spec.plugins.pytorch: --wait-master-timeout=0"},
		{"not a flag", newJob(gpuTask("w", 1, "1")), map[string][]string{"svc": {"oops", "--nope"}}, `spec.plugins.svc: "oops" is not a flag`},
		{"relative folder", newJob(gpuTask("w", 1, "1")), map[string][]string{"ssh": {"--ssh-key-file-path=.ssh"}}, "spec.plugins.ssh: --ssh-key-file-path=.ssh is not an absolute path"},
		{"half a key", newJob(gpuTask("w", 1, "1")), map[string][]string{"ssh": {"--ssh-private-key=x"}}, "spec.plugins.ssh: --ssh-private-key and --ssh-public-key: both or none"},
		{"long names", newJob(long), map[string][]string{"svc": nil}, "spec.plugins.svc: host name j-"},
		{"dashes as in tutorials", newJob(gpuTask("w", 1, "1")), map[string][]string{"svc": {"--"}, "env": {"--"}}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.job.Spec.Plugins = test.plugins
			spec := lifecycle.SpecOf(test.job)
			_, err := Plugins(test.job, &spec)
			if test.want == "" && err == nil {
				return
			}
			if err == nil || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}

func TestPyTorchRanks(t *testing.T) {
	j := newJob(gpuTask("master", 1, "1"), gpuTask("worker", 3, "1"), gpuTask("board", 1, "1"))
	j.Spec.Plugins = map[string][]string{"pytorch": nil}
	spec := lifecycle.SpecOf(j)
	plugins, err := Plugins(j, &spec)
	if err != nil || len(plugins) != 2 { // svc comes with it
		t.Fatal(plugins, err)
	}
	for slot, want := range map[lifecycle.Slot]string{{Task: "master", Index: 0}: "0", {Task: "worker", Index: 0}: "1", {Task: "worker", Index: 2}: "3", {Task: "board", Index: 0}: ""} {
		got := map[string]string{}
		for _, e := range Pod(j, &spec, slot, plugins).Spec.Containers[0].Env {
			got[e.Name] = e.Value
		}
		if got["RANK"] != want || want != "" && (got["WORLD_SIZE"] != "4" || got["MASTER_ADDR"] != "j-master-0.j" || got["MASTER_PORT"] != "23456") {
			t.Errorf("%v: %v", slot, got)
		}
	}
}

// TestPyTorchWaits: workers wait for the master when asked to, the master does not,
// and a pod without containers, which the API server refuses, breaks nothing.
func TestPyTorchWaits(t *testing.T) {
	j := newJob(gpuTask("master", 1, "1"), gpuTask("worker", 1, "1"))
	j.Spec.Tasks[1].Template.Spec.InitContainers = []v1.Container{{Name: "mine"}}
	j.Spec.Plugins = map[string][]string{"pytorch": {"--wait-master-enabled=true", "--wait-master-timeout=60"}}
	spec := lifecycle.SpecOf(j)
	plugins, err := Plugins(j, &spec)
	if err != nil {
		t.Fatal(err)
	}
	if first := Pod(j, &spec, lifecycle.Slot{Task: "master"}, plugins).Spec.InitContainers; len(first) != 0 {
		t.Errorf("the master waits: %+v", first)
	}
	first := Pod(j, &spec, lifecycle.Slot{Task: "worker"}, plugins).Spec.InitContainers
	if len(first) != 2 || first[0].Name != "wait-for-master" || first[0].Command[3] != "60" || first[0].Env[0].Value != "j-master-0.j" || first[1].Name != "mine" {
		t.Errorf("%+v", first)
	}
	j.Spec.Tasks[0].Template.Spec.Containers = nil
	Pod(j, &spec, lifecycle.Slot{Task: "master"}, plugins)
}

func TestEnvKeepsWhatIsSet(t *testing.T) {
	task := gpuTask("w", 1, "1")
	task.Template.Spec.Containers[0].Env = []v1.EnvVar{{Name: "VC_TASK_INDEX", Value: "mine"}}
	j := newJob(task)
	j.Spec.Plugins = map[string][]string{"env": nil}
	spec := lifecycle.SpecOf(j)
	plugins, err := Plugins(j, &spec)
	if err != nil {
		t.Fatal(err)
	}
	env := Pod(j, &spec, lifecycle.Slot{Task: "w"}, plugins).Spec.Containers[0].Env
	if len(env) != 2 || env[0].Value != "mine" {
		t.Errorf("%v", env)
	}
}

// TestSSHKey checks the two halves against each other, the public one read as RFC
// 4253 says.
func TestSSHKey(t *testing.T) {
	private, public, err := newKeyPair()
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(private)
	key, err := x509.ParsePKCS1PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(public))
	wire, err := base64.StdEncoding.DecodeString(fields[1])
	if err != nil || fields[0] != "ssh-rsa" {
		t.Fatal(fields[0], err)
	}
	var parts [][]byte
	for len(wire) > 0 {
		n := binary.BigEndian.Uint32(wire)
		parts = append(parts, wire[4:4+n])
		wire = wire[4+n:]
	}
	got := rsa.PublicKey{E: int(new(big.Int).SetBytes(parts[1]).Int64()), N: new(big.Int).SetBytes(parts[2])}
	if string(parts[0]) != "ssh-rsa" || !got.Equal(&key.PublicKey) || parts[2][0]&0x80 != 0 {
		t.Error("the halves do not match")
	}
}

// TestNetworkPolicy: the svc plugin lets only the job's pods in, unless it is told
// not to.
func TestNetworkPolicy(t *testing.T) {
	policies := func(args ...string) (n int) {
		t.Helper()
		job := newJob(gpuTask("w", 1, "1"))
		job.Spec.Plugins = map[string][]string{"svc": args}
		spec := lifecycle.SpecOf(job)
		plugins, err := Plugins(job, &spec)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range plugins {
			for _, o := range p.Objects() {
				if policy, ok := o.Want.(*networking.NetworkPolicy); ok {
					n++
					from := policy.Spec.Ingress[0].From[0].PodSelector
					if !maps.Equal(policy.Spec.PodSelector.MatchLabels, from.MatchLabels) || from.MatchLabels["volcano.sh/job-name"] != job.Name || len(policy.Spec.PolicyTypes) != 1 {
						t.Errorf("got %+v", policy.Spec)
					}
				}
			}
		}
		return n
	}
	if policies() != 1 || policies("--disable-network-policy=false") != 1 || policies("--disable-network-policy=true") != 0 {
		t.Errorf("%d policies, %d when told not to", policies(), policies("--disable-network-policy=true"))
	}
}
