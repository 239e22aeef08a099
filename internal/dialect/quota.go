package dialect

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/arbiter"
)

// maxQuota keeps sums far from overflow.
const maxQuota = 1 << 40

// nativeResources are Kubernetes' own that are counted.
var nativeResources = []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage, v1.ResourcePods}

// QuotaOf reads how much of the cluster's GPUs a namespace may use at once:
//
//	tangram.dev/quota: nvidia.com/gpu=16, gpu.tangram.dev/h100=8, huawei.com/Ascend310P=4
//
// It is a limit in addition to the cluster's ResourceQuota objects: those reject pods
// at creation, this one makes them wait. nil without the annotation.
func QuotaOf(ns *v1.Namespace) (map[arbiter.Resource]int64, error) {
	text, ok := ns.Annotations[names.AnnotationQuota]
	if !ok {
		return nil, nil
	}
	fail := func(format string, args ...any) error {
		return fmt.Errorf("%s: %s", annotation(names.AnnotationQuota), fmt.Sprintf(format, args...))
	}
	out := map[arbiter.Resource]int64{}
	for _, word := range split(text, ",") {
		name, amount, ok := strings.Cut(word, "=")
		if !ok {
			return nil, fail("%q is not written resource=amount", word)
		}
		q, err := ParseQuantity(strings.TrimSpace(amount))
		if err != nil || q.Sign() < 0 || q.Value() > maxQuota {
			return nil, fail("%q is not an amount", amount)
		}
		name = strings.TrimSpace(name)
		if problem := validation.IsQualifiedName(name); len(problem) > 0 {
			return nil, fail("%q is not the name of a resource: %s", name, problem[0])
		}
		if !strings.Contains(name, "/") && !slices.Contains(nativeResources, v1.ResourceName(name)) && !strings.HasPrefix(name, v1.ResourceHugePagesPrefix) {
			return nil, fail("%q is not cpu, memory, an extended resource or gpu.%s/MODEL", name, names.Group)
		}
		countAmount(out, name, q)
	}
	if len(out) == 0 {
		return nil, fail("%q names no resource", text)
	}
	return out, nil
}
