package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// readFile applies a configuration file. All mistakes are returned together.
func readFile(c *Config, name string, text []byte) error {
	if len(text) > 1<<20 {
		return fmt.Errorf("%s: %d bytes, want at most 1 MiB", name, len(text))
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var doc yaml.Node
	if err := decoder.Decode(&doc); errors.Is(err, io.EOF) {
		return nil // an empty file sets nothing
	} else if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if err := decoder.Decode(&yaml.Node{}); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: more than one YAML document", name)
	}
	root := follow(doc.Content[0])
	if isManifest(root) {
		return fmt.Errorf("%s:%d: kind: this is a Kubernetes object; want the text below its data, as a mounted ConfigMap has it", name, root.Line)
	}
	r := &reader{file: name}
	r.root(root, c)
	return errors.Join(r.errs...)
}

func isManifest(n *yaml.Node) bool {
	found := 0
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if k := n.Content[i].Value; k == "apiVersion" || k == "kind" {
			found++
		}
	}
	return found == 2
}

func (r *reader) root(n *yaml.Node, c *Config) {
	r.object(n, "", map[string]field{
		"version": r.text(func(v string) error {
			if v != "v1" {
				return fmt.Errorf("%q: want v1", clip(v))
			}
			return nil
		}),
		"flags":     func(n *yaml.Node, path string) { r.flags(n, path, c) },
		"resources": r.resources,
		"sharing": func(n *yaml.Node, path string) {
			r.object(n, path, map[string]field{
				"timeSlicing": func(n *yaml.Node, path string) {
					c.Sharing.TimeSlicing = r.replicated(n, path, false, maxReplicas)
				},
				"mps": func(n *yaml.Node, path string) { c.Sharing.MPS = r.replicated(n, path, true, maxMPSReplicas) },
			})
		},
		"imex": func(n *yaml.Node, path string) {
			r.object(n, path, map[string]field{
				"channelIDs": func(n *yaml.Node, path string) {
					r.list(n, path, 1, r.integer(0, 0, ": channel 0 is the only one that can be given to all", func(v int) { c.IMEX.Channels = []int{v} }))
				},
				"required": r.boolean(func(v bool) { c.IMEX.Required = v }),
			})
		},
	})
}

// flags reads the section flags: what the table of settings has, and what is known to the
// NVIDIA plugin and means nothing here.
func (r *reader) flags(n *yaml.Node, path string, c *Config) {
	top, plugin := map[string]field{}, map[string]field{}
	for _, s := range settings() {
		if s.field == "" {
			continue
		}
		if name, ok := strings.CutPrefix(s.field, "plugin."); ok {
			plugin[name] = r.setting(s, c)
		} else {
			top[s.field] = r.setting(s, c)
		}
	}
	unused := func(why string) func(string) error {
		return func(string) error { c.Notes = append(c.Notes, why); return nil }
	}
	off := func(name string) field {
		return r.boolean(func(v bool) {
			if v {
				c.Notes = append(c.Notes, name+": has no effect: the agent adds no such devices to containers")
			}
		})
	}
	top["gdrcopyEnabled"] = off("flags.gdrcopyEnabled")
	top["gdsEnabled"] = off("flags.gdsEnabled")
	top["mofedEnabled"] = off("flags.mofedEnabled")
	top["useNodeFeatureAPI"] = r.boolean(func(bool) {
		c.Notes = append(c.Notes, "flags.useNodeFeatureAPI: has no effect: the agent writes node labels itself")
	})
	top["deviceDiscoveryStrategy"] = r.text(func(v string) error {
		if v != "auto" && v != "nvml" {
			return unknownChoice(v, "auto", "nvml")
		}
		return nil
	})
	plugin["cdiAnnotationPrefix"] = r.text(unused("flags.plugin.cdiAnnotationPrefix: has no effect: CDI devices go to kubelet by name"))
	plugin["nvidiaCTKPath"] = r.text(unused("flags.plugin.nvidiaCTKPath: has no effect: no program is run to make CDI specifications"))
	plugin["nvidiaCDIHookPath"] = r.text(unused("flags.plugin.nvidiaCDIHookPath: has no effect: no program is run to make CDI specifications"))
	plugin["sharedDevicesAllocationPolicy"] = r.text(func(v string) error {
		if v != "distributed" && v != "packed" {
			return unknownChoice(v, "distributed", "packed")
		}
		c.Flags.Distributed = v == "distributed"
		return nil
	})
	top["plugin"] = func(n *yaml.Node, path string) { r.object(n, path, plugin) }
	top["gfd"] = func(n *yaml.Node, path string) {
		c.Notes = append(c.Notes, "flags.gfd: has no effect: the agent writes node labels itself")
		text := r.text(func(string) error { return nil })
		r.object(n, path, map[string]field{
			"oneshot": r.boolean(func(bool) {}), "noTimestamp": r.boolean(func(bool) {}), "outputFile": text, "machineTypeFile": text,
			"sleepInterval": r.text(func(v string) error {
				if d, err := time.ParseDuration(v); err != nil || d <= 0 {
					return fmt.Errorf("%q: want a duration such as 60s", clip(v))
				}
				return nil
			}),
		})
	}
	r.object(n, path, top)
}

