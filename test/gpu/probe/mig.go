package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/tangram-dev/tangram/internal/agent/device"
	"github.com/tangram-dev/tangram/test/gpu/report"
)

// mig cuts the device, uses the cuts and joins it again.
func (p *probe) mig(s *report.Section) (err error) {
	if p.gpu.MIG == nil {
		s.Printf("The device has no MIG.")
		return nil
	}
	whole, err := p.work("", "-seconds", "1")
	if err != nil {
		return err
	}
	began := time.Now()
	if err := p.backend.SetMIG(p.ctx, p.gpu.UUID, true); err != nil {
		return err
	}
	s.Printf("MIG mode was turned on in %s, without a reset.", time.Since(began).Round(time.Millisecond))
	defer func() {
		// Also after the context: the device must not stay cut.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(p.ctx), time.Minute)
		defer cancel()
		before := p.ctx
		p.ctx = ctx
		defer func() { p.ctx = before }()
		err = errors.Join(err, p.clear())
		began := time.Now()
		off := p.backend.SetMIG(ctx, p.gpu.UUID, false)
		s.Check(off == nil, "MIG mode was turned off again in %s: %v", time.Since(began).Round(time.Millisecond), off)
	}()
	for _, step := range []func(*report.Section, result) error{p.profiles, p.layout, p.placement, p.latency, p.many} {
		if err := step(s, whole); err != nil {
			return err
		}
		if err := p.clear(); err != nil {
			return err
		}
	}
	return nil
}

// device reads the device anew.
func (p *probe) device() (device.Device, error) {
	inv, err := p.backend.Inventory(p.ctx)
	if err != nil {
		return device.Device{}, err
	}
	d := inv.Find(p.gpu.UUID)
	if d == nil || d.MIG == nil {
		return device.Device{}, fmt.Errorf("the device is gone from the inventory")
	}
	return *d, nil
}

// clear destroys all instances.
func (p *probe) clear() error {
	d, err := p.device()
	if err != nil {
		return err
	}
	for _, i := range d.MIG.Instances {
		if err := p.backend.DestroyInstance(p.ctx, d.UUID, i.GPUInstance); err != nil {
			return err
		}
	}
	return nil
}

// cut makes an instance of the plain profile with so many compute slices.
func (p *probe) cut(slices string, start int) (device.Instance, error) {
	for _, f := range p.gpu.MIG.Profiles {
		if f.Name == p.name(slices) {
			return p.backend.CreateInstance(p.ctx, p.gpu.UUID, f.ID, start)
		}
	}
	return device.Instance{}, fmt.Errorf("no profile with %s", slices)
}

// name is the full name of the plain profile with so many compute slices ("4g").
func (p *probe) name(slices string) string {
	for _, f := range p.gpu.MIG.Profiles {
		if strings.HasPrefix(f.Name, slices+".") && !strings.ContainsAny(f.Name, "+-") && (slices != "1g" || f.Size <= 1) {
			return f.Name
		}
	}
	return slices
}

// profiles compares profiles and placements with nvidia-smi, with MIG on.
func (p *probe) profiles(s *report.Section, _ result) error {
	d, err := p.device()
	if err != nil {
		return err
	}
	off := p.gpu.MIG.Profiles
	p.gpu = d
	list, err := p.smi("mig", "-lgip", "-i", d.UUID)
	if err != nil {
		return err
	}
	places, err := p.smi("mig", "-lgipp", "-i", d.UUID)
	if err != nil {
		return err
	}
	s.Printf("\n### Profiles, against nvidia-smi mig -lgip and -lgipp")
	s.Table("profile", "id", "SMs", "MiB", "compute slices", "starts", "size", "")
	for _, f := range d.MIG.Profiles {
		row := regexp.MustCompile(`MIG ` + regexp.QuoteMeta(f.Name) + `\s+(\d+)\s+\d+/\d+\s+([\d.]+)\s+\S+\s+(\d+)`).FindStringSubmatch(list)
		place := regexp.MustCompile(fmt.Sprintf(`Profile ID\s+%d Placements?\s*: \{([\d,]+)\}:(\d+)`, f.ID)).FindStringSubmatch(places)
		ok := row != nil && place != nil && row[1] == strconv.Itoa(f.ID) && row[3] == strconv.Itoa(f.SMs) &&
			row[2] == fmt.Sprintf("%.2f", float64(f.MemoryMiB)/1024) &&
			place[1] == strings.Trim(strings.ReplaceAll(fmt.Sprint(f.Starts), " ", ","), "[]") && place[2] == strconv.Itoa(f.Size)
		s.Row(f.Name, strconv.Itoa(f.ID), strconv.Itoa(f.SMs), fmt.Sprint(f.MemoryMiB), strconv.Itoa(f.ComputeSlices), fmt.Sprint(f.Starts), strconv.Itoa(f.Size), s.Count(ok))
	}
	s.Printf("")
	s.Check(len(d.MIG.Profiles) == strings.Count(list, "  MIG "), "nvidia-smi lists as many profiles: %d", strings.Count(list, "  MIG "))
	s.Check(fmt.Sprint(off) == fmt.Sprint(d.MIG.Profiles), "with MIG off the agent listed the same profiles and placements")
	return nil
}

