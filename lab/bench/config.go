package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// MaxGPUs is the largest --gpus. No node sold today has more than 16 GPUs, and
// Tangram's tables inside a node are bitmasks of that width.
const MaxGPUs = 16

// Config is one benchmark: the fleet, the load and the contenders. The zero
// value is not valid; DefaultConfig gives the run that docs/benchmarks.md shows.
type Config struct {
	// Nodes is the number of identical nodes, GPUs the whole GPUs of each.
	Nodes, GPUs int
	// Pods is the number of counted pods, GPUsPerPod what each asks for. They
	// must all fit, or the last pod would never bind.
	Pods, GPUsPerPod int
	// Gangs of Size pods each replace Pods; 0 for pods that come alone. Their pods
	// carry the labels that make them a gang for Tangram. Others ignore those.
	Gangs, Size int
	// Rate is the arrival rate in pods per second, evenly spaced; the pods of a
	// gang arrive together. 0 creates pods as fast as the API accepts them.
	// Pending is how many pods wait meanwhile that fit on no node, each of another kind.
	Pending int
	Rate    float64
	// Claims: pods ask for GPUs through ResourceClaims, and nodes publish theirs in
	// ResourceSlices alone.
	Claims bool
	// Scrape is how often Tangram's metrics are read meanwhile; 0: not at all.
	Scrape time.Duration
	// Ask is a question that is asked meanwhile, of TangramAsked.
	Ask Ask
	// Contenders are names from the contender table, in the order of round one.
	Contenders []string
	// Rounds repeats everything; the report shows medians.
	Rounds int
	// MaxNoise is the share of the machine, 0 to 1, that processes outside the
	// benchmark may take before a trial is repeated. 1 never repeats.
	MaxNoise float64
	// JSON is the file the full report goes to; empty for none.
	JSON string
	// Out is the folder for control plane state and logs; empty for a temporary
	// one. It must be empty or absent, so that no trial starts on old state.
	Out string
	// Bin is the folder with the programs; empty for the folder of this program.
	Bin string
	// Keep leaves Out in place after a valid run. A failed run always leaves it.
	Keep bool
}

// DefaultConfig is the load of design.md section 13, without gangs.
func DefaultConfig() Config {
	return Config{
		Nodes: 1000, GPUs: 8,
		Pods: 2000, GPUsPerPod: 1,
		Contenders: contenderNames(),
		Rounds:     1,
		MaxNoise:   noisyShare,
	}
}

// podCount is the number of counted pods, warmupCount that of those before them:
// whole gangs, if there are any.
func (c *Config) podCount() int {
	if c.Gangs > 0 {
		return c.Gangs * c.Size
	}
	return c.Pods
}

func (c *Config) warmupCount() int {
	if c.Gangs > 0 {
		return min(max(1, warmupPods/c.Size), c.Gangs) * c.Size
	}
	return min(warmupPods, c.Pods)
}

// withAsked adds the scheduler that is asked questions behind the one that is not.
func (c *Config) withAsked() {
	if at := slices.Index(c.Contenders, Tangram); c.Ask.Why > 0 && at >= 0 && !slices.Contains(c.Contenders, TangramAsked) {
		c.Contenders = slices.Insert(slices.Clone(c.Contenders), at+1, TangramAsked)
	}
}

// FlagError is a value that a flag cannot have.
type FlagError struct {
	// Flag is the flag's name without dashes.
	Flag string
	// Problem says what is wrong and what would be right.
	Problem string
}

func (e *FlagError) Error() string { return "--" + e.Flag + ": " + e.Problem }

func flagErrorf(flag, format string, args ...any) error {
	return &FlagError{Flag: flag, Problem: fmt.Sprintf(format, args...)}
}

