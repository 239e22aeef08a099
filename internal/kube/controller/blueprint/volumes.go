package blueprint

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
)

// claimName is the claim behind the job's i-th volume; "" for a scratch folder.
func claimName(job *batch.Job, i int) string {
	switch v := &job.Spec.Volumes[i]; {
	case v.VolumeClaimName != "":
		return v.VolumeClaimName
	case v.VolumeClaim != nil:
		return fmt.Sprintf("%s-volume-%d", job.Name, i)
	}
	return ""
}

// Claims are the volume claims that the job brings along.
func Claims(job *batch.Job) []Object {
	var out []Object
	for i, v := range job.Spec.Volumes {
		if v.VolumeClaim == nil {
			continue
		}
		out = append(out, Object{Want: &v1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: claimName(job, i), Namespace: job.Namespace, OwnerReferences: []metav1.OwnerReference{Owner(job)}},
			Spec:       *v.VolumeClaim.DeepCopy(),
		}})
	}
	return out
}

// addVolumes mounts the job's volumes in every container.
func addVolumes(job *batch.Job, s *v1.PodSpec) {
	for i, v := range job.Spec.Volumes {
		name := fmt.Sprintf("job-volume-%d", i)
		source := v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}
		if claim := claimName(job, i); claim != "" {
			source = v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}
		}
		addVolume(s, v1.Volume{Name: name, VolumeSource: source}, v.MountPath)
	}
}

// addVolume mounts one volume in every container that has nothing at its path.
func addVolume(s *v1.PodSpec, volume v1.Volume, path string) {
	s.Volumes = append(s.Volumes, volume)
	eachContainer(s, func(c *v1.Container) {
		for _, m := range c.VolumeMounts {
			if m.MountPath == path {
				return
			}
		}
		c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: volume.Name, MountPath: path})
	})
}
