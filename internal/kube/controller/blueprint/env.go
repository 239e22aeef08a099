package blueprint

import (
	"strconv"

	v1 "k8s.io/api/core/v1"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	"github.com/tangram-dev/tangram/internal/kube/controller/lifecycle"
)

// env sets the index of the pod in its task in every container's environment.
type env struct{}

func newEnv(_ *batch.Job, _ *lifecycle.Spec, args []string) (Plugin, error) {
	return env{}, parse(flags(), args)
}

func (env) Objects() []Object { return nil }

func (env) Change(pod *v1.Pod, slot lifecycle.Slot) {
	index := strconv.Itoa(int(slot.Index))
	addEnv(&pod.Spec, v1.EnvVar{Name: "VK_TASK_INDEX", Value: index}, v1.EnvVar{Name: "VC_TASK_INDEX", Value: index})
}
