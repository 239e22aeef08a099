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
