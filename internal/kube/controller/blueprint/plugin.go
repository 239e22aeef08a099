package blueprint

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	"github.com/tangram-dev/tangram/internal/kube/controller/lifecycle"
)

// Plugin is one entry of spec.plugins: it adds objects to the job and modifies its pods
// before they are created.
type Plugin interface {
	// Objects are what the job needs besides its pods. They must exist before the first
	// pod is created.
	Objects() []Object
	// Change modifies the pod of a slot.
	Change(pod *v1.Pod, slot lifecycle.Slot)
}

// Object is one object that a job needs: a Service, NetworkPolicy, ConfigMap, Secret or
// PersistentVolumeClaim. An existing one gets the data of Want; its other fields stay.
type Object struct {
	Want metav1.Object
	// Once, if not nil, completes Want when it is created (a generated key); it is not
	// called for an existing object.
	Once func() error
}

// maker reads a plugin's arguments.
type maker func(job *batch.Job, spec *lifecycle.Spec, args []string) (Plugin, error)

var makers = map[string]maker{"env": newEnv, "pytorch": newPyTorch, "ssh": newSSH, "svc": newSvc}

// PluginNames are the plugins that jobs may name, sorted.
func PluginNames() []string { return slices.Sorted(maps.Keys(makers)) }

// Plugins are the job's, in the order of their names. An error names the entry that
// is wrong.
func Plugins(job *batch.Job, spec *lifecycle.Spec) ([]Plugin, error) {
	asked := maps.Clone(job.Spec.Plugins)
	if _, ok := asked["pytorch"]; ok && asked["svc"] == nil {
		asked["svc"] = nil // workers find their master by the name svc gives it
	}
	var out []Plugin
	for _, name := range slices.Sorted(maps.Keys(asked)) {
		create, ok := makers[name]
		if !ok {
			return nil, fmt.Errorf("spec.plugins.%s: unknown plugin; known are %s", name, strings.Join(PluginNames(), ", "))
		}
		p, err := create(job, spec, asked[name])
		if err != nil {
			return nil, fmt.Errorf("spec.plugins.%s: %w", name, err)
		}
		out = append(out, p)
	}
	return out, nil
}

// flags is an empty set of arguments that does not print.
func flags() *flag.FlagSet {
	f := flag.NewFlagSet("", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	return f
}

// parse reads arguments into the set. An argument that is not a flag is an error:
// package flag would stop there and ignore all that follow.
func parse(f *flag.FlagSet, args []string) error {
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("%q is not a flag", f.Arg(0))
	}
	return nil
}

func meta(job *batch.Job, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: name, Namespace: job.Namespace,
		Labels:          map[string]string{batch.JobNameKey: job.Name},
		OwnerReferences: []metav1.OwnerReference{Owner(job)},
	}
}

// hostname is the name a pod goes by on its subdomain.
func hostname(job *batch.Job, t *lifecycle.Task, index int32) string {
	return cmp.Or(t.Template.Spec.Hostname, strings.ReplaceAll(lifecycle.Slot{Task: t.Name, Index: index}.PodName(job.Name), ".", "-"))
}

// domain is the name by which other pods of the job reach a pod.
func domain(job *batch.Job, t *lifecycle.Task, index int32) string {
	return hostname(job, t, index) + "." + cmp.Or(t.Template.Spec.Subdomain, job.Name)
}

func domains(job *batch.Job, t *lifecycle.Task) []string {
	var out []string
	for i := range t.Replicas {
		out = append(out, domain(job, t, i))
	}
	return out
}
