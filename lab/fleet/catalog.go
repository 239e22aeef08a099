package fleet

import (
	"fmt"
	"strings"

	"github.com/tangram-dev/tangram/api/v1alpha1"
)

// product is what is known of a GPU model: the defaults of a fleet file that
// names it.
type product struct {
	short       string // what a fleet file may call it
	vendor      string
	model       string // as its driver reports it
	accelerator string // the seeds' label value
	memoryMiB   int64
	sms         int32
	nvlinks     int32 // of a directly linked pair
	links       string
	numaNodes   int
	profiles    []v1alpha1.MIGProfile
	hardware    Hardware
}

const (
	vendorNVIDIA = "nvidia"
	vendorAMD    = "amd"
	vendorIntel  = "intel"
)

// products holds data sheet values; MIG profiles are those nvidia-smi mig -lgip
// lists, sizes and starts in memory slices.
func products() []product {
	return []product{
		{
			short: "T4", vendor: vendorNVIDIA, model: "Tesla T4", accelerator: "nvidia-tesla-t4",
			memoryMiB: 15360, sms: 40, links: linksPCIe, numaNodes: 1,
			hardware: nvidia("Turing", "7.5", "0x1eb810de").power(10, 70).clocks(300, 1590, 5001).bus(3, 0),
		},
		{
			short: "V100-16GB", vendor: vendorNVIDIA, model: "Tesla V100-SXM2-16GB", accelerator: "nvidia-tesla-v100",
			memoryMiB: 16384, sms: 80, nvlinks: 2, links: linksNVLink, numaNodes: 2,
			hardware: nvidia("Volta", "7.0", "0x1db110de").power(40, 300).clocks(135, 1530, 877).bus(3, 6),
		},
		{
			short: "V100-32GB", vendor: vendorNVIDIA, model: "Tesla V100-SXM2-32GB", accelerator: "nvidia-tesla-v100",
			memoryMiB: 32768, sms: 80, nvlinks: 2, links: linksNVLink, numaNodes: 2,
			hardware: nvidia("Volta", "7.0", "0x1db510de").power(40, 300).clocks(135, 1530, 877).bus(3, 6),
		},
		{
			short: "A10", vendor: vendorNVIDIA, model: "NVIDIA A10", accelerator: "nvidia-tesla-a10",
			memoryMiB: 23028, sms: 72, links: linksPCIe, numaNodes: 1,
			hardware: nvidia("Ampere", "8.6", "0x223610de").power(20, 150).clocks(210, 1695, 6251).bus(4, 0),
		},
		{
			short: "L40S", vendor: vendorNVIDIA, model: "NVIDIA L40S", accelerator: "nvidia-l40s",
			memoryMiB: 46068, sms: 142, links: linksPCIe, numaNodes: 2,
			hardware: nvidia("Ada Lovelace", "8.9", "0x26b910de").power(35, 350).clocks(210, 2520, 9001).bus(4, 0),
		},
		{
			short: "A30", vendor: vendorNVIDIA, model: "NVIDIA A30", accelerator: "nvidia-tesla-a30",
			memoryMiB: 24576, sms: 56, links: linksPCIe, numaNodes: 2,
			profiles: []v1alpha1.MIGProfile{
				{Name: "1g.6gb", ID: 14, MemoryMiB: 5952, Starts: []int32{0, 1, 2, 3}, Size: 1},
				{Name: "2g.12gb", ID: 5, MemoryMiB: 11968, Starts: []int32{0, 2}, Size: 2},
				{Name: "4g.24gb", ID: 0, MemoryMiB: 24000, Starts: []int32{0}, Size: 4},
			},
			hardware: nvidia("Ampere", "8.0", "0x20b710de").power(30, 165).clocks(210, 1440, 1215).bus(4, 4).slices(a30SMs),
		},
		{
			short: "A100-40GB", vendor: vendorNVIDIA, model: "NVIDIA A100-SXM4-40GB", accelerator: "nvidia-tesla-a100",
			memoryMiB: 40960, sms: 108, links: linksNVSwitch, numaNodes: 2,
			profiles: sevenSlices([4]int{5, 10, 20, 40}, [4]int64{4864, 9984, 20096, 40320}),
			hardware: nvidia("Ampere", "8.0", "0x20b010de").power(50, 400).clocks(210, 1410, 1215).bus(4, 12).slices(ampereSMs),
		},
		{
			short: "A100-80GB", vendor: vendorNVIDIA, model: "NVIDIA A100-SXM4-80GB", accelerator: "nvidia-tesla-a100",
			memoryMiB: 81920, sms: 108, links: linksNVSwitch, numaNodes: 2,
			profiles: sevenSlices([4]int{10, 20, 40, 80}, [4]int64{9728, 19968, 40192, 80640}),
			hardware: nvidia("Ampere", "8.0", "0x20b210de").power(60, 400).clocks(210, 1410, 1593).bus(4, 12).slices(ampereSMs),
		},
		{
			short: "H100-80GB", vendor: vendorNVIDIA, model: "NVIDIA H100 80GB HBM3", accelerator: "nvidia-tesla-h100",
			memoryMiB: 81920, sms: 132, links: linksNVSwitch, numaNodes: 2,
			profiles: sevenSlices([4]int{10, 20, 40, 80}, [4]int64{9984, 20096, 40448, 81152}),
			hardware: nvidia("Hopper", "9.0", "0x233010de").power(70, 700).clocks(345, 1980, 2619).bus(5, 18).slices(hopperSMs),
		},
		{
			short: "H200", vendor: vendorNVIDIA, model: "NVIDIA H200", accelerator: "nvidia-tesla-h200",
			memoryMiB: 143771, sms: 132, links: linksNVSwitch, numaNodes: 2,
			profiles: sevenSlices([4]int{18, 35, 71, 141}, [4]int64{16384, 33280, 71424, 143360}),
			hardware: nvidia("Hopper", "9.0", "0x233510de").power(75, 700).clocks(345, 1980, 3201).bus(5, 18).slices(hopperSMs),
		},
		{
			short: "MI300X", vendor: vendorAMD, model: "AMD Instinct MI300X", accelerator: "amd-instinct-mi300x",
			memoryMiB: 196608, sms: 304, links: linksPCIe, numaNodes: 2,
			hardware: Hardware{
				Brand: "Instinct", Architecture: "CDNA 3", PCIDeviceID: "0x74a11002", Driver: amdDriver,
				IdleWatts: 140, MaxWatts: 750, IdleClock: 132, MaxClock: 2100, MemoryClock: 1300,
				PCIeGeneration: 5, PCIeLanes: 16, SlowdownCelsius: 100,
			},
		},
		{
			short: "Max-1550", vendor: vendorIntel, model: "Intel Data Center GPU Max 1550", accelerator: "intel-max-1550",
			memoryMiB: 131072, sms: 128, links: linksPCIe, numaNodes: 2,
			hardware: Hardware{
				Brand: "Data Center GPU Max", Architecture: "Ponte Vecchio", PCIDeviceID: "0x0bd58086", Driver: intelDriver,
				IdleWatts: 150, MaxWatts: 600, IdleClock: 300, MaxClock: 1600, MemoryClock: 1565,
				PCIeGeneration: 5, PCIeLanes: 16, SlowdownCelsius: 100,
			},
		},
	}
}

