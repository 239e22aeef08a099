package main

import (
	"fmt"
	"math"
	"regexp"
	"strings"
	"time"

	"github.com/tangram-dev/tangram/internal/agent/device"
	"github.com/tangram-dev/tangram/test/gpu/report"
)

// compared is one sampled value, with nvidia-smi's name for it and by how much the two
// may differ besides what the value itself moves between two samples.
type compared struct {
	field device.Field
	name  string
	smi   string
	slack float64
}

var values = []compared{
	{device.Utilization, "utilization, %", "utilization.gpu", 5},
	{device.MemoryUtilization, "memory utilization, %", "utilization.memory", 5},
	{device.EncoderUtilization, "encoder utilization, %", "utilization.encoder", 0},
	{device.DecoderUtilization, "decoder utilization, %", "utilization.decoder", 0},
	{device.MemoryUsed, "memory used, MiB", "memory.used", 1},
	{device.MemoryFree, "memory free, MiB", "memory.free", 1},
	{device.MemoryReserved, "memory reserved, MiB", "memory.reserved", 1},
	{device.Temperature, "temperature, °C", "temperature.gpu", 2},
	{device.MemoryTemperature, "memory temperature, °C", "temperature.memory", 2},
	{device.Power, "power, W", "power.draw", 25},
	{device.PowerLimit, "power limit, W", "enforced.power.limit", 0.01},
	{device.SMClock, "SM clock, MHz", "clocks.sm", 60},
	{device.MemoryClock, "memory clock, MHz", "clocks.mem", 0},
	{device.PCIeGeneration, "PCIe generation", "pcie.link.gen.gpucurrent", 0},
	{device.PCIeLanes, "PCIe lanes", "pcie.link.width.current", 0},
	{device.ECCCorrected, "ECC corrected", "ecc.errors.corrected.volatile.total", 0},
	{device.ECCUncorrected, "ECC uncorrected", "ecc.errors.uncorrected.volatile.total", 0},
	{device.ECCCorrectedTotal, "ECC corrected, ever", "ecc.errors.corrected.aggregate.total", 0},
	{device.ECCUncorrectedTotal, "ECC uncorrected, ever", "ecc.errors.uncorrected.aggregate.total", 0},
	{device.RetiredPagesSingle, "retired pages, single bit", "retired_pages.single_bit_ecc.count", 0},
	{device.RetiredPagesDouble, "retired pages, double bit", "retired_pages.double_bit.count", 0},
	{device.RetiredPagesPending, "retired pages pending", "retired_pages.pending", 0},
	{device.RemappedCorrectable, "remapped rows, correctable", "remapped_rows.correctable", 0},
	{device.RemappedUncorrectable, "remapped rows, uncorrectable", "remapped_rows.uncorrectable", 0},
	{device.RemapPending, "remap pending", "remapped_rows.pending", 0},
	{device.RemapFailed, "remap failed", "remapped_rows.failure", 0},
	{device.ClockEventReasons, "clock event reasons", "clocks_event_reasons.active", 0},
}

// telemetry compares every sampled value with nvidia-smi, idle and under load.
func (p *probe) telemetry(s *report.Section) error {
	s.Printf("A sample, nvidia-smi, another sample: nvidia-smi's value must lie between the two samples'")
	s.Printf("or be off by no more than the column says, which is what the value moves by itself.")
	for _, load := range []bool{false, true} {
		title := "Idle"
		if load {
			title = "Under load (32 bit multiply-adds on all SMs, 20000 MiB allocated)"
			j, err := p.start(p.ctx, "", "-seconds", "6", "-allocate-mib", "20000")
			if err != nil {
				return err
			}
			defer j.wait()
			<-j.ready
			time.Sleep(2500 * time.Millisecond) // the driver averages over a second and more
		}
		s.Printf("\n### %s", title)
		if err := p.compare(s); err != nil {
			return err
		}
	}
	return nil
}

func (p *probe) sample() (device.Sample, error) {
	samples, err := p.backend.Sample(p.ctx)
	if err != nil {
		return device.Sample{}, err
	}
	return samples[0], samples[0].Err
}

