package diagnose

import (
	"fmt"
	"slices"

	"github.com/tangram-dev/tangram/core/health"
)

// Limits of requirement document 001's alerts.
const (
	warmCelsius   = 80
	hotCelsius    = 85
	memoryPercent = 90
)

// helps is what to do about a cause, as a command on the node.
func helps(cause health.Code, d Device) string {
	at := itoa(d.Index)
	switch cause {
	case health.RowRemapFailure:
		return "replace the GPU: its spare rows are used up (nvidia-smi -q -d ROW_REMAPPER -i " + at + ")"
	case health.UncorrectedMemory, health.RowRemapPending, health.RetiredPagesPending:
		return "when nothing runs there: nvidia-smi --gpu-reset -i " + at + " (nvidia-smi -q -d ECC,PAGE_RETIREMENT,ROW_REMAPPER -i " + at + " shows the counts)"
	case health.OffTheBus, health.RebootRequired, health.RebootError, health.NoAnswer:
		return "drain and reboot the node; again: reseat or replace the GPU"
	case health.ResetRequired, health.ResetError:
		return "when nothing runs there: nvidia-smi --gpu-reset -i " + at
	case health.NVLinkDown, health.FabricRecovery:
		return "nvidia-smi nvlink -s -i " + at + "; systemctl status nvidia-fabricmanager; reset the GPU, then reseat it or its bridge"
	case health.PCIeNarrow:
		return "nvidia-smi -q -d PCIE -i " + at + "; reseat the GPU or its riser"
	case health.Throttled:
		return "nvidia-smi -q -d PERFORMANCE,POWER,TEMPERATURE -i " + at + "; look at power supply and cooling"
	case health.Hot:
		return "look at fans and air flow; nvidia-smi -q -d TEMPERATURE -i " + at
	case health.RestartError, health.ApplicationErrors, health.DrainRequired:
		return "restart the applications on the device"
	case health.Unwatched:
		return "restart the agent; look at its log"
	}
	return "see docs/reference/agent.md#health"
}

func about(f *Facts, d Device) string {
	text := fmt.Sprintf("device %d is %s", d.Index, d.Health)
	if !d.Since.IsZero() {
		text += " since " + span(f.Now.Sub(d.Since))
	}
	if d.Cause != "" {
		text += ", " + d.Cause
	}
	if d.Reason != "" {
		text += ": " + d.Reason
	}
	return text
}

func severity(d Device) State {
	switch d.Health {
	case "Healthy", "":
		return OK
	case "Suspect":
		return Warn
	}
	return Fail
}

// devices: all are healthy.
func devices(f *Facts) Result {
	x := caused(f, nil)
	if len(f.GPUs.Devices) == 0 {
		x.add(Fail, "on the node: nvidia-smi -L; lspci -d 10de:", "the GPUNode lists no device")
	}
	return x.result(fmt.Sprintf("%d of %d devices are healthy", f.GPUs.healthy(), len(f.GPUs.Devices)))
}

func (g *GPUs) healthy() (n int) {
	for _, d := range g.Devices {
		if severity(d) == OK {
			n++
		}
	}
	return n
}

// caused finds devices that are not healthy, for any of the causes; nil for all causes.
func caused(f *Facts, causes []health.Code) (x finding) {
	for _, d := range f.GPUs.Devices {
		if s := severity(d); s != OK && (causes == nil || slices.Contains(causes, health.Code(d.Cause))) {
			x.add(s, helps(health.Code(d.Cause), d), "%s", about(f, d))
		}
	}
	return x
}

// ecc: no memory errors, no rows that wait to be remapped.
func ecc(f *Facts) Result {
	x := caused(f, []health.Code{health.UncorrectedMemory, health.RowRemapPending, health.RowRemapFailure, health.RetiredPagesPending})
	return x.result("no device is out of service for memory errors, remapped rows or retired pages")
}

func throttling(f *Facts) Result {
	x := caused(f, []health.Code{health.Throttled})
	return x.result("no device has its clocks held down by the hardware")
}

