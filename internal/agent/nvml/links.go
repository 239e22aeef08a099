//go:build cgo && linux

package nvml

import (
	"context"
	"math"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/tangram-dev/tangram/internal/agent/device"
)

// nvlinks are the NVLinks of one device.
type nvlinks struct {
	// total counts those it has, active or not.
	total int
	// direct counts active ones by the PCI address of the device at the other end.
	direct map[string]int
	// switched counts active ones that end in an NVSwitch.
	switched int
}

func (b *Backend) nvlinks(r *reader, h nvml.Device) nvlinks {
	out := nvlinks{direct: map[string]int{}}
	for i := range nvml.NVLINK_MAX_LINKS {
		state, ok := read(r, "nvmlDeviceGetNvLinkState", with(h.GetNvLinkState, i))
		if !ok {
			break // the driver numbers them without gaps
		}
		out.total++
		if state != nvml.FEATURE_ENABLED {
			continue
		}
		if kind, _ := read(r, "nvmlDeviceGetNvLinkRemoteDeviceType", with(h.GetNvLinkRemoteDeviceType, i)); kind == nvml.NVLINK_DEVICE_TYPE_SWITCH {
			out.switched++
			continue
		}
		// Without a type (older drivers) the address alone says whether it is a GPU here.
		if remote, ok := read(r, "nvmlDeviceGetNvLinkRemotePciInfo_v2", with(h.GetNvLinkRemotePciInfo, i)); ok {
			out.direct[busID(remote)]++
		}
	}
	return out
}

// join says how pairs of devices reach each other. Devices on one NVSwitch are one link
// where all have as many NVLinks; other pairs are listed one by one, SYS not at all.
func (b *Backend) join(ctx context.Context, gpus []*gpu, links []nvlinks) (out []device.Link) {
	var group []int // indexes of the devices on the switch
	fewest, most := math.MaxInt, 0
	for i, l := range links {
		if l.switched > 0 {
			group = append(group, gpus[i].index)
			fewest, most = min(fewest, l.switched), max(most, l.switched)
		}
	}
	even := len(group) > 1 && fewest == most
	if even {
		out = append(out, device.Link{Between: group, Class: "NVSwitch", Count: most})
	}
	for i := range gpus {
		for j := i + 1; j < len(gpus); j++ {
			pair := []int{gpus[i].index, gpus[j].index}
			// Either side may know of a link; a pair that disagrees has the fewer.
			direct := min(links[i].direct[gpus[j].bus()], links[j].direct[gpus[i].bus()])
			switched := min(links[i].switched, links[j].switched)
			switch {
			case direct > 0:
				out = append(out, device.Link{Between: pair, Class: "NVLink", Count: direct})
			case switched > 0:
				if !even {
					out = append(out, device.Link{Between: pair, Class: "NVSwitch", Count: switched})
				}
			default:
				if class := b.ancestor(ctx, gpus[i], gpus[j]); class != "SYS" {
					out = append(out, device.Link{Between: pair, Class: class})
				}
			}
		}
	}
	return out
}

// bus is the PCI address of a device that was described.
func (g *gpu) bus() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.known == nil {
		return ""
	}
	return g.known.PCIBusID
}

// ancestor is the class of the closest PCI component that two devices share; SYS where the driver does not say.
func (b *Backend) ancestor(ctx context.Context, x, y *gpu) string {
	from, _ := x.opened()
	to, _ := y.opened()
	level, err := get(ctx, b, x.lane, "nvmlDeviceGetTopologyCommonAncestor", with(from.GetTopologyCommonAncestor, to))
	if class, ok := ancestors[level]; ok && err == nil {
		return class
	}
	return "SYS"
}