// layout makes three instances at planned places and works on all at once.
func (p *probe) layout(s *report.Section, whole result) error {
	plan := []struct {
		profile string
		start   int
	}{{"1g", 6}, {"4g", 0}, {"2g", 4}}
	s.Printf("\n### A layout at planned places, used, destroyed")
	var made []device.Instance
	for _, want := range plan {
		i, err := p.cut(want.profile, want.start)
		if err != nil {
			return err
		}
		s.Check(i.Start == want.start && i.UUID != "", "%s was asked for at slice %d and is at %d, with the UUID %s", i.Profile, want.start, i.Start, i.UUID)
		made = append(made, i)
	}
	list, err := p.smi("mig", "-lgi", "-i", p.gpu.UUID)
	if err != nil {
		return err
	}
	known, err := p.smi("-L")
	if err != nil {
		return err
	}
	for _, i := range made {
		row := regexp.MustCompile(fmt.Sprintf(`MIG %s\s+%d\s+%d\s+%d:%d\s`, regexp.QuoteMeta(i.Profile), i.ProfileID, i.GPUInstance, i.Start, i.Size))
		s.Check(row.MatchString(list) && strings.Contains(known, i.UUID), "nvidia-smi shows instance %d, %s at %d:%d, and its UUID", i.GPUInstance, i.Profile, i.Start, i.Size)
	}

	s.Printf("\nAll three work at the same time; each also tries to allocate 92 %% of its memory, and once more than it has.")
	s.Table("instance", "SMs seen", "of profile", "TFLOP/s", "of the whole's %, SMs' share %", "92 % of memory", "110 %", "")
	jobs := make([]*job, len(made))
	for n, i := range made {
		if jobs[n], err = p.start(p.ctx, i.UUID, "-seconds", "3", "-allocate-mib", fmt.Sprint(i.MemoryMiB*92/100)); err != nil {
			return err
		}
	}
	for _, j := range jobs {
		<-j.ready
	}
	busy := p.backend.DestroyInstance(p.ctx, p.gpu.UUID, made[0].GPUInstance)
	sampled, err := p.sample()
	if err != nil {
		return err
	}
	results := make([]result, len(made))
	for n, j := range jobs {
		if results[n], err = j.wait(); err != nil {
			return err
		}
	}
	for n, i := range made {
		r := results[n]
		over, err := p.work(i.UUID, "-seconds", "0", "-allocate-mib", fmt.Sprint(i.MemoryMiB*110/100))
		if err != nil {
			return err
		}
		sms := 0
		for _, f := range p.gpu.MIG.Profiles {
			if f.ID == i.ProfileID {
				sms = f.SMs
			}
		}
		share, part := 100*r.TFLOPS/whole.TFLOPS, 100*float64(r.SMs)/float64(whole.SMs)
		ok := r.SMs == sms && r.Allocated && !over.Allocated && r.Devices == 1
		s.Row(fmt.Sprintf("%s@%d", i.Profile, i.Start), fmt.Sprint(r.SMs), fmt.Sprint(sms), fmt.Sprintf("%.1f", r.TFLOPS),
			fmt.Sprintf("%.0f, %.0f", share, part), granted(r), granted(over), s.Count(ok))
	}
	s.Printf("\nThe whole GPU alone reached %.1f TFLOP/s on %d SMs.\n", whole.TFLOPS, whole.SMs)
	for n, i := range made {
		values := sampled.Instances[i.UUID]
		used, pids := values[device.MemoryUsed], []int{}
		for _, process := range sampled.Processes {
			if process.Instance == i.UUID {
				pids = append(pids, process.PID)
			}
		}
		s.Check(used > float64(i.MemoryMiB)*0.9 && slices.Equal(pids, []int{results[n].PID}),
			"sampled while they worked: %s uses %.0f MiB, process %v (it was %d)", i.Profile, used, pids, results[n].PID)
	}
	s.Check(errors.Is(busy, device.ErrBusy), "destroying %s while it was used was refused: %v", made[0].Profile, busy)

	edits, err := p.backend.Edits(p.ctx, []string{made[0].UUID})
	if err != nil {
		return err
	}
	r, err := p.contained(edits, "-seconds", "0.5")
	s.Check(err == nil && r.Devices == 1 && r.SMs == results[0].SMs,
		"a container with the edits of %s alone (%s) and no CUDA_VISIBLE_DEVICES sees %d device with %d SMs; error: %v",
		made[0].Profile, strings.Join(nodePaths(edits), " "), r.Devices, r.SMs, err)
	where := device.Event{GPUInstance: made[0].GPUInstance, ComputeInstance: made[0].ComputeInstance}
	if err := p.provoke(s, "address", made[0].UUID, where); err != nil {
		return err
	}
	if err := p.clear(); err != nil {
		return err
	}
	d, err := p.device()
	if err != nil {
		return err
	}
	list, _ = p.smi("mig", "-lgi", "-i", p.gpu.UUID) // fails where there is none
	s.Check(len(d.MIG.Instances) == 0 && strings.Contains(list, "No GPU instances found"), "after destroying them neither the agent nor nvidia-smi lists any")
	return nil
}