// sevenSlices are the profiles of a GPU with seven compute and eight memory slices.
// Their names and memory differ by model: gb and mib are for one, two, four and all
// eight memory slices.
func sevenSlices(gb [4]int, mib [4]int64) []v1alpha1.MIGProfile {
	any1, any2 := []int32{0, 1, 2, 3, 4, 5, 6}, []int32{0, 2, 4, 6}
	return []v1alpha1.MIGProfile{
		{Name: fmt.Sprintf("1g.%dgb", gb[0]), ID: 19, MemoryMiB: mib[0], Starts: any1, Size: 1},
		{Name: fmt.Sprintf("1g.%dgb+me", gb[0]), ID: 20, MemoryMiB: mib[0], Starts: any1, Size: 1},
		{Name: fmt.Sprintf("1g.%dgb", gb[1]), ID: 15, MemoryMiB: mib[1], Starts: any2, Size: 2},
		{Name: fmt.Sprintf("2g.%dgb", gb[1]), ID: 14, MemoryMiB: mib[1], Starts: []int32{0, 2, 4}, Size: 2},
		{Name: fmt.Sprintf("3g.%dgb", gb[2]), ID: 9, MemoryMiB: mib[2], Starts: []int32{0, 4}, Size: 4},
		{Name: fmt.Sprintf("4g.%dgb", gb[2]), ID: 5, MemoryMiB: mib[2], Starts: []int32{0}, Size: 4},
		{Name: fmt.Sprintf("7g.%dgb", gb[3]), ID: 0, MemoryMiB: mib[3], Starts: []int32{0}, Size: 8},
	}
}

// findProduct looks a model up by short name or by the driver's name. Letter case
// does not matter; nothing else is guessed, so that "A10" never means an A100.
func findProduct(model string) (product, bool) {
	for _, p := range products() {
		if strings.EqualFold(model, p.short) || strings.EqualFold(model, p.model) {
			return p, true
		}
	}
	return product{}, false
}

// knownModels lists the short names for which keep answers true.
func knownModels(keep func(product) bool) string {
	var names []string
	for _, p := range products() {
		if keep(p) {
			names = append(names, p.short)
		}
	}
	return strings.Join(names, ", ")
}
