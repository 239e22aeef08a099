package bench

import (
	"os"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	const rest = " S 41 42 42 0 -1 4194304 101 0 1 0 250 50 7 3 20 0 1 0 88668 3133440 410"
	for _, tc := range []struct {
		name    string
		line    string
		want    procStat
		wantErr bool
	}{
		{name: "plain", line: "42 (etcd)" + rest, want: procStat{parent: 41, cpu: 3 * time.Second, children: 100 * time.Millisecond}},
		{name: "name with spaces and parentheses", line: "42 (a) b (c)" + rest, want: procStat{parent: 41, cpu: 3 * time.Second, children: 100 * time.Millisecond}},
		{name: "empty", line: "", wantErr: true},
		{name: "cut off", line: "42 (etcd) S 41 42", wantErr: true},
		{name: "not a number", line: "42 (etcd) S x 42 42 0 -1 4194304 101 0 1 0 250 50 7 3 20", wantErr: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := parseStat(tc.line)
			if (err != nil) != tc.wantErr || got != tc.want {
				t.Errorf("parseStat(%q) = %+v, %v, want %+v, error %v", tc.line, got, err, tc.want, tc.wantErr)
			}
		})
	}
}

func TestParsePeakRSS(t *testing.T) {
	for _, tc := range []struct {
		name    string
		status  string
		want    int64
		wantErr bool
	}{
		{name: "found", status: "Name:\tetcd\nVmPeak:\t 3776 kB\nVmHWM:\t    2068 kB\nVmRSS:\t 1 kB\n", want: 2068 << 10},
		{name: "kernel thread", status: "Name:\tkworker\n", wantErr: true},
		{name: "other unit", status: "VmHWM:\t5 MB\n", wantErr: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := parsePeakRSS([]byte(tc.status))
			if (err != nil) != tc.wantErr || got != tc.want {
				t.Errorf("got %d, %v, want %d, error %v", got, err, tc.want, tc.wantErr)
			}
		})
	}
}

func TestParseBusyLeavesOutIdleAndGuest(t *testing.T) {
	got, err := parseBusy("cpu  100 10 50 9999 8888 1 2 37 100 10\ncpu0 1 2 3\n")
	if want := 2 * time.Second; err != nil || got != want {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	if _, err := parseBusy("intr 1 2 3"); err == nil {
		t.Error("a line without CPU times was accepted")
	}
}

func TestSampleCPUFindsThisProcess(t *testing.T) {
	// Any process will do as a contender, this one too.
	s, err := sampleCPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); {
		now, err := sampleCPU(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		if now.contender > s.contender && now.machine >= s.machine {
			return
		}
	}
	t.Error("five seconds of work did not show")
}

func TestSampleCPUMissesEndedProcess(t *testing.T) {
	if _, err := sampleCPU(1 << 30); err == nil {
		t.Error("a process that does not exist was sampled")
	}
}

func TestDescendsEndsOnCycle(t *testing.T) {
	all := map[int]procStat{1: {parent: 0}, 5: {parent: 1}, 6: {parent: 5}, 8: {parent: 9}, 9: {parent: 8}}
	for _, tc := range []struct {
		pid, ancestor int
		want          bool
	}{{6, 1, true}, {6, 5, true}, {5, 6, false}, {8, 1, false}, {7, 1, false}} {
		if got := descends(all, tc.pid, tc.ancestor); got != tc.want {
			t.Errorf("descends(%d, %d) = %v", tc.pid, tc.ancestor, got)
		}
	}
}