// setting reads one field of the table.
func (r *reader) setting(s setting, c *Config) field {
	set := func(text string) error { return s.set(c, text) }
	switch {
	case s.boolean:
		return r.boolean(func(v bool) { _ = set(fmt.Sprint(v)) })
	case s.list:
		return func(n *yaml.Node, path string) {
			if n.Kind != yaml.SequenceNode {
				r.text(set)(n, path)
				return
			}
			before := len(r.errs)
			var words []string
			r.list(n, path, 4, r.text(func(v string) error { words = append(words, v); return nil }))
			if len(words) > 0 && len(r.errs) == before {
				if err := set(strings.Join(words, ",")); err != nil {
					r.fail(n, path, "%s", err)
				}
			}
		}
	default:
		return r.text(set)
	}
}

// resources reads the section resources. The NVIDIA plugin ignores other values than its
// own; here they are refused, because nothing would be sold under the name asked for.
func (r *reader) resources(n *yaml.Node, path string) {
	entries := func(check func(pattern, name string) error) field {
		return func(n *yaml.Node, path string) {
			r.list(n, path, 100, func(n *yaml.Node, path string) {
				var pattern, name string
				before := len(r.errs)
				r.object(n, path, map[string]field{
					"pattern": r.text(func(v string) error { pattern = v; return nil }),
					"name":    r.text(func(v string) error { name = qualified(v); return nil }),
				})
				if len(r.errs) > before {
					return
				}
				if err := check(pattern, name); err != nil {
					r.fail(n, path, "%s", err)
				}
			})
		}
	}
	r.object(n, path, map[string]field{
		"gpus": entries(func(pattern, name string) error {
			if pattern != "*" || name != wholeGPU {
				return fmt.Errorf("GPUs cannot be renamed; leave it out, they are sold as %s", wholeGPU)
			}
			return nil
		}),
		"mig": entries(func(pattern, name string) error {
			if want := migPrefix + strings.ReplaceAll(pattern, "+", "."); pattern != "*" && name != want {
				return fmt.Errorf("MIG instances cannot be renamed; leave it out, they are sold as %s", clip(want))
			}
			return nil
		}),
	})
}

const (
	wholeGPU  = "nvidia.com/gpu"
	migPrefix = "nvidia.com/mig-"
)

// migName is such as nvidia.com/mig-1g.10gb or nvidia.com/mig-1g.10gb.me.
var migName = regexp.MustCompile(`^nvidia\.com/mig-[0-9]+g\.[0-9]+gb(\.[a-z0-9.-]+)?$`)

// qualified is a name with its domain, which may be left out.
func qualified(name string) string {
	if strings.Contains(name, "/") {
		return name
	}
	return "nvidia.com/" + name
}

