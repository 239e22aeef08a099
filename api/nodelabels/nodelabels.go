// Package nodelabels spells the values of node labels that describe GPUs: the
// requirement documents' (accelerator, gpu-count, gpu-memory, gpu-interconnect) and GPU
// Feature Discovery's. The agent writes them, and so do simulated nodes, which must look
// the same.
package nodelabels

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Value makes a product name a valid label value, as GPU Feature Discovery does.
func Value(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_', r == '.':
			return r
		}
		return '-'
	}, s)
	return strings.Trim(s[:min(len(s), 63)], "-_.")
}

// Memory is the value of gpu-memory: the memory of one GPU, such as 80Gi.
func Memory(mib int64) string {
	return resource.NewQuantity(mib<<20, resource.BinarySI).String()
}

// Interconnect is the value of gpu-interconnect: nvlink as soon as one pair has NVLink,
// through a switch or not, by the class names of GPUNode; the label knows no more.
func Interconnect(linkClasses ...string) string {
	if slices.Contains(linkClasses, "NVSwitch") || slices.Contains(linkClasses, "NVLink") {
		return "nvlink"
	}
	return "pcie"
}

// tesla are the products whose accelerator label the requirement documents, and clouds
// before them, write with "tesla", whether NVIDIA still sold them under that name or not.
var tesla = []string{"k80", "p4", "p40", "p100", "v100", "t4", "a10", "a30", "a100", "h100", "h200"}

// Accelerator is the value of accelerator: nvidia-tesla-a100 for NVIDIA's data center
// GPUs of the requirement documents, else the product name in lower case.
func Accelerator(vendor, model string) string {
	words := strings.FieldsFunc(strings.ToLower(model), func(r rune) bool { return r == ' ' || r == '-' || r == '_' })
	switch vendor {
	case "nvidia":
		for _, w := range words {
			if slices.Contains(tesla, w) {
				return "nvidia-tesla-" + w
			}
		}
	case "intel":
		words = slices.DeleteFunc(words, func(w string) bool { return w == "data" || w == "center" || w == "gpu" })
	}
	if len(words) > 0 && words[0] != vendor && vendor != "" {
		words = slices.Insert(words, 0, vendor)
	}
	return Value(strings.Join(words, "-"))
}
