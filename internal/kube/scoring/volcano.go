package scoring

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/score"
	"github.com/tangram-dev/tangram/internal/dialect"
)

// VolcanoArgs are arguments of Volcano's plugins binpack and deviceshare under their own
// names, so that a configuration can be taken over: {binpack.resources.nvidia.com/gpu: 10,
// deviceshare.SchedulePolicy: binpack}. Numbers may be quoted.
type VolcanoArgs map[string]any

// Volcano is what such arguments mean here.
type Volcano struct {
	Placement model.Placement // the direction in which nodes and devices are filled; Auto: not said
	Weight    int             // that of the objective utilization; 0: not said
	// Resources are weights of resources by which NodeResourcesFit packs; nil: unchanged.
	Resources map[string]int64
}

// maxResourceWeight is kube-scheduler's own bound.
const maxResourceWeight = 100

// read checks the arguments. An error names the field.
func (a VolcanoArgs) read() (v Volcano, err error) {
	packs := false
	for _, key := range slices.Sorted(maps.Keys(a)) {
		value := a[key]
		fail := func(format string, args ...any) (Volcano, error) {
			return Volcano{}, fmt.Errorf("volcano[%s]: %s", key, fmt.Sprintf(format, args...))
		}
		switch plugin, name, _ := strings.Cut(key, "."); {
		case plugin == "binpack" && name == "resources":
			// The list of the names that binpack.resources.NAME gives weights to.
			for resource := range strings.SplitSeq(fmt.Sprint(value), ",") {
				if resource = strings.TrimSpace(resource); a["binpack.resources."+resource] == nil {
					v.add(resource, 1)
				}
			}
		case plugin == "binpack" && name == "weight":
			n, ok := number(value)
			if !ok || n < 0 {
				return fail("%v is not a weight", value)
			}
			packs = n > 0
		case plugin == "binpack":
			n, ok := number(value)
			resource := strings.TrimPrefix(name, "resources.")
			if !ok || n < 0 || n > maxResourceWeight {
				return fail("%v is not a weight from 0 to %d", value, maxResourceWeight)
			}
			if resource == name && name != "cpu" && name != "memory" {
				return fail("unknown; there are binpack.weight, binpack.cpu, binpack.memory, binpack.resources and binpack.resources.NAME")
			}
			if n > 0 {
				v.add(resource, n)
			}
		case plugin == "deviceshare":
			if err := v.deviceshare(name, value); err != nil {
				return fail("%v", err)
			}
		default:
			return fail("unknown; arguments of Volcano's plugins binpack and deviceshare can be given")
		}
	}
	if packs && v.Placement == model.Auto {
		v.Placement = model.Binpack
	}
	if weight, given := a["binpack.weight"]; given && !packs {
		if n, _ := number(weight); n == 0 {
			v.Resources = nil // the plugin is off
		}
	}
	return v, nil
}

func (v *Volcano) add(resource string, weight int64) {
	if v.Resources == nil {
		v.Resources = map[string]int64{}
	}
	v.Resources[resource] = weight
}

// deviceshare reads one argument of that plugin.
func (v *Volcano) deviceshare(name string, value any) (err error) {
	switch name {
	case "SchedulePolicy":
		if text := fmt.Sprint(value); text != "" {
			v.Placement, err = dialect.ParsePlacement(text)
		}
	case "ScheduleWeight":
		n, ok := number(value)
		if !ok || n < 0 || n > 1000 {
			return fmt.Errorf("%v is not a weight from 0 to 1000", value)
		}
		v.Weight = int(n)
	case "GPUSharingEnable", "GPUNumberEnable", "VGPUEnable", "AscendHAMiVNPUEnable":
		if on, ok := boolean(value); !ok || !on {
			return fmt.Errorf("%v: all vocabularies are read, none can be switched off; leave it out", value)
		}
	case "NodeLockEnable":
		if on, ok := boolean(value); !ok || on {
			return fmt.Errorf("%v: nodes are not locked; a device is bound to its pod by the record", value)
		}
	case "GPUExclusiveRules":
		return fmt.Errorf("not supported; the annotation tangram.dev/device-affinity keeps pods apart")
	case "KnownGeometriesCMName", "KnownGeometriesCMNamespace":
		return fmt.Errorf("not supported; MIG geometries are those that the node's agent reads of its GPUs")
	default:
		return fmt.Errorf("not supported")
	}
	return err
}

// number reads a whole number, also a quoted one.
func number(value any) (int64, bool) {
	switch n := value.(type) {
	case int64:
		return n, true
	case float64:
		return int64(n), n == float64(int64(n))
	case string:
		i, err := strconv.ParseInt(n, 10, 64)
		return i, err == nil
	}
	return 0, false
}

func boolean(value any) (on, ok bool) {
	switch b := value.(type) {
	case bool:
		return b, true
	case string:
		on, err := strconv.ParseBool(b)
		return on, err == nil
	}
	return false, false
}

// NodeResources are the weights of the resources by which nodes are packed; nil when the
// arguments say nothing of them, or are invalid, which Settings reports.
func (a *Args) NodeResources() map[string]int64 {
	v, _ := a.Volcano.read() // nothing after an error
	return v.Resources
}

// apply adds what Volcano's arguments say to settings, where Tangram's own say nothing.
func (v *Volcano) apply(a *Args, s *Settings) {
	if s.Placements.Otherwise == model.Auto {
		s.Placements.Otherwise = v.Placement
	}
	if a.Weights == nil && v.Weight > 0 {
		s.Weights[score.Utilization] = v.Weight
	}
}