func granted(r result) string {
	if r.Allocated {
		return fmt.Sprintf("%d MiB granted", r.AllocateMiB)
	}
	return fmt.Sprintf("%d MiB refused (%s)", r.AllocateMiB, r.AllocateError)
}

// placement shows that where the first instance lies decides what fits besides.
func (p *probe) placement(s *report.Section, _ result) error {
	s.Printf("\n### A second layout that fits only because of where the first was placed")
	for _, test := range []struct {
		first int
		fits  bool
	}{{6, true}, {0, false}} {
		if err := p.clear(); err != nil {
			return err
		}
		first, err := p.cut("1g", test.first)
		if err != nil {
			return err
		}
		large, failed := p.cut("4g", 0)
		if test.fits {
			s.Check(failed == nil, "%s at %d leaves room for %s at %d", first.Profile, first.Start, p.name("4g"), large.Start)
			third, failed := p.cut("2g", 4)
			s.Check(failed == nil, "and for %s at %d", p.name("2g"), third.Start)
			r, err := p.work(large.UUID, "-seconds", "0")
			s.Check(err == nil && r.SMs > 0, "a program runs on the %s (%d SMs)", large.Profile, r.SMs)
		} else {
			s.Check(errors.Is(failed, device.ErrBusy), "%s at %d instead, with six of seven compute slices free, leaves none for %s: %v", first.Profile, first.Start, p.name("4g"), failed)
		}
	}
	if err := p.clear(); err != nil {
		return err
	}
	// Where the driver itself would put it, without a place: what others do.
	d, err := p.device()
	if err != nil {
		return err
	}
	i := slices.IndexFunc(d.MIG.Profiles, func(f device.Profile) bool { return f.Name == p.name("1g") })
	if _, err := p.smi("mig", "-i", d.UUID, "-cgi", strconv.Itoa(d.MIG.Profiles[i].ID)); err != nil {
		return err
	}
	if d, err = p.device(); err != nil {
		return err
	}
	for _, made := range d.MIG.Instances {
		_, failed := p.cut("4g", 0)
		s.Printf("- for comparison: without a place the driver puts %s at %d; %s then: %s", made.Profile, made.Start, p.name("4g"), orFits(failed))
	}
	return nil
}

