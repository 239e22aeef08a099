package nodelabels

import (
	"strings"
	"testing"
)

func TestAccelerator(t *testing.T) {
	for model, want := range map[string]string{
		"nvidia/Tesla T4":                       "nvidia-tesla-t4",
		"nvidia/Tesla V100-SXM2-32GB":           "nvidia-tesla-v100",
		"nvidia/NVIDIA A10":                     "nvidia-tesla-a10",
		"nvidia/NVIDIA A10G":                    "nvidia-a10g",
		"nvidia/NVIDIA L40S":                    "nvidia-l40s",
		"nvidia/NVIDIA A30":                     "nvidia-tesla-a30",
		"nvidia/NVIDIA A100-SXM4-80GB":          "nvidia-tesla-a100",
		"nvidia/NVIDIA H100 80GB HBM3":          "nvidia-tesla-h100",
		"nvidia/NVIDIA H200":                    "nvidia-tesla-h200",
		"nvidia/NVIDIA GeForce RTX 4090":        "nvidia-geforce-rtx-4090",
		"nvidia/GRID/weird":                     "nvidia-grid-weird",
		"amd/AMD Instinct MI300X":               "amd-instinct-mi300x",
		"intel/Intel Data Center GPU Max 1550":  "intel-max-1550",
		"nvidia/":                               "",
		"nvidia/" + strings.Repeat("long ", 30): "nvidia" + strings.Repeat("-long", 11) + "-l",
	} {
		vendor, name, _ := strings.Cut(model, "/")
		if got := Accelerator(vendor, name); got != want {
			t.Errorf("%s: %q, want %q", model, got, want)
		}
	}
}

func TestValues(t *testing.T) {
	if got := Value("NVIDIA A100-SXM4-80GB (rev. 2)"); got != "NVIDIA-A100-SXM4-80GB--rev.-2" {
		t.Error(got)
	}
	if a, b := Memory(81920), Memory(32510); a != "80Gi" || b != "32510Mi" {
		t.Error(a, b)
	}
	if a, b, c := Interconnect("PIX", "NVLink"), Interconnect("NVSwitch"), Interconnect("SYS"); a != "nvlink" || b != "nvlink" || c != "pcie" {
		t.Error(a, b, c)
	}
}
