package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// cost is what an agent took in a while.
type cost struct {
	core, driver float64 // shares of a core; driver: within calls of the driver
	memory       memory
	series       int
}

// scrapeEvery is what Prometheus is commonly set to.
const scrapeEvery = 15 * time.Second

// cost measures an agent for a while.
func (t *trial) cost(ctx context.Context, p *process, while time.Duration) (c cost, err error) {
	calls := func() (sum float64, err error) {
		series, err := p.scrape()
		for key, value := range series {
			// The driver's functions; in the last the agent sleeps until an event.
			if strings.HasPrefix(key, "tangram_agent_backend_call_seconds_sum{") && strings.Contains(key, `call="nvml`) && !strings.Contains(key, "nvmlEventSetWait") {
				sum += value
			}
			if strings.HasPrefix(key, "DCGM_") || strings.HasPrefix(key, "tangram_gpu") {
				c.series++
			}
		}
		return sum, err
	}
	driver, err := calls()
	if err != nil {
		return c, err
	}
	used, err := p.processor()
	if err != nil {
		return c, err
	}
	began := time.Now()
	for time.Since(began) < while {
		select {
		case <-ctx.Done():
			return c, ctx.Err()
		case <-time.After(min(scrapeEvery, while-time.Since(began))):
		}
		c.series = 0
		var now float64
		if now, err = calls(); err != nil {
			return c, err
		}
		c.driver = now - driver
	}
	usedNow, err := p.processor()
	if err != nil {
		return c, err
	}
	seconds := time.Since(began).Seconds()
	c.core, c.driver = (usedNow-used).Seconds()/seconds, c.driver/seconds
	if c.memory, err = p.memory(); err != nil {
		return c, err
	}
	t.s.Printf("\nIn %.0f s: %.3f %% of a core, of which %.3f %% within calls of the driver. At its end %v. %d series of devices.",
		seconds, 100*c.core, 100*c.driver, c.memory, c.series)
	parts, err := p.parts()
	t.s.Printf("Of its own, in MiB: %s.", parts)
	return c, err
}

// fleets are of one node each, with one GPU and with eight.
const fleets = `pools:
- name: %s
  count: 1
  gpu: {model: H200, count: %d, mig: true}
  cpu: 96
  memory: 1Ti
`

// eight says what the cost of one GPU means for eight. Calls of the driver grow with the
// devices; for memory, agents of simulated nodes with one and with eight are compared.
func (t *trial) eight(ctx context.Context, one cost) error {
	var resident [2]memory
	for i, gpus := range []int{1, 8} {
		name := fmt.Sprintf("simulated%d", gpus)
		file := filepath.Join(t.dir, name+".yaml")
		if err := os.WriteFile(file, fmt.Appendf(nil, fleets, name, gpus), 0o644); err != nil {
			return err
		}
		p, err := t.start(ctx, name, "--backend=simulated", "--fleet", file, "--node", name+"-0", "--sample-interval", "1s")
		if err != nil {
			return err
		}
		for range 20 { // some samples and scrapes, so that what grows has grown
			if _, err := p.scrape(); err != nil {
				p.stop()
				return err
			}
			time.Sleep(250 * time.Millisecond)
		}
		resident[i], err = p.memory()
		p.stop()
		if err != nil {
			return err
		}
	}
	grown := max(resident[1].anonymous-resident[0].anonymous, 0)
	core := one.core + 7*one.driver
	total := float64(one.memory.anonymous+one.memory.file+grown) / 1024
	t.s.Printf("\nFor 8 GPUs: calls of the driver grow with the devices, the rest does not: %.2f %% of a core (no more than %.2f %% if everything grew).", 100*core, 800*one.core)
	t.s.Printf("Agents of simulated nodes have %.1f MiB of their own with 1 GPU and %.1f MiB with 8: %.1f MiB resident in all.\n",
		float64(resident[0].anonymous)/1024, float64(resident[1].anonymous)/1024, total)
	t.s.Check(core < 0.01, "under 1 %% of a core at 8 GPUs")
	t.s.Check(total < 50, "under 50 MiB at 8 GPUs")
	return nil
}