// replicated reads timeSlicing or mps.
func (r *reader) replicated(n *yaml.Node, path string, mps bool, most int) *Replicated {
	out := &Replicated{FailRequestsGreaterThanOne: mps}
	there := false
	before := len(r.errs)
	r.object(n, path, map[string]field{
		"renameByDefault":            r.boolean(func(v bool) { out.RenameByDefault = v }),
		"failRequestsGreaterThanOne": r.boolean(func(v bool) { out.FailRequestsGreaterThanOne = v }),
		"resources": func(n *yaml.Node, path string) {
			there = true
			r.list(n, path, 100, func(n *yaml.Node, path string) {
				if res, ok := r.resource(n, path, mps, most); ok {
					if out.Find(res.Name) != nil {
						r.fail(n, path+".name", "%s is there twice", res.Name)
					}
					out.Resources = append(out.Resources, res)
				}
			})
		},
	})
	if len(r.errs) == before && len(out.Resources) == 0 {
		if there {
			r.fail(n, path+".resources", "is empty; want at least one resource, or leave %s out", path)
		} else {
			r.fail(n, path+".resources", "is missing; want a list such as [{name: %s, replicas: 4}]", wholeGPU)
		}
	}
	return out
}

// resource reads one entry of resources; false when it is wrong.
func (r *reader) resource(n *yaml.Node, path string, mps bool, most int) (Resource, bool) {
	var out Resource
	before := len(r.errs)
	limit := ""
	if mps {
		limit = ": one MPS server has so many clients"
	}
	fields := map[string]field{
		"name": r.text(func(v string) error {
			out.Name = qualified(v)
			if base, shared := strings.CutSuffix(out.Name, ".shared"); shared {
				return fmt.Errorf("%q: want %s; renameByDefault adds .shared", clip(v), clip(base))
			}
			if out.Name != wholeGPU && !migName.MatchString(out.Name) || len(out.Name) > 63 {
				return fmt.Errorf("%q: want %s or %s<profile>", clip(v), wholeGPU, migPrefix)
			}
			if mps && out.Name != wholeGPU {
				return fmt.Errorf("%q: MIG instances cannot be shared with MPS; want %s", clip(v), wholeGPU)
			}
			return nil
		}),
		"replicas": func(n *yaml.Node, path string) {
			r.integer(math.MinInt, most, limit, func(v int) { out.Replicas = v })(n, path)
			if out.Replicas < 2 && len(r.errs) == before {
				r.fail(n, path, "%d, want at least 2; leave the resource out to sell devices whole", out.Replicas)
			}
		},
		"rename": r.text(func(v string) error {
			if v == "" {
				return nil
			}
			return fmt.Errorf("%q: a resource cannot be renamed at will; want renameByDefault: true, which adds .shared", clip(v))
		}),
		"devices": func(n *yaml.Node, path string) {
			if n.Kind != yaml.ScalarNode || n.Value != "all" {
				r.fail(n, path, "%s, want all: a part of a node's devices cannot be shared", describe(n))
			}
		},
	}
	if mps {
		fields["percents"] = func(n *yaml.Node, path string) {
			r.list(n, path, maxMPSReplicas, r.integer(1, 100, "", func(v int) { out.Percents = append(out.Percents, v) }))
		}
	}
	if n.Kind != yaml.MappingNode {
		r.fail(n, path, "%s, want an object with the fields %s", describe(n), known(fields))
		return out, false
	}
	r.object(n, path, fields)
	if len(r.errs) > before {
		return out, false
	}
	total := 0
	for _, p := range out.Percents {
		total += p
	}
	switch {
	case out.Name == "":
		r.fail(n, path+".name", "is missing; want such as %s", wholeGPU)
	case out.Replicas == 0:
		r.fail(n, path+".replicas", "is missing; want 2 or more")
	case len(out.Percents) > 0 && len(out.Percents) != out.Replicas:
		r.fail(n, path+".percents", "%d values, want one for each of the %d replicas", len(out.Percents), out.Replicas)
	case total > 100:
		r.fail(n, path+".percents", "%d %% in total, want at most 100", total)
	}
	return out, len(r.errs) == before
}
