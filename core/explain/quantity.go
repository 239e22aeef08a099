package explain

import (
	"fmt"
	"strings"
)

// Names of resources in refusals and waits. CPUs and GPUs are counted in thousandths,
// memory in MiB, everything else as it is.
const (
	CPU        = "cpu"
	Memory     = "memory"
	gpuPrefix  = "gpu/"
	modelOf    = "model/"
	resourceOf = "resource/"
)

// Quantity is an amount of a resource in words, with its unit.
func Quantity(resource string, amount int64) string {
	switch {
	case resource == CPU:
		return thousandths(amount) + " CPUs"
	case resource == Memory && amount > 0 && amount%1024 == 0:
		return fmt.Sprintf("%d GiB of memory", amount/1024)
	case resource == Memory:
		return fmt.Sprintf("%d MiB of memory", amount)
	case strings.HasPrefix(resource, gpuPrefix):
		return thousandths(amount) + " " + strings.TrimPrefix(resource, gpuPrefix) + " GPUs"
	case strings.HasPrefix(resource, modelOf):
		return thousandths(amount) + " GPUs of model " + strings.TrimPrefix(resource, modelOf)
	}
	return fmt.Sprintf("%d %s", amount, strings.TrimPrefix(resource, resourceOf))
}

// resourceName is a resource in words, without an amount.
func resourceName(resource string) string {
	switch resource {
	case CPU:
		return "CPU"
	case Memory:
		return "memory"
	case "":
		return "room"
	}
	return strings.TrimPrefix(resource, resourceOf)
}

// thousandths prints a count of thousandths without needless zeros.
func thousandths(v int64) string {
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%d.%03d", v/1000, v%1000), "0"), ".")
}
