package bench

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of CPU times in /proc. Linux fixes it at 100 per second for user
// space on every architecture that Kubernetes runs on, independent of the kernel's own
// timer. The times themselves come from the scheduler's exact accounting, so over a run
// of seconds a tick is a small error.
const tick = 10 * time.Millisecond

// procStat is what the benchmark reads from /proc/PID/stat.
type procStat struct {
	parent int
	// cpu is user and system time since the process started, in all its threads.
	cpu time.Duration
	// children is the same of children that ended and were waited for.
	children time.Duration
}

// parseStat reads the one line of /proc/PID/stat. The second field is the
// program's name in parentheses and may itself hold spaces and parentheses, so
// fields are counted from the last one.
func parseStat(line string) (procStat, error) {
	end := strings.LastIndexByte(line, ')')
	if end < 0 {
		return procStat{}, fmt.Errorf("parse process stat: no program name in %q", line)
	}
	// fields[0] is the state, the third field of proc(5).
	fields := strings.Fields(line[end+1:])
	const ppid, utime, stime, cutime, cstime = 1, 11, 12, 13, 14
	if len(fields) <= cstime {
		return procStat{}, fmt.Errorf("parse process stat: %d fields after the name, want more than %d", len(fields), cstime)
	}
	var n [cstime + 1]int64
	for _, i := range []int{ppid, utime, stime, cutime, cstime} {
		v, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return procStat{}, fmt.Errorf("parse process stat: %w", err)
		}
		n[i] = v
	}
	return procStat{
		parent:   int(n[ppid]),
		cpu:      time.Duration(n[utime]+n[stime]) * tick,
		children: time.Duration(n[cutime]+n[cstime]) * tick,
	}, nil
}

func readStat(pid int) (procStat, error) {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return procStat{}, fmt.Errorf("read CPU time of process %d: %w", pid, err)
	}
	return parseStat(string(line))
}

// parsePeakRSS finds VmHWM, the largest resident memory so far, in
// /proc/PID/status. The result is in bytes.
func parsePeakRSS(status []byte) (int64, error) {
	lines := bufio.NewScanner(bytes.NewReader(status))
	for lines.Scan() {
		value, ok := strings.CutPrefix(lines.Text(), "VmHWM:")
		if !ok {
			continue
		}
		number, unit, _ := strings.Cut(strings.TrimSpace(value), " ")
		kib, err := strconv.ParseInt(number, 10, 64)
		if err != nil || unit != "kB" {
			return 0, fmt.Errorf("parse VmHWM %q: want a number of kB", value)
		}
		return kib << 10, nil
	}
	return 0, fmt.Errorf("no VmHWM in the process status")
}

func readPeakRSS(pid int) (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("read memory of process %d: %w", pid, err)
	}
	return parsePeakRSS(status)
}

// parseBusy adds up the time in which some CPU of the machine did work, from the
// first line of /proc/stat. Stolen time counts: it is work of other guests, and
// as lost to the benchmark as work of other processes.
func parseBusy(stat string) (time.Duration, error) {
	line, _, _ := strings.Cut(stat, "\n")
	fields := strings.Fields(line)
	// cpu user nice system idle iowait irq softirq steal guest guest_nice; guest
	// time is already in user.
	const idle, iowait, last = 4, 5, 8
	if len(fields) <= last || fields[0] != "cpu" {
		return 0, fmt.Errorf("parse machine CPU time: unexpected line %q", line)
	}
	var busy time.Duration
	for i := 1; i <= last; i++ {
		if i == idle || i == iowait {
			continue
		}
		v, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("parse machine CPU time: %w", err)
		}
		busy += time.Duration(v) * tick
	}
	return busy, nil
}

// cpuSample is the CPU time used so far, by process group.
type cpuSample struct {
	at time.Time
	// contender, client (this process) and controlPlane (all other descendants of
	// this process) together are the benchmark.
	contender, client, controlPlane time.Duration
	// machine is everything, the benchmark included.
	machine time.Duration
}

// sampleCPU reads /proc once. It costs about a millisecond, so it is taken at the
// ends of a measurement and not during it.
func sampleCPU(contender int) (cpuSample, error) {
	s := cpuSample{at: time.Now()}
	self := os.Getpid()
	all := map[int]procStat{}
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return s, fmt.Errorf("list processes: %w", err)
	}
	for _, f := range files {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(f)))
		if err != nil {
			continue
		}
		// Processes end between listing and reading; only the contender must not.
		if stat, err := readStat(pid); err == nil {
			all[pid] = stat
		}
	}
	if _, ok := all[contender]; !ok {
		return s, fmt.Errorf("process %d has ended", contender)
	}
	for pid, stat := range all {
		switch {
		case pid == contender:
			s.contender += stat.cpu + stat.children
		case pid == self:
			s.client += stat.cpu
		case descends(all, pid, contender):
			s.contender += stat.cpu + stat.children
		case descends(all, pid, self):
			s.controlPlane += stat.cpu + stat.children
		}
	}
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return s, fmt.Errorf("read machine CPU time: %w", err)
	}
	s.machine, err = parseBusy(string(stat))
	return s, err
}

// descends reports whether pid is a child, grandchild and so on of ancestor. The
// walk is bounded, because a table read while processes come and go can hold a
// cycle once process numbers are reused.
func descends(all map[int]procStat, pid, ancestor int) bool {
	for range 64 {
		stat, ok := all[pid]
		if !ok {
			return false
		}
		if stat.parent == ancestor {
			return true
		}
		pid = stat.parent
	}
	return false
}