func (p *probe) compare(s *report.Section) error {
	before, err := p.sample()
	if err != nil {
		return err
	}
	names := make([]string, len(values))
	for i, v := range values {
		names[i] = v.smi
	}
	smi, err := p.query(names...)
	if err != nil {
		return err
	}
	after, err := p.sample()
	if err != nil {
		return err
	}
	s.Table("value", "agent before", "nvidia-smi", "agent after", "may be off by", "")
	for _, v := range values {
		a, ok := before.Values[v.field]
		b := after.Values[v.field]
		text := smi[v.smi]
		if absent := strings.Contains(text, "N/A") || strings.Contains(text, "Not Supported"); absent || !ok {
			s.Row(v.name, report.Shown(a, ok), text, report.Shown(b, ok), "", s.Count(absent != ok))
			continue
		}
		c, err := report.Number(text)
		if err != nil {
			return fmt.Errorf("%s: %w", v.smi, err)
		}
		within := c >= min(a, b)-v.slack && c <= max(a, b)+v.slack
		s.Row(v.name, report.Shown(a, true), report.Shown(c, true), report.Shown(b, true), report.Shown(v.slack, true), s.Count(within))
	}
	long, err := p.smi("-i", p.gpu.UUID, "-q")
	if err != nil {
		return err
	}
	replays := line(long, "Replays Since Reset")
	s.Row("PCIe replays", report.Shown(before.Values[device.PCIeReplays], true), replays, report.Shown(after.Values[device.PCIeReplays], true), "0",
		s.Count(replays == report.Shown(after.Values[device.PCIeReplays], true)))
	recovery := line(long, "GPU Recovery Action")
	agent := string(after.Recovery)
	if agent == "" {
		agent = "None"
	}
	s.Row("recovery action", agent, recovery, agent, "", s.Count(strings.EqualFold(agent, recovery)))

	// nvidia-smi does not show the energy counter, which the driver moves several times a
	// second; its growth must be the power.
	time.Sleep(time.Second)
	later, err := p.sample()
	if err != nil {
		return err
	}
	joules := (later.Values[device.Energy] - before.Values[device.Energy]) / 1000
	mean := joules / later.At.Sub(before.At).Seconds()
	between := (before.Values[device.Power] + later.Values[device.Power]) / 2
	s.Row("energy's growth, W", report.Shown(mean, true), "power of the samples", report.Shown(between, true), "15 %", s.Count(math.Abs(mean-between) < 0.15*between+10))

	up, _ := p.smi("nvlink", "-s", "-i", p.gpu.UUID)
	active := len(regexp.MustCompile(`Link \d+: [0-9.]+ GB/s`).FindAllString(up, -1))
	_, have := after.Values[device.NVLinksActive]
	s.Row("NVLinks active", report.Shown(before.Values[device.NVLinksActive], have), fmt.Sprint(active), report.Shown(after.Values[device.NVLinksActive], have), "0",
		s.Count(int(after.Values[device.NVLinksActive]) == active))
	for _, f := range []struct {
		field device.Field
		name  string
	}{{device.NVLinkBandwidth, "NVLink bytes moved"}, {device.NVLinkErrors, "NVLink errors"}} {
		v, have := after.Values[f.field]
		s.Row(f.name, report.Shown(v, have), "not in nvidia-smi's queries", "", "", "")
	}
	s.Printf("\nThrottle reasons: %v.", after.Throttle)

	apps, err := p.smi("-i", p.gpu.UUID, "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits")
	if err != nil {
		return err
	}
	var lines []string
	for _, process := range after.Processes {
		lines = append(lines, fmt.Sprintf("%d, %d", process.PID, process.MemoryMiB))
	}
	s.Check(strings.TrimSpace(apps) == strings.Join(lines, "\n"), "processes and their memory in MiB: agent %q, nvidia-smi %q", strings.Join(lines, "; "), strings.ReplaceAll(strings.TrimSpace(apps), "\n", "; "))
	for _, process := range after.Processes {
		s.Check(process.SMPercent > 50, "process %d had %d %% of the SMs' time", process.PID, process.SMPercent)
	}
	return nil
}
