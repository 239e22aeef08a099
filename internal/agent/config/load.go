package config

import (
	"errors"
	"flag"
	"fmt"
	"strings"
)

// configFileFlag and configFileVariable name the file.
const (
	configFileFlag     = "config-file"
	configFileVariable = "CONFIG_FILE"
)

// unusedVariables are the NVIDIA plugin's that mean nothing here, as their fields.
var unusedVariables = []string{"GDRCOPY_ENABLED", "GDS_ENABLED", "MOFED_ENABLED", "CDI_ANNOTATION_PREFIX", "NVIDIA_CTK_PATH",
	"NVIDIA_CDI_HOOK_PATH", "USE_NODE_FEATURE_API", "KUBELET_SOCKET", "DP_DISABLE_HEALTHCHECKS", "DP_ENABLE_HEALTHCHECKS"}

// Loader collects what flags say until Load is called.
type Loader struct {
	file  string
	given map[string]string
}

// Register adds all flags to a set; those that were given go before everything else.
// (For cobra: flags.AddGoFlagSet.)
func (l *Loader) Register(flags *flag.FlagSet) {
	l.given = map[string]string{}
	flags.StringVar(&l.file, configFileFlag, "", fmt.Sprintf("configuration file of the NVIDIA device plugin, version v1 [%s]", configFileVariable))
	for _, s := range settings(Default()) {
		help := s.help
		if len(s.env) > 0 {
			help += fmt.Sprintf(" [%s]", s.env[0])
		}
		set := func(text string) error {
			l.given[s.flag] = text
			return s.set(text) // refuse at once what cannot be right
		}
		if s.boolean {
			flags.BoolFunc(s.flag, help, set)
		} else {
			flags.Func(s.flag, help, set)
		}
	}
}

// Sources are where settings come from beside flags; os.LookupEnv and os.ReadFile.
type Sources struct {
	Env  func(name string) (string, bool)
	Read func(path string) ([]byte, error)
}

// Load puts all sources together. An error names each wrong field, variable or flag.
func (l *Loader) Load(from Sources) (*Config, error) {
	c := Default()
	var errs []error
	file := l.file
	if file == "" {
		file, _ = from.Env(configFileVariable)
	}
	if file != "" {
		text, err := from.Read(file)
		if err != nil {
			return nil, fmt.Errorf("configuration file: %w", err)
		}
		if err := readFile(c, file, text); err != nil {
			errs = append(errs, err)
		}
	}
	for _, s := range settings(c) {
		for _, name := range s.env {
			// An empty variable is not set: manifests leave them empty to say so.
			text, _ := from.Env(name)
			if text = strings.TrimSpace(text); text == "" {
				continue
			}
			if err := s.set(text); err != nil {
				errs = append(errs, fmt.Errorf("environment variable %s: %w", name, err))
			}
			break
		}
		if text, ok := l.given[s.flag]; ok {
			if err := s.set(text); err != nil {
				errs = append(errs, fmt.Errorf("--%s: %w", s.flag, err))
			}
		}
	}
	for _, name := range unusedVariables {
		if text, _ := from.Env(name); text != "" {
			c.Notes = append(c.Notes, fmt.Sprintf("environment variable %s: has no effect", name))
		}
	}
	if len(errs) == 0 {
		if err := c.check(); err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return c, nil
}

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
