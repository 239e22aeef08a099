package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/tangram-dev/tangram/test/gpu/report"
)

// mig cuts the device into seven and measures the agent again.
func (t *trial) mig(ctx context.Context) (err error) {
	t.s.Printf("\n### With MIG on and seven instances")
	if _, err := smi(ctx, "-i", "0", "-mig", "1"); err != nil {
		return err
	}
	defer func() {
		// Also after the context: the device must not stay cut.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		for _, arguments := range [][]string{{"mig", "-i", "0", "-dci"}, {"mig", "-i", "0", "-dgi"}, {"-i", "0", "-mig", "0"}} {
			if _, failed := smi(ctx, arguments...); failed != nil && err == nil {
				err = failed
			}
		}
	}()
	profiles, err := smi(ctx, "mig", "-i", "0", "-lgip")
	if err != nil {
		return err
	}
	// The smallest profile: seven of them fit.
	found := regexp.MustCompile(`MIG 1g\.\S+\s+(\d+)\s+7/7`).FindStringSubmatch(profiles)
	if found == nil {
		return fmt.Errorf("no profile fits seven times: %s", profiles)
	}
	if _, err := smi(ctx, "mig", "-i", "0", "-cgi", strings.TrimSuffix(strings.Repeat(found[1]+",", 7), ","), "-C"); err != nil {
		return err
	}
	p, err := t.start(ctx, "mig", "--backend=nvml")
	if err != nil {
		return err
	}
	defer p.stop()
	while := time.Duration(t.seconds) * time.Second / 2
	if _, _, _, err := p.next(ctx); err != nil {
		return err
	}
	t.s.Printf("\nIdle.")
	idle, err := t.cost(ctx, p, while)
	if err != nil {
		return err
	}
	list, err := smi(ctx, "-L")
	if err != nil {
		return err
	}
	uuids := regexp.MustCompile(`MIG-[0-9a-f-]{36}`).FindAllString(list, -1)
	for i, uuid := range uuids {
		work := exec.CommandContext(ctx, t.load, "-seconds", "300", "-allocate-mib", fmt.Sprint(1000*(i+1)), "-out", "/dev/null")
		work.Env = append(os.Environ(), "CUDA_VISIBLE_DEVICES="+uuid)
		if err := work.Start(); err != nil {
			return err
		}
		defer func() { _ = work.Wait() }()         // killed
		defer func() { _ = work.Process.Kill() }() // it works until then
	}
	time.Sleep(3 * time.Second)
	if _, _, _, err := p.next(ctx); err != nil {
		return err
	}
	if err := t.instances(ctx, p); err != nil {
		return err
	}
	t.s.Printf("\nAll seven at work.")
	busy, err := t.cost(ctx, p, while)
	if err != nil {
		return err
	}
	t.s.Printf("\nFor 8 GPUs with 56 instances: %.2f %% of a core when all are idle, %.2f %% when all work.\n", 100*(idle.core+7*idle.driver), 100*(busy.core+7*busy.driver))
	t.s.Check(idle.core+7*idle.driver < 0.01, "under 1 %% of a core at 8 GPUs with 56 idle instances")
	return nil
}

// instances compares the memory of each instance with nvidia-smi.
func (t *trial) instances(ctx context.Context, p *process) error {
	series, err := p.scrape()
	if err != nil {
		return err
	}
	text, err := smi(ctx, "-i", "0", "-q", "-x")
	if err != nil {
		return err
	}
	t.s.Printf("\nMemory of each instance in MiB, each with another program, against nvidia-smi -q:")
	t.s.Table("series", "GPU_I_ID", "agent", "nvidia-smi", "may be off by", "")
	blocks := regexp.MustCompile(`(?s)<mig_device>.*?</mig_device>`).FindAllString(text, -1)
	rows := 0
	for _, block := range blocks {
		id := tag(block, "gpu_instance_id")
		memory := regexp.MustCompile(`(?s)<fb_memory_usage>.*?</fb_memory_usage>`).FindString(block)
		for _, pair := range [][2]string{{"DCGM_FI_DEV_FB_USED", "used"}, {"DCGM_FI_DEV_FB_FREE", "free"}} {
			want, err := strconv.ParseFloat(strings.TrimSuffix(tag(memory, pair[1]), " MiB"), 64)
			if err != nil {
				return fmt.Errorf("nvidia-smi -q -x: %w: %s", err, block)
			}
			for key, got := range series {
				if strings.HasPrefix(key, pair[0]+"{") && strings.Contains(key, `GPU_I_ID="`+id+`"`) {
					rows++
					t.s.Row(pair[0], id, report.Shown(got, true), report.Shown(want, true), "1", t.s.Count(math.Abs(got-want) <= 1))
				}
			}
		}
	}
	t.s.Printf("")
	t.s.Check(len(blocks) == 7 && rows == 14, "seven instances are told apart: %d of nvidia-smi, %d values", len(blocks), rows)
	return nil
}

// tag is the text within an element.
func tag(text, name string) string {
	_, rest, _ := strings.Cut(text, "<"+name+">")
	value, _, _ := strings.Cut(rest, "</")
	return strings.TrimSpace(value)
}
