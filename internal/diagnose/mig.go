package diagnose

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Labels of NVIDIA's MIG manager: what is wanted, and what became of it.
const (
	migConfig = "nvidia.com/mig.config"
	migState  = "nvidia.com/mig.config.state"
)

// mig: the slices that exist are those that are offered, and those that are wanted.
func mig(f *Facts) Result {
	var x finding
	wanted, state := f.Node.Labels[migConfig], f.Node.Labels[migState]
	switch state {
	case "", "success":
	case "pending", "rebooting":
		x.add(Warn, "kubectl -n gpu-operator logs -l app=nvidia-mig-manager", "%s=%s is %s", migConfig, wanted, state)
	default:
		x.add(Fail, "kubectl -n gpu-operator logs -l app=nvidia-mig-manager; drain the node, and set the label again", "%s=%s is %s", migConfig, wanted, state)
	}
	offered := map[string]int64{}
	for name, n := range f.Node.Capacity {
		if profile, ok := strings.CutPrefix(name, "nvidia.com/mig-"); ok {
			offered[profile] = n
		}
	}
	if f.GPUs == nil {
		if len(offered) == 0 && x.state == "" {
			return noGPUNode()
		}
		return x.result(fmt.Sprintf("kubelet offers %d kinds of slices", len(offered)))
	}
	exist, capable, cut := map[string]int64{}, 0, 0
	for _, d := range f.GPUs.Devices {
		if d.MIG {
			capable++
		}
		if d.Cut {
			cut++
		}
		total := 0
		for profile, n := range d.Instances {
			exist[profile] += int64(n)
			total += n
		}
		if d.Cut && total == 0 && !f.GPUs.Serving {
			x.add(Fail, "nvidia-smi mig -i "+itoa(d.Index)+" -cgi PROFILE -C, or nvidia-smi -i "+itoa(d.Index)+" -mig 0", "device %d is in MIG mode and has no slice: no pod can use it", d.Index)
		}
		if d.Cut && total > d.Owned && wanted == "" && f.GPUs.Serving {
			x.add(Warn, "nvidia-smi mig -i "+itoa(d.Index)+" -dci; nvidia-smi mig -i "+itoa(d.Index)+" -dgi, if nothing else uses them", "device %d has %d slices that the agent did not make: it is not cut on demand", d.Index, total-d.Owned)
		}
	}
	if capable == 0 {
		if wanted != "" && wanted != "all-disabled" {
			x.add(Fail, "kubectl label node "+f.Node.Name+" "+migConfig+"-", "%s=%s is wanted, and no device can be cut", migConfig, wanted)
		}
		return x.result("no device can be cut")
	}
	if !f.GPUs.Serving { // else slices are cut as pods need them
		all := maps.Clone(exist)
		maps.Copy(all, offered)
		for _, profile := range slices.Sorted(maps.Keys(all)) {
			if exist[profile] != offered[profile] {
				x.add(Fail, "restart the device plugin with MIG_STRATEGY=mixed; nvidia-smi mig -lgi", "%d slices %s exist, kubelet offers %d", exist[profile], profile, offered[profile])
			}
		}
	}
	return x.result(fmt.Sprintf("%d of %d devices can be cut, %d are in MIG mode, %d slices exist", capable, len(f.GPUs.Devices), cut, sum(exist)))
}

func sum[N int | int64](m map[string]N) (n N) {
	for _, x := range m {
		n += x
	}
	return n
}

// drivers of GPUs that publish ResourceSlices.
var gpuDrivers = []string{"gpu.tangram.dev", "gpu.nvidia.com", "gpu.amd.com", "gpu.intel.com"}

// slicesOf: ResourceSlices say what the GPUNode says.
func slicesOf(f *Facts) Result {
	if f.Slices == nil {
		return Result{State: OK, Seen: "the cluster has no ResourceSlices"}
	}
	var x finding
	byDriver, pools := map[string]int{}, map[string][]Slice{}
	for _, s := range f.Slices {
		if slices.Contains(gpuDrivers, s.Driver) {
			byDriver[s.Driver] += s.Devices
			pools[s.Driver+"/"+s.Pool] = append(pools[s.Driver+"/"+s.Pool], s)
		}
	}
	if len(byDriver) == 0 {
		return Result{State: OK, Seen: "no driver of GPUs publishes ResourceSlices here"}
	}
	if len(byDriver) > 1 {
		x.add(Fail, "run one driver on the node", "%d drivers publish GPUs of the node: %v would be given twice", len(byDriver), slices.Sorted(maps.Keys(byDriver)))
	}
	for _, name := range slices.Sorted(maps.Keys(pools)) {
		list, newest := pools[name], int64(0)
		for _, s := range list {
			newest = max(newest, s.Generation)
		}
		complete := int64(0)
		for _, s := range list {
			if s.Generation == newest {
				complete++
			} else {
				x.add(Warn, "the driver replaces it; if not, restart the driver", "slice %s is of generation %d, the pool of %d", s.Name, s.Generation, newest)
			}
		}
		if n := list[0].Count; n > 0 && complete < n {
			x.add(Fail, "nothing is allocated of an incomplete pool: look at the driver's log", "pool %s has %d of %d slices", name, complete, n)
		}
	}
	for _, d := range []string{"gpu.nvidia.com", "gpu.tangram.dev"} {
		if n, there := byDriver[d]; there && f.GPUs != nil && n < f.GPUs.healthy() {
			x.add(Warn, "look at the driver's log", "%s publishes %d devices, the GPUNode has %d, %d of them healthy", d, n, len(f.GPUs.Devices), f.GPUs.healthy())
		}
	}
	return x.result(fmt.Sprintf("%d devices in slices of %v", sum(byDriver), slices.Sorted(maps.Keys(byDriver))))
}