// xid: the last error of the driver on each device, by what it asks for.
func xid(f *Facts) Result {
	var x finding
	table := health.DefaultTable()
	for _, d := range f.GPUs.Devices {
		if d.XID <= 0 {
			continue
		}
		text := fmt.Sprintf("device %d: %s", d.Index, health.Describe(d.XID))
		switch class := table.Class(d.XID); {
		case class == health.Ignore:
			x.add(OK, "", "%s, harmless", text)
		case class == health.Application || class == health.AskDriver:
			x.add(Warn, "look at the program that ran there: kubectl get events -A --field-selector involvedObject.name="+f.Node.Name+"; dmesg | grep -i xid", "%s, as a rule a fault of the application", text)
		case severity(d) == OK: // it was acted on, or passed
			x.add(Warn, "watch the device; the error is over", "%s, %s, and the device is healthy again", text, class)
		default:
			x.add(Fail, helps(health.Code(d.Cause), d), "%s, %s", text, class)
		}
	}
	return x.result(fmt.Sprintf("no XID on %d devices", len(f.GPUs.Devices)))
}

// links: NVLinks and PCIe lanes are all there.
func links(f *Facts) Result {
	x := caused(f, []health.Code{health.NVLinkDown, health.PCIeNarrow, health.FabricRecovery})
	if x.state != "" {
		return x.result("")
	}
	with := 0
	for _, d := range f.GPUs.Devices {
		if d.NVLinks > 0 {
			with++
		}
		if d.NVLinks > 0 && !d.Linked && len(f.GPUs.Devices) > 1 {
			x.add(Warn, "nvidia-smi topo -m; nvidia-smi nvlink -s -i "+itoa(d.Index), "device %d has %d NVLinks and spec.links joins it to no other by them", d.Index, d.NVLinks)
		}
	}
	if with == 0 {
		return x.result(fmt.Sprintf("%d devices without NVLink; PCIe has all lanes, as far as the agent sees", len(f.GPUs.Devices)))
	}
	return x.result(fmt.Sprintf("%d of %d devices have NVLinks, all of them up", with, len(f.GPUs.Devices)))
}

func temperature(f *Facts) Result {
	var x finding
	hottest, known := 0, 0
	for _, d := range f.GPUs.Devices {
		switch {
		case health.Code(d.Cause) == health.Hot && severity(d) != OK:
			x.add(Fail, helps(health.Hot, d), "%s", about(f, d))
		case d.Temperature < 0:
			continue
		case d.Temperature > hotCelsius:
			x.add(Fail, helps(health.Hot, d), "device %d has %d °C, above %d", d.Index, d.Temperature, hotCelsius)
		case d.Temperature > warmCelsius:
			x.add(Warn, helps(health.Hot, d), "device %d has %d °C, above %d", d.Index, d.Temperature, warmCelsius)
		}
		hottest, known = max(hottest, d.Temperature), known+1
	}
	if known == 0 && x.state == "" {
		return unknown("no device reports its temperature")
	}
	return x.result(fmt.Sprintf("the hottest of %d devices has %d °C", known, hottest))
}

// power: the draw. The GPUNode has no limit to compare it with.
func power(f *Facts) Result {
	sum, highest, known := 0, 0, 0
	for _, d := range f.GPUs.Devices {
		if d.Watts >= 0 {
			sum, highest, known = sum+d.Watts, max(highest, d.Watts), known+1
		}
	}
	if known == 0 {
		return unknown("no device reports its power draw")
	}
	return Result{State: OK, Seen: fmt.Sprintf("%d W on %d devices, %d W at most on one; limits are in the agent's metrics (DCGM_FI_DEV_POWER_USAGE, alert GPUPowerNearLimit)", sum, known, highest)}
}

// memory: devices that are nearly full, and pods above their share.
func memory(f *Facts) Result {
	var x finding
	fullest, known := int64(0), 0
	for _, d := range f.GPUs.Devices {
		for _, o := range d.Over {
			x.add(Fail, "kubectl -n NAMESPACE delete pod NAME, or give it a larger share; gpu-controller may do so (docs/guides/recovery.md)", "pod %s uses %d MiB of device %d and was given %d", o.Pod, o.Used, d.Index, o.GivenM)
		}
		if d.UsedMiB < 0 || d.MemoryMiB <= 0 {
			continue
		}
		percent := d.UsedMiB * 100 / d.MemoryMiB
		fullest, known = max(fullest, percent), known+1
		if percent > memoryPercent {
			x.add(Warn, "programs that run out of memory: a smaller batch, gradient checkpointing, or a device with more", "device %d uses %d of %d MiB, %d %%", d.Index, d.UsedMiB, d.MemoryMiB, percent)
		}
	}
	if known == 0 && x.state == "" {
		return unknown("no device reports its memory")
	}
	return x.result(fmt.Sprintf("the fullest of %d devices uses %d %% of its memory", known, fullest))
}
