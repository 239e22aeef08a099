package config

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/tangram-dev/tangram/internal/strictyaml"
)

// readFile applies a configuration file. All mistakes are returned together.
func readFile(c *Config, name string, text []byte) error {
	r, root := strictyaml.Parse(name, text)
	switch f := (&file{r, c}); {
	case root == nil: // an empty file sets nothing
	case isManifest(root):
		f.Fail(root, "kind", "this is a Kubernetes object; want the text below its data, as a mounted ConfigMap has it")
	default:
		f.root(root)
	}
	return r.Err()
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

// file reads a configuration file into settings.
type file struct {
	*strictyaml.Reader
	c *Config
}

// object reads an object of these fields.
func (f *file) object(fields strictyaml.Fields) strictyaml.Field {
	return func(n *yaml.Node, path string) { f.Object(n, path, fields) }
}

// text reads a string and passes it on; an error is the field's mistake.
func (f *file) text(set func(string) error) strictyaml.Field {
	return func(n *yaml.Node, path string) {
		if v, ok := f.Text(n, path); ok {
			if err := set(v); err != nil {
				f.Fail(n, path, "%s", err)
			}
		}
	}
}

// oneOf reads one of some words.
func (f *file) oneOf(to *string, words ...string) strictyaml.Field {
	return f.text(func(v string) error {
		if *to = v; slices.Contains(words, v) {
			return nil
		}
		return unknownChoice(v, words...)
	})
}

func (f *file) boolean(to *bool) strictyaml.Field {
	return func(n *yaml.Node, path string) { *to = f.Bool(n, path) }
}

// unused reads a field that the NVIDIA plugin has and that means nothing here: a switch, which
// is noted when it is on, or a text.
func (f *file) unused(isSwitch bool, why string) strictyaml.Field {
	return func(n *yaml.Node, path string) {
		set := isSwitch && f.Bool(n, path)
		if !isSwitch {
			_, set = f.Text(n, path)
		}
		if set {
			f.c.Notes = append(f.c.Notes, path+": has no effect: "+why)
		}
	}
}

func (f *file) root(n *yaml.Node) {
	c := f.c
	f.Object(n, "", strictyaml.Fields{
		"version": f.text(func(v string) error {
			if v != "v1" {
				return fmt.Errorf("%q: want v1", strictyaml.Clip(v))
			}
			return nil
		}),
		"flags":     f.flags,
		"resources": f.resources(),
		"sharing": f.object(strictyaml.Fields{
			"timeSlicing": func(n *yaml.Node, path string) { c.Sharing.TimeSlicing = f.replicated(n, path, false, maxReplicas) },
			"mps":         func(n *yaml.Node, path string) { c.Sharing.MPS = f.replicated(n, path, true, maxMPSReplicas) },
		}),
		"imex": f.object(strictyaml.Fields{
			"channelIDs": func(n *yaml.Node, path string) {
				f.List(n, path, 1, func(n *yaml.Node, path string) {
					if v, ok := f.Int(n, path, 0, 0, ": channel 0 is the only one that can be given to all"); ok {
						c.IMEX.Channels = []int{v}
					}
				})
			},
			"required": f.boolean(&c.IMEX.Required),
		}),
	})
}

// flags reads the section flags: what the table of settings has, and what is known to the
// NVIDIA plugin and means nothing here.
func (f *file) flags(n *yaml.Node, path string) {
	const (
		noDevices = "the agent adds no such devices to containers"
		noProgram = "no program is run to make CDI specifications"
		ownLabels = "the agent writes node labels itself"
	)
	var discovery, policy string
	top := strictyaml.Fields{
		"gdrcopyEnabled": f.unused(true, noDevices), "gdsEnabled": f.unused(true, noDevices), "mofedEnabled": f.unused(true, noDevices),
		"useNodeFeatureAPI":       f.unused(true, ownLabels),
		"deviceDiscoveryStrategy": f.oneOf(&discovery, "auto", "nvml"),
		"gfd":                     func(n *yaml.Node, path string) { f.gfd(n, path, ownLabels) },
	}
	plugin := strictyaml.Fields{
		"cdiAnnotationPrefix": f.unused(false, "CDI devices go to kubelet by name"),
		"nvidiaCTKPath":       f.unused(false, noProgram), "nvidiaCDIHookPath": f.unused(false, noProgram),
		"sharedDevicesAllocationPolicy": f.oneOf(&policy, "distributed", "packed"),
	}
	for _, s := range settings(f.c) {
		if name, ok := strings.CutPrefix(s.field, "plugin."); ok {
			plugin[name] = f.setting(s)
		} else if s.field != "" {
			top[s.field] = f.setting(s)
		}
	}
	top["plugin"] = f.object(plugin)
	f.Object(n, path, top)
	f.c.Flags.Distributed = policy == "distributed"
}

// gfd reads the settings of GPU Feature Discovery, which have no effect.
func (f *file) gfd(n *yaml.Node, path, why string) {
	f.c.Notes = append(f.c.Notes, path+": has no effect: "+why)
	var ignored bool
	text := f.text(func(string) error { return nil })
	f.Object(n, path, strictyaml.Fields{
		"oneshot": f.boolean(&ignored), "noTimestamp": f.boolean(&ignored), "outputFile": text, "machineTypeFile": text,
		"sleepInterval": f.text(func(v string) error {
			if d, err := time.ParseDuration(v); err != nil || d <= 0 {
				return fmt.Errorf("%q: want a duration such as 60s", strictyaml.Clip(v))
			}
			return nil
		}),
	})
}

// setting reads one field of the table.
func (f *file) setting(s setting) strictyaml.Field {
	switch {
	case s.boolean:
		return func(n *yaml.Node, path string) { _ = s.set(fmt.Sprint(f.Bool(n, path))) }
	case s.list:
		return func(n *yaml.Node, path string) {
			if n.Kind != yaml.SequenceNode {
				f.text(s.set)(n, path)
				return
			}
			var words []string
			whole := true
			f.List(n, path, 4, func(n *yaml.Node, path string) {
				word, ok := f.Text(n, path)
				words, whole = append(words, word), whole && ok
			})
			if len(words) > 0 && whole {
				if err := s.set(strings.Join(words, ",")); err != nil {
					f.Fail(n, path, "%s", err)
				}
			}
		}
	default:
		return f.text(s.set)
	}
}

// resources reads the section resources. The NVIDIA plugin ignores other values than its
// own; here they are refused, because nothing would be sold under the name asked for.
func (f *file) resources() strictyaml.Field {
	entries := func(check func(pattern, name string) error) strictyaml.Field {
		return func(n *yaml.Node, path string) {
			f.List(n, path, 100, func(n *yaml.Node, path string) {
				var pattern, name string
				before := len(f.Problems())
				f.Object(n, path, strictyaml.Fields{
					"pattern": f.text(func(v string) error { pattern = v; return nil }),
					"name":    f.text(func(v string) error { name = qualified(v); return nil }),
				})
				if err := check(pattern, name); err != nil && len(f.Problems()) == before {
					f.Fail(n, path, "%s", err)
				}
			})
		}
	}
	return f.object(strictyaml.Fields{
		"gpus": entries(func(pattern, name string) error {
			if pattern != "*" || name != wholeGPU {
				return fmt.Errorf("GPUs cannot be renamed; leave it out, they are sold as %s", wholeGPU)
			}
			return nil
		}),
		"mig": entries(func(pattern, name string) error {
			if want := migPrefix + strings.ReplaceAll(pattern, "+", "."); pattern != "*" && name != want {
				return fmt.Errorf("MIG instances cannot be renamed; leave it out, they are sold as %s", strictyaml.Clip(want))
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
func (f *file) replicated(n *yaml.Node, path string, mps bool, most int) *Replicated {
	out := &Replicated{FailRequestsGreaterThanOne: mps}
	before := len(f.Problems())
	present := f.Object(n, path, strictyaml.Fields{
		"renameByDefault":            f.boolean(&out.RenameByDefault),
		"failRequestsGreaterThanOne": f.boolean(&out.FailRequestsGreaterThanOne),
		"resources": func(n *yaml.Node, path string) {
			f.List(n, path, 100, func(n *yaml.Node, path string) {
				if res, ok := f.resource(n, path, mps, most); ok {
					if out.Find(res.Name) != nil {
						f.Fail(n, path+".name", "%s is there twice", res.Name)
					}
					out.Resources = append(out.Resources, res)
				}
			})
		},
	})
	switch {
	case len(f.Problems()) > before || len(out.Resources) > 0:
	case present["resources"] != nil:
		f.Fail(n, path+".resources", "is empty; want at least one resource, or leave %s out", path)
	default:
		f.Fail(n, path+".resources", "is missing; want a list such as [{name: %s, replicas: 4}]", wholeGPU)
	}
	return out
}

// resource reads one entry of resources; false when it is wrong.
func (f *file) resource(n *yaml.Node, path string, mps bool, most int) (Resource, bool) {
	var out Resource
	before := len(f.Problems())
	limit := ""
	if mps {
		limit = ": one MPS server has so many clients"
	}
	fields := strictyaml.Fields{
		"name": f.text(func(v string) (err error) {
			out.Name, err = sharable(v, mps)
			return err
		}),
		"replicas": func(n *yaml.Node, path string) {
			v, ok := f.Int(n, path, math.MinInt, most, limit)
			if out.Replicas = v; ok && v < 2 {
				f.Fail(n, path, "%d, want at least 2; leave the resource out to sell devices whole", v)
			}
		},
		"rename": f.text(func(v string) error {
			if v == "" {
				return nil
			}
			return fmt.Errorf("%q: a resource cannot be renamed at will; want renameByDefault: true, which adds .shared", strictyaml.Clip(v))
		}),
		"devices": func(n *yaml.Node, path string) {
			if n.Kind != yaml.ScalarNode || n.Value != "all" {
				f.Fail(n, path, "%s, want all: a part of a node's devices cannot be shared", strictyaml.Describe(n))
			}
		},
	}
	if mps {
		fields["percents"] = func(n *yaml.Node, path string) {
			f.List(n, path, maxMPSReplicas, func(n *yaml.Node, path string) {
				v, _ := f.Int(n, path, 1, 100, "")
				out.Percents = append(out.Percents, v)
			})
		}
	}
	f.Object(n, path, fields)
	if len(f.Problems()) > before {
		return out, false
	}
	total := 0
	for _, p := range out.Percents {
		total += p
	}
	switch {
	case out.Name == "":
		f.Fail(n, path+".name", "is missing; want such as %s", wholeGPU)
	case out.Replicas == 0:
		f.Fail(n, path+".replicas", "is missing; want 2 or more")
	case len(out.Percents) > 0 && len(out.Percents) != out.Replicas:
		f.Fail(n, path+".percents", "%d values, want one for each of the %d replicas", len(out.Percents), out.Replicas)
	case total > 100:
		f.Fail(n, path+".percents", "%d %% in total, want at most 100", total)
	}
	return out, len(f.Problems()) == before
}

// sharable is the full name of a resource that can be sold in turns, by MPS or time-slicing.
func sharable(name string, mps bool) (string, error) {
	full := qualified(name)
	if base, shared := strings.CutSuffix(full, ".shared"); shared {
		return full, fmt.Errorf("%q: want %s; renameByDefault adds .shared", strictyaml.Clip(name), strictyaml.Clip(base))
	}
	if full != wholeGPU && !migName.MatchString(full) || len(full) > 63 {
		return full, fmt.Errorf("%q: want %s or %s<profile>", strictyaml.Clip(name), wholeGPU, migPrefix)
	}
	if mps && full != wholeGPU {
		return full, fmt.Errorf("%q: MIG instances cannot be shared with MPS; want %s", strictyaml.Clip(name), wholeGPU)
	}
	return full, nil
}
