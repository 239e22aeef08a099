package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/tangram-dev/tangram/test/gpu/report"
)

// discovery compares the inventory with nvidia-smi and with what CUDA says.
func (p *probe) discovery(s *report.Section) error {
	inv, err := p.backend.Inventory(p.ctx)
	if err != nil {
		return err
	}
	d := p.gpu
	smi, err := p.query("index", "uuid", "name", "serial", "pci.bus_id", "pci.device_id", "memory.total",
		"compute_cap", "driver_version", "pcie.link.gen.gpumax", "pcie.link.width.max", "count")
	if err != nil {
		return err
	}
	long, err := p.smi("-i", d.UUID, "-q")
	if err != nil {
		return err
	}
	cuda, err := p.work("", "-seconds", "0")
	if err != nil {
		return err
	}
	bus := strings.ToLower(smi["pci.bus_id"])
	if len(bus) == len("00000000:01:00.0") {
		bus = bus[4:] // nvidia-smi writes eight digits of the domain
	}
	numa := "-1"
	if text, err := os.ReadFile("/sys/bus/pci/devices/" + bus + "/numa_node"); err == nil {
		numa = strings.TrimSpace(string(text))
	}
	serial := smi["serial"]
	if strings.Contains(serial, "N/A") {
		serial = ""
	}

	s.Printf("Every field of the inventory, for the machine's first GPU.")
	s.Table("field", "agent", "other source", "source", "")
	same := func(field string, agent any, other, source string) {
		s.Row(field, fmt.Sprintf("`%v`", agent), "`"+other+"`", source, s.Count(fmt.Sprint(agent) == other))
	}
	same("devices", len(inv.Devices), smi["count"], "nvidia-smi")
	same("driver", inv.Driver, smi["driver_version"], "nvidia-smi")
	same("CUDA", inv.CUDA, line(long, "CUDA Version"), "nvidia-smi -q")
	same("index", d.Index, smi["index"], "nvidia-smi")
	same("minor number", d.Minor, line(long, "Minor Number"), "nvidia-smi -q")
	same("UUID", d.UUID, smi["uuid"], "nvidia-smi")
	same("model", d.Model, smi["name"], "nvidia-smi")
	same("brand", d.Brand, line(long, "Product Brand"), "nvidia-smi -q")
	same("architecture", d.Architecture, line(long, "Product Architecture"), "nvidia-smi -q")
	same("serial number", d.Serial, serial, "nvidia-smi")
	same("compute capability", d.ComputeCapability, smi["compute_cap"], "nvidia-smi")
	same("memory, MiB", d.MemoryMiB, smi["memory.total"], "nvidia-smi")
	same("SMs", d.SMs, fmt.Sprint(cuda.SMs), "CUDA")
	same("PCI address", d.PCIBusID, bus, "nvidia-smi")
	same("PCI device", d.PCIDeviceID, strings.ToLower(smi["pci.device_id"]), "nvidia-smi")
	same("PCIe generation", d.PCIeGen, smi["pcie.link.gen.gpumax"], "nvidia-smi")
	same("PCIe lanes", d.PCIeWidth, smi["pcie.link.width.max"], "nvidia-smi")
	s.Row("NUMA node", fmt.Sprintf("`%d`", d.NUMA), "`"+numa+"`", "sysfs; where it says -1, the driver", s.Count(fmt.Sprint(d.NUMA) == numa || numa == "-1"))
	links, _ := p.smi("nvlink", "-s", "-i", d.UUID)
	same("NVLinks", d.NVLinks, fmt.Sprint(strings.Count(links, "Link ")), "nvidia-smi nvlink -s")
	fabric := line(long, "ClusterUUID")
	if fabric == "" || fabric == "N/A" || strings.Trim(fabric, "0-") == "" {
		fabric = ""
	} else {
		fabric += "." + line(long, "CliqueId")
	}
	same("fabric", d.Fabric, fabric, "nvidia-smi -q")
	s.Row("pairs of devices", fmt.Sprintf("`%v`", inv.Links), "", "one GPU has none", "")
	if d.MIG == nil {
		s.Check(true, "the device has no MIG")
		return nil
	}
	s.Printf("\nWith MIG off the driver already lists %d profiles; they are compared in the section on MIG.", len(d.MIG.Profiles))
	return nil
}