// Validate reports the first value that cannot be run, as a *FlagError. It looks
// at numbers and names only; the programs are looked for by findPrograms.
func (c *Config) Validate() error {
	for _, f := range []struct {
		flag  string
		value int
	}{
		{"nodes", c.Nodes},
		{"gpus", c.GPUs},
		{"pods", c.Pods},
		{"gpus-per-pod", c.GPUsPerPod},
		{"rounds", c.Rounds},
		{"pending", c.Pending + 1},
	} {
		if f.value < 1 {
			return flagErrorf(f.flag, "must be at least 1, got %d", f.value)
		}
	}
	if c.Scrape < 0 {
		return flagErrorf("scrape", "must not be negative, got %s", c.Scrape)
	}
	if c.GPUs > MaxGPUs {
		return flagErrorf("gpus", "must be at most %d, got %d", MaxGPUs, c.GPUs)
	}
	if c.GPUsPerPod > c.GPUs {
		return flagErrorf("gpus-per-pod", "%d GPUs do not fit on a node of %d (--gpus)", c.GPUsPerPod, c.GPUs)
	}
	switch {
	case c.Gangs < 0 || c.Gangs == 0 && c.Size != 0:
		return flagErrorf("gangs", "must be at least 1 with --size, got %d", c.Gangs)
	case c.Gangs > 0 && c.Size < 1:
		return flagErrorf("size", "must be at least 1 with --gangs, got %d", c.Size)
	}
	// A pod cannot straddle nodes, so capacity is counted per node.
	room := c.Nodes * (c.GPUs / c.GPUsPerPod)
	switch {
	case c.Gangs > 0 && c.Gangs > room/c.Size: // the product may be too large for an int
		return flagErrorf("gangs", "%d gangs of %d pods of %d GPUs do not fit: %d nodes of %d GPUs hold %d pods",
			c.Gangs, c.Size, c.GPUsPerPod, c.Nodes, c.GPUs, room)
	case c.Gangs == 0 && c.Pods > room:
		return flagErrorf("pods", "%d pods of %d GPUs do not fit: %d nodes of %d GPUs hold %d",
			c.Pods, c.GPUsPerPod, c.Nodes, c.GPUs, room)
	}
	if !(c.Rate >= 0 && c.Rate <= 1e6) {
		return flagErrorf("rate", "must be 0 (as fast as possible) to 1000000 pods per second, got %v", c.Rate)
	}
	if !(c.MaxNoise >= 0 && c.MaxNoise <= 1) {
		return flagErrorf("max-noise", "must be a share from 0 to 1, got %v", c.MaxNoise)
	}
	if len(c.Contenders) == 0 {
		return flagErrorf("contenders", "name at least one of %s", strings.Join(contenderNames(), ", "))
	}
	for i, name := range c.Contenders {
		if _, ok := contenderByName(name); !ok {
			return flagErrorf("contenders", "unknown contender %q, want %s", name, strings.Join(contenderNames(), ", "))
		}
		if name == TangramAsked && c.Ask.Why == 0 {
			return flagErrorf("contenders", "%q is asked questions: say which with --ask", name)
		}
		if slices.Contains(c.Contenders[:i], name) {
			return flagErrorf("contenders", "%q is named twice", name)
		}
	}
	return nil
}

// findPrograms checks that every program of the run exists, before minutes are
// spent on a run that cannot end.
func (c *Config) findPrograms() error {
	if c.Bin == "" {
		self, err := os.Executable()
		if err != nil {
			return flagErrorf("bin", "this program's own folder is unknown (%v); name the folder", err)
		}
		c.Bin = filepath.Dir(self)
	}
	// Programs start in folders of their own.
	bin, err := filepath.Abs(c.Bin)
	if err != nil {
		return flagErrorf("bin", "%v", err)
	}
	c.Bin = bin
	for _, p := range c.programs() {
		info, err := os.Stat(filepath.Join(c.Bin, p))
		if err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
			return flagErrorf("bin", "no program %s in %s (\"make build\" makes it)", p, c.Bin)
		}
	}
	return nil
}

// programs are the files of Bin that the run needs.
func (c *Config) programs() []string {
	programs := []string{"etcd", "kube-apiserver"}
	for _, name := range c.Contenders {
		if k, _ := contenderByName(name); k.program != "" {
			programs = append(programs, k.program)
		}
	}
	return programs
}
