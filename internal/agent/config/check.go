package config

import (
	"errors"
	"fmt"
	"strings"
)

// check refuses settings that do not go together, whichever source each came from.
func (c *Config) check() error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Sharing.TimeSlicing != nil && c.Sharing.MPS != nil {
		fail("sharing: timeSlicing and mps together; want one of them")
	}
	if c.Sharing.MPS != nil && c.Flags.MIGStrategy == MIGMixed {
		fail("sharing.mps: does not work with migStrategy mixed; want migStrategy none, or sharing.timeSlicing")
	}
	a := &c.Agent
	if a.SharesPerGPU == 1 {
		fail("--shares-per-gpu: 1: want 0 for none, or 2 to %d", maxShares)
	}
	if a.SharesPerGPU > 0 {
		if c.Flags.DeviceListStrategy != CDICRI {
			fail("--shares-per-gpu: needs deviceListStrategy cdi-cri, not %s: shares differ by container, and only a CDI specification can", c.Flags.DeviceListStrategy)
		}
		if c.Sharing.TimeSlicing.Find(wholeGPU) != nil || c.Sharing.MPS.Find(wholeGPU) != nil {
			fail("--shares-per-gpu: does not go with sharing of %s in turns; want one of them", wholeGPU)
		}
		if c.Flags.MIGStrategy == MIGSingle {
			fail("--shares-per-gpu: does not go with migStrategy single, which sells MIG instances as %s", wholeGPU)
		}
	}
	if err := a.Health.Validate(); err != nil {
		fail("health: %w", err)
	}
	if a.TopologyManager && a.Mode != Serve {
		c.Notes = append(c.Notes, "--topology-manager: has no effect: another device plugin offers the node's devices to kubelet")
	}
	if c.Flags.DevRoot == "" {
		c.Flags.DevRoot = c.Flags.DriverRoot
	}
	if c.Sharing.TimeSlicing != nil && c.Flags.MIGStrategy != MIGMixed {
		for i, r := range c.Sharing.TimeSlicing.Resources {
			if strings.HasPrefix(r.Name, migPrefix) {
				c.Notes = append(c.Notes, fmt.Sprintf("sharing.timeSlicing.resources[%d]: has no effect: %s is sold with migStrategy mixed only", i, r.Name))
			}
		}
	}
	return errors.Join(errs...)
}
