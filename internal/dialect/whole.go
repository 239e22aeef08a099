package dialect

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/model"
)

// nvidiaGPU counts NVIDIA's GPUs, whole unless HAMi's words stand beside it.
const nvidiaGPU v1.ResourceName = names.ResourceNVIDIA

// whole are the extended resources of whole GPUs.
var whole = []struct {
	resource v1.ResourceName
	vendor   model.Vendor
}{
	{nvidiaGPU, model.NVIDIA},
	{names.ResourceAMD, model.AMD},
	{names.ResourceIntel, model.Intel},
}

// WholeResource is the extended resource that sells a request's devices whole; of
// vendors with a resource for every product, the one the request names.
func WholeResource(r *model.Request) v1.ResourceName {
	for _, w := range whole {
		if w.vendor == r.Vendor {
			return w.resource
		}
	}
	for _, c := range r.Containers {
		if c.Count > 0 {
			return v1.ResourceName(c.Resource)
		}
	}
	return ""
}

// wholeGPUs is the vocabulary of whole GPUs: one extended resource per vendor, and
// the minimum memory of NVIDIA's.
var wholeGPUs = vocabulary{
	read: func(_ *v1.Pod, c *v1.Container, path string) (*ask, error) {
		shared := usesHAMi(&words{c: c, path: path}) // then nvidia.com/gpu is HAMi's word
		if q, field, ok := amount(c, path, names.ResourceGPUMemory); shared && ok && !q.IsZero() {
			return nil, fmt.Errorf("%s: memory of whole GPUs, beside shares of GPUs", field)
		}
		n, vendor, field, err := wholeOf(c, path, shared)
		if err != nil {
			return nil, err
		}
		memory, err := memoryOf(c, path, n, vendor)
		if err != nil || n == 0 {
			return nil, err
		}
		return &ask{vendor: vendor, resource: resourceOf(vendor), count: n, minMemory: memory, field: field}, nil
	},
}

// resourceOf is the extended resource that sells a vendor's whole GPUs.
func resourceOf(v model.Vendor) v1.ResourceName {
	for _, w := range whole {
		if w.vendor == v {
			return w.resource
		}
	}
	return ""
}

// amount reads a container's request for an extended resource. The API server
// copies limits to requests; pods that did not pass it may have limits only.
// The field is for messages; what is absent has none.
func amount(c *v1.Container, path string, r v1.ResourceName) (q resource.Quantity, field string, ok bool) {
	if q, ok = c.Resources.Requests[r]; ok {
		return q, path + ".resources.requests[" + string(r) + "]", true
	}
	if q, ok = c.Resources.Limits[r]; ok {
		return q, path + ".resources.limits[" + string(r) + "]", true
	}
	return q, "", false
}

// count reads a whole number of devices. The API server already rejects fractions of
// extended resources; this check is for pods that did not pass it.
func count(q resource.Quantity, field string) (int, error) {
	n, exact := q.AsInt64()
	if !exact {
		return 0, fmt.Errorf("%s: %s is not a whole number of GPUs", field, q.String())
	}
	if n < 0 || n > model.MaxDevices {
		return 0, fmt.Errorf("%s: %s GPUs in one container, must be 0 to %d", field, q.String(), model.MaxDevices)
	}
	return int(n), nil
}

// wholeOf reads a container's whole GPUs: how many, of which vendor, requested by which
// field. Two vendors in one container are rejected. NVIDIA's are left out when they are
// shared.
func wholeOf(c *v1.Container, path string, shared bool) (n int, vendor model.Vendor, field string, err error) {
	for _, w := range whole {
		q, f, ok := amount(c, path, w.resource)
		if !ok || q.IsZero() || shared && w.vendor == model.NVIDIA {
			continue
		}
		if vendor != "" {
			return 0, "", "", fmt.Errorf("%s: GPUs of two vendors in one pod, the other is %s", f, field)
		}
		if n, err = count(q, f); err != nil {
			return 0, "", "", err
		}
		vendor, field = w.vendor, f
	}
	return n, vendor, field, nil
}

// leastMemory is the smallest amount of GPU memory that is not a typing error.
const leastMemory = 1 << 20

// memoryOf reads nvidia.com/gpu-memory: the memory of all the container's GPUs
// together, as seed 003 counts it (4 GPUs with 128Gi are GPUs of 32Gi). It
// returns what each GPU must have at least.
func memoryOf(c *v1.Container, path string, gpus int, vendor model.Vendor) (model.MiB, error) {
	q, field, ok := amount(c, path, names.ResourceGPUMemory)
	if !ok || q.IsZero() {
		return 0, nil
	}
	if gpus == 0 || vendor != model.NVIDIA {
		return 0, fmt.Errorf("%s: the container asks for no %s", field, names.ResourceNVIDIA)
	}
	bytes, exact := q.AsInt64()
	if !exact || bytes < leastMemory {
		return 0, fmt.Errorf("%s: %s is not an amount of memory, write for example 32Gi", field, q.String())
	}
	each := (bytes + int64(gpus) - 1) / int64(gpus)
	return model.MiB((each + 1<<20 - 1) >> 20), nil
}

// IsWholeResource says whether an extended resource sells whole GPUs.
func IsWholeResource(name v1.ResourceName) bool {
	for _, w := range whole {
		if w.resource == name {
			return true
		}
	}
	return false
}
