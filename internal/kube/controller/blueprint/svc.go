package blueprint

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	"github.com/tangram-dev/tangram/internal/kube/controller/lifecycle"
)

// hostsFolder is where containers find the names of all pods of the job, one file
// per task.
const hostsFolder = "/etc/volcano"

// svc gives every pod a name that the others can reach: a headless Service, host
// names, a ConfigMap that lists them, and a NetworkPolicy that lets no other pod in.
type svc struct {
	job     *batch.Job
	spec    *lifecycle.Spec
	publish bool
	open    bool // no NetworkPolicy is made
}

func newSvc(job *batch.Job, spec *lifecycle.Spec, args []string) (Plugin, error) {
	p := &svc{job: job, spec: spec}
	f := flags()
	f.BoolVar(&p.publish, "publish-not-ready-addresses", false, "names resolve before their pods are ready")
	f.BoolVar(&p.open, "disable-network-policy", false, "no NetworkPolicy is made")
	if err := parse(f, args); err != nil {
		return nil, err
	}
	if msgs := validation.IsDNS1035Label(job.Name); len(msgs) > 0 {
		return nil, errors.New("metadata.name is not the name of a Service: " + strings.Join(msgs, "; "))
	}
	for i := range spec.Tasks {
		t := &spec.Tasks[i]
		if h := hostname(job, t, max(0, t.Replicas-1)); len(h) > validation.DNS1123LabelMaxLength {
			return nil, fmt.Errorf("host name %s is longer than %d characters: shorten metadata.name or spec.tasks[%d].name", h, validation.DNS1123LabelMaxLength, i)
		}
	}
	return p, nil
}

func (p *svc) mapName() string { return p.job.Name + "-svc" }

func (p *svc) Objects() []Object {
	service := &v1.Service{
		ObjectMeta: meta(p.job, p.job.Name),
		Spec: v1.ServiceSpec{
			ClusterIP: v1.ClusterIPNone, PublishNotReadyAddresses: p.publish,
			Selector: map[string]string{batch.JobNameKey: p.job.Name, batch.JobNamespaceKey: p.job.Namespace},
			// Some DNS servers list nothing for a service without ports.
			Ports: []v1.ServicePort{{Name: "placeholder-volcano", Port: 1, Protocol: v1.ProtocolTCP}},
		},
	}
	hosts := &v1.ConfigMap{ObjectMeta: meta(p.job, p.mapName()), Data: map[string]string{}}
	for i := range p.spec.Tasks {
		t := &p.spec.Tasks[i]
		list := domains(p.job, t)
		hosts.Data[t.Name+".host"] = strings.Join(list, "\n")
		hosts.Data[hostsVar(t.Name)] = strings.Join(list, ",")
		hosts.Data[numVar(t.Name)] = strconv.Itoa(len(list))
	}
	out := []Object{{Want: service}, {Want: hosts}}
	if !p.open {
		out = append(out, Object{Want: p.networkPolicy()})
	}
	return out
}

// networkPolicy lets the job's pods be reached by each other alone, as in Volcano. What
// they reach themselves is not restricted.
func (p *svc) networkPolicy() *networking.NetworkPolicy {
	pods := metav1.LabelSelector{MatchLabels: map[string]string{batch.JobNameKey: p.job.Name, batch.JobNamespaceKey: p.job.Namespace}}
	return &networking.NetworkPolicy{
		ObjectMeta: meta(p.job, p.job.Name),
		Spec: networking.NetworkPolicySpec{
			PodSelector: pods, PolicyTypes: []networking.PolicyType{networking.PolicyTypeIngress},
			Ingress: []networking.NetworkPolicyIngressRule{{From: []networking.NetworkPolicyPeer{{PodSelector: &pods}}}},
		},
	}
}

func (p *svc) Change(pod *v1.Pod, slot lifecycle.Slot) {
	t := p.spec.Task(slot.Task)
	pod.Spec.Hostname = hostname(p.job, t, slot.Index)
	pod.Spec.Subdomain = cmp.Or(pod.Spec.Subdomain, p.job.Name)
	// Read from the ConfigMap, so that pods created after the job was scaled up know the
	// others.
	var vars []v1.EnvVar
	for _, t := range p.spec.Tasks {
		for _, name := range []string{hostsVar(t.Name), numVar(t.Name)} {
			vars = append(vars, v1.EnvVar{Name: name, ValueFrom: &v1.EnvVarSource{ConfigMapKeyRef: &v1.ConfigMapKeySelector{
				LocalObjectReference: v1.LocalObjectReference{Name: p.mapName()}, Key: name,
			}}})
		}
	}
	addEnv(&pod.Spec, vars...)
	addVolume(&pod.Spec, v1.Volume{Name: p.mapName(), VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{
		LocalObjectReference: v1.LocalObjectReference{Name: p.mapName()},
	}}}, hostsFolder)
}

func hostsVar(task string) string { return fmt.Sprintf("VC_%s_HOSTS", variable(task)) }
func numVar(task string) string   { return fmt.Sprintf("VC_%s_NUM", variable(task)) }

// variable is a task's name as part of a variable's.
func variable(task string) string { return strings.ReplaceAll(strings.ToUpper(task), "-", "_") }
