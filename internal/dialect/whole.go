package dialect

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/tangram-dev/tangram/api/names"
	"github.com/tangram-dev/tangram/core/model"
)

// nvidiaGPU counts NVIDIA's GPUs, whole unless HAMi's words stand beside it.
const nvidiaGPU v1.ResourceName = names.ResourceNVIDIA

// whole are the extended resources that sell vendors' devices whole, in the order of the table.
var whole = slices.DeleteFunc(DeviceResources(), func(w Word) bool { return w.Vendor == "" })

// ResourceOf is the resource that sells a vendor's devices whole; empty for vendors with one for every product.
func ResourceOf(vendor model.Vendor) v1.ResourceName {
	for _, w := range whole {
		if w.Vendor == vendor {
			return v1.ResourceName(w.Name)
		}
	}
	return ""
}

// vendorOf is the vendor whose devices a resource sells whole; empty for other resources.
func vendorOf(name string) model.Vendor {
	for _, w := range whole {
		if w.Name == name {
			return w.Vendor
		}
	}
	return ""
}

// IsWholeResource says whether an extended resource sells whole GPUs.
func IsWholeResource(name v1.ResourceName) bool { return vendorOf(string(name)) != "" }

// WholeResource is the extended resource that sells a request's devices whole; of
// vendors with a resource for every product, the one the request names.
func WholeResource(r *model.Request) v1.ResourceName {
	if name := ResourceOf(r.Vendor); name != "" {
		return name
	}
	for _, c := range r.Containers {
		if c.Count > 0 {
			return v1.ResourceName(c.Resource)
		}
	}
	return ""
}

// readNVIDIA reads NVIDIA's whole GPUs, and the memory that each must have at least.
func readNVIDIA(_ *v1.Pod, c *v1.Container, path string) (*ask, error) {
	memory, memoryField, hasMemory := amount(c, path, names.ResourceGPUMemory)
	hasMemory = hasMemory && !memory.IsZero()
	if usesHAMi(&words{c: c, path: path}) { // then nvidia.com/gpu is HAMi's word
		if hasMemory {
			return nil, fmt.Errorf("%s: memory of whole GPUs, beside shares of GPUs", memoryField)
		}
		return nil, nil
	}
	q, field, _ := amount(c, path, nvidiaGPU)
	n, err := count(q, field)
	switch {
	case err != nil:
		return nil, err
	case n == 0 && hasMemory:
		return nil, fmt.Errorf("%s: the container asks for no %s", memoryField, nvidiaGPU)
	case n == 0:
		return nil, nil
	}
	a := &ask{vendor: model.NVIDIA, resource: nvidiaGPU, count: n, field: field}
	if hasMemory {
		a.minMemory, err = memoryOf(memory, memoryField, n)
	}
	return a, err
}

// amount reads a container's request for an extended resource; limits count where the API server has
// not copied them. field is for messages, empty when absent.
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

// leastMemory is the smallest amount of GPU memory that is not a typing error.
const leastMemory = 1 << 20

// memoryOf is what each GPU must have at least of nvidia.com/gpu-memory: the memory of all
// the container's GPUs together, as seed 003 counts it (4 GPUs with 128Gi are GPUs of 32Gi).
func memoryOf(q resource.Quantity, field string, gpus int) (model.MiB, error) {
	bytes, exact := q.AsInt64()
	if !exact || bytes < leastMemory {
		return 0, fmt.Errorf("%s: %s is not an amount of memory, write for example 32Gi", field, q.String())
	}
	each := (bytes + int64(gpus) - 1) / int64(gpus)
	return model.MiB((each + 1<<20 - 1) >> 20), nil
}