func orFits(err error) string {
	if err == nil {
		return "fits"
	}
	return "does not fit"
}

// latency measures from the request to the first kernel.
func (p *probe) latency(s *report.Section, _ result) error {
	s.Printf("\n### Time from request to usable")
	s.Printf("From the call of CreateInstance to the end of the first kernel of a CUDA program that is started")
	s.Printf("as soon as the instance exists; the program compiles its kernel from PTX.")
	s.Table("profile", "runs", "CreateInstance: median (worst)", "to the first kernel: median (worst)", "DestroyInstance: median (worst)")
	const runs = 5
	p.calls.reset()
	for _, profile := range []struct {
		name  string
		start int
	}{{"1g", 6}, {"4g", 0}, {"7g", 0}} {
		var create, usable, destroy []time.Duration
		for range runs {
			began := time.Now()
			i, err := p.cut(profile.name, profile.start)
			if err != nil {
				return err
			}
			create = append(create, time.Since(began))
			r, err := p.work(i.UUID, "-seconds", "0")
			if err != nil {
				return err
			}
			usable = append(usable, time.UnixMicro(int64(r.FirstKernel*1e6)).Sub(began))
			began = time.Now()
			if err := p.backend.DestroyInstance(p.ctx, p.gpu.UUID, i.GPUInstance); err != nil {
				return err
			}
			destroy = append(destroy, time.Since(began))
		}
		s.Row(p.name(profile.name), fmt.Sprint(runs), spread(create), spread(usable), spread(destroy))
	}
	s.Printf("\nThe driver's calls of these %d creations and destructions that take longest:", 3*runs)
	s.Table("function", "calls", "mean")
	byCall := p.calls.reset()
	for _, t := range byCall[:min(6, len(byCall))] {
		s.Row("`"+t.name+"`", fmt.Sprint(t.count), (t.took / time.Duration(t.count)).Round(time.Microsecond).String())
	}
	return nil
}

// many measures sampling of a device with as many instances as it can have.
func (p *probe) many(s *report.Section, _ result) error {
	s.Printf("\n### What sampling costs with seven instances")
	var made []device.Instance
	for start := range 7 {
		i, err := p.cut("1g", start)
		if err != nil {
			return err
		}
		made = append(made, i)
	}
	began := time.Now()
	if _, err := p.device(); err != nil {
		return err
	}
	first := time.Since(began)
	began = time.Now()
	if _, err := p.device(); err != nil {
		return err
	}
	s.Printf("The first inventory took %s, the next %s.", first.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
	for _, busy := range []bool{false, true} {
		var jobs []*job
		if busy {
			for _, i := range made {
				j, err := p.start(p.ctx, i.UUID, "-seconds", "4")
				if err != nil {
					return err
				}
				jobs = append(jobs, j)
			}
			for _, j := range jobs {
				<-j.ready
			}
		}
		began := time.Now()
		if _, err := p.sample(); err != nil {
			return err
		}
		s.Printf("\nInstances at work: %d. The first sample took %s; after it:", len(jobs), time.Since(began).Round(time.Millisecond))
		share, err := p.measure(s, 50)
		if err != nil {
			return err
		}
		if !busy {
			s.Check(share < 0.01, "under 1 %% of a core at 8 GPUs with 56 idle instances and a sample every 10 s")
		}
		sampled, err := p.sample()
		if err != nil {
			return err
		}
		s.Check(len(sampled.Instances) == 7 && len(sampled.Processes) == len(jobs), "%d instances are told apart, with %d processes", len(sampled.Instances), len(sampled.Processes))
		for _, j := range jobs {
			if _, err := j.wait(); err != nil {
				return err
			}
		}
	}
	return nil
}

func spread(list []time.Duration) string {
	sort.Slice(list, func(i, j int) bool { return list[i] < list[j] })
	return fmt.Sprintf("%s (%s)", list[len(list)/2].Round(time.Millisecond), list[len(list)-1].Round(time.Millisecond))
}
