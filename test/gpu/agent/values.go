package main

import (
	"context"
	"fmt"
	"math"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/tangram-dev/tangram/test/gpu/report"
)

// compared is one exported value, with nvidia-smi's name for it and by how much the two
// may differ: what the value moves by itself within a quarter of a second.
type compared struct {
	name, smi string
	slack     float64
}

var values = []compared{
	{"DCGM_FI_DEV_SM_CLOCK", "clocks.sm", 60},
	{"DCGM_FI_DEV_MEM_CLOCK", "clocks.mem", 0},
	{"DCGM_FI_DEV_MEMORY_TEMP", "temperature.memory", 2},
	{"DCGM_FI_DEV_GPU_TEMP", "temperature.gpu", 2},
	{"DCGM_FI_DEV_POWER_USAGE", "power.draw", 25},
	{"DCGM_FI_DEV_POWER_MGMT_LIMIT", "enforced.power.limit", 0.01},
	{"DCGM_FI_DEV_PCIE_LINK_GEN", "pcie.link.gen.gpucurrent", 0},
	{"DCGM_FI_DEV_PCIE_LINK_WIDTH", "pcie.link.width.current", 0},
	{"DCGM_FI_DEV_GPU_UTIL", "utilization.gpu", 5},
	{"DCGM_FI_DEV_MEM_COPY_UTIL", "utilization.memory", 5},
	{"DCGM_FI_DEV_ENC_UTIL", "utilization.encoder", 0},
	{"DCGM_FI_DEV_DEC_UTIL", "utilization.decoder", 0},
	{"DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "clocks_event_reasons.active", 0},
	{"DCGM_FI_DEV_FB_FREE", "memory.free", 1},
	{"DCGM_FI_DEV_FB_USED", "memory.used", 1},
	{"DCGM_FI_DEV_FB_RESERVED", "memory.reserved", 1},
	{"DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "ecc.errors.corrected.volatile.total", 0},
	{"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "ecc.errors.uncorrected.volatile.total", 0},
	{"DCGM_FI_DEV_ECC_SBE_AGG_TOTAL", "ecc.errors.corrected.aggregate.total", 0},
	{"DCGM_FI_DEV_ECC_DBE_AGG_TOTAL", "ecc.errors.uncorrected.aggregate.total", 0},
	{"DCGM_FI_DEV_RETIRED_SBE", "retired_pages.single_bit_ecc.count", 0},
	{"DCGM_FI_DEV_RETIRED_DBE", "retired_pages.double_bit.count", 0},
	{"DCGM_FI_DEV_RETIRED_PENDING", "retired_pages.pending", 0},
	{"DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "remapped_rows.uncorrectable", 0},
	{"DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", "remapped_rows.correctable", 0},
	{"DCGM_FI_DEV_ROW_REMAP_PENDING", "remapped_rows.pending", 0},
	{"DCGM_FI_DEV_ROW_REMAP_FAILURE", "remapped_rows.failure", 0},
}

// The values that nvidia-smi does not answer to --query-gpu.
const (
	energy  = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"
	replays = "DCGM_FI_DEV_PCIE_REPLAY_COUNTER"
	links   = "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL"
	xid     = "DCGM_FI_DEV_XID_ERRORS"
	health  = "DCGM_EXP_GPU_HEALTH_STATUS"
)

// values compares every exported value with nvidia-smi, idle and under load.
func (t *trial) values(ctx context.Context, p *process) error {
	t.s.Printf("### Every exported value against nvidia-smi")
	t.s.Printf("/metrics is read until a new sample shows; nvidia-smi is asked at once then.")
	for _, busy := range []bool{false, true} {
		if !busy {
			t.s.Printf("\nIdle:")
		} else {
			t.s.Printf("\nUnder load (32 bit multiply-adds on all SMs, 20000 MiB allocated):")
			work := exec.CommandContext(ctx, t.load, "-seconds", "40", "-allocate-mib", "20000", "-out", "/dev/null")
			if err := work.Start(); err != nil {
				return err
			}
			defer func() { _ = work.Wait() }()         // killed
			defer func() { _ = work.Process.Kill() }() // it has ended when all is well
			time.Sleep(5 * time.Second)                // the driver averages over a second and more
		}
		if err := t.compare(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// whole are the series of the whole device, by name.
func whole(series map[string]float64) map[string]float64 {
	out := map[string]float64{}
	for key, value := range series {
		name, labels, _ := strings.Cut(key, "{")
		if strings.HasPrefix(name, "DCGM_") && strings.Contains(labels, `GPU_I_ID=""`) {
			out[name] = value
		}
	}
	return out
}

// next waits for the next sample.
func (p *process) next(ctx context.Context) (before, after map[string]float64, took time.Duration, err error) {
	series, err := p.scrape()
	if err != nil {
		return nil, nil, 0, err
	}
	before = whole(series)
	began := time.Now()
	for ctx.Err() == nil && time.Since(began) < 30*time.Second {
		if series, err = p.scrape(); err != nil {
			return nil, nil, 0, err
		}
		if after = whole(series); after[energy] != before[energy] {
			return before, after, time.Since(began), nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return nil, nil, 0, fmt.Errorf("no new sample within 30 s: %v", after)
}

func (t *trial) compare(ctx context.Context, p *process) error {
	if _, _, _, err := p.next(ctx); err != nil {
		return err
	}
	before, after, apart, err := p.next(ctx)
	if err != nil {
		return err
	}
	var names []string
	for _, v := range values {
		names = append(names, v.smi)
	}
	text, err := smi(ctx, "-i", "0", "--query-gpu="+strings.Join(names, ","), "--format=csv,noheader,nounits")
	if err != nil {
		return err
	}
	long, err := smi(ctx, "-i", "0", "-q")
	if err != nil {
		return err
	}
	answers := strings.Split(strings.TrimSpace(text), ", ")
	if len(answers) != len(names) {
		return fmt.Errorf("nvidia-smi answered %d values to %d names: %s", len(answers), len(names), text)
	}
	t.s.Table("series", "agent", "nvidia-smi", "may be off by", "")
	known := map[string]bool{}
	for i, v := range values {
		known[v.name] = true
		got, have := after[v.name]
		if absent := strings.Contains(answers[i], "N/A") || strings.Contains(answers[i], "Not Supported"); absent || !have {
			t.s.Row(v.name, report.Shown(got, have), answers[i], "", t.s.Count(absent != have))
			continue
		}
		want, err := report.Number(answers[i])
		if err != nil {
			return fmt.Errorf("nvidia-smi: %s: %w", v.smi, err)
		}
		t.s.Row(v.name, report.Shown(got, true), answers[i], report.Shown(v.slack, true), t.s.Count(math.Abs(got-want) <= v.slack))
	}
	row := func(name, other, slack string, ok bool) {
		known[name] = true
		got, have := after[name]
		t.s.Row(name, report.Shown(got, have), other, slack, t.s.Count(ok))
	}
	watts, power := (after[energy]-before[energy])/1000/apart.Seconds(), (after["DCGM_FI_DEV_POWER_USAGE"]+before["DCGM_FI_DEV_POWER_USAGE"])/2
	row(energy, fmt.Sprintf("grows by %.1f W; power.draw %.1f W", watts, power), "15 %", math.Abs(watts-power) < 0.15*power)
	said := line(long, "Replays Since Reset")
	row(replays, said, "0", said == report.Shown(after[replays], true))
	_, have := after[links]
	row(links, "no NVLink", "", !have)
	// nvidia-smi has no XIDs; the driver writes them to the kernel's log.
	row(xid, "none in this boot, or the last", "", after[xid] == 0 || slices.Contains([]float64{13, 31, 43, 45}, after[xid]))
	row(health, "GPU Recovery Action: "+line(long, "GPU Recovery Action"), "", after[health] == 0 && line(long, "GPU Recovery Action") == "None")
	for name := range after {
		if !known[name] && !strings.HasPrefix(name, "DCGM_EXP_XID") {
			t.s.Row(name, report.Shown(after[name], true), "not compared", "", t.s.Count(false))
		}
	}
	t.s.Printf("")
	return nil
}

// fault: a program's error shows in the metrics.
func (t *trial) fault(ctx context.Context, p *process) error {
	began := time.Now()
	if said, err := exec.CommandContext(ctx, t.load, "-fault", "address", "-out", "/dev/null").CombinedOutput(); err != nil {
		return fmt.Errorf("load -fault address: %w: %s", err, said)
	}
	for ctx.Err() == nil && time.Since(began) < 30*time.Second {
		series, err := p.scrape()
		if err != nil {
			return err
		}
		for key, value := range series {
			if strings.HasPrefix(key, "DCGM_EXP_XID_ERRORS_COUNT{") && strings.Contains(key, `xid="31"`) && value > 0 && whole(series)[xid] == 31 {
				t.s.Check(whole(series)[health] == 0, "a program that writes to an unmapped address: %s is 31 and DCGM_EXP_XID_ERRORS_COUNT is %.0f within %s; a program's fault leaves the health at %.0f",
					xid, value, time.Since(began).Round(100*time.Millisecond), whole(series)[health])
				return nil
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.s.Check(false, "XID 31 shows within 30 s")
	return nil
}

func smi(ctx context.Context, arguments ...string) (string, error) {
	said, err := exec.CommandContext(ctx, "nvidia-smi", arguments...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("nvidia-smi %s: %w: %s", strings.Join(arguments, " "), err, strings.TrimSpace(string(said)))
	}
	return string(said), nil
}

// line finds "name : value" in nvidia-smi's long answer.
func line(text, name string) string {
	found := regexp.MustCompile(`(?m)^\s*` + regexp.QuoteMeta(name) + `\s*:\s*(.*?)\s*$`).FindStringSubmatch(text)
	if found == nil {
		return ""
	}
	return found[1]
}
