package chaos

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/tangram-dev/tangram/core/replay"
)

// Recording is what one process of the scheduler was told and decided, played again.
type Recording struct {
	File  string `json:"file"`
	Bytes int64  `json:"bytes"`
	// Calls of the engine that told it of events, Steps, and the Starts that these decided.
	Calls  int `json:"calls"`
	Steps  int `json:"steps"`
	Starts int `json:"starts"`
	// Differs are the lines of the recording that came out otherwise.
	Differs []int `json:"differs,omitempty"`
	// Ended says why the recording ends before the process did; Problem why it cannot be played.
	Ended   string `json:"ended,omitempty"`
	Problem string `json:"problem,omitempty"`
}

// OK says whether the recording could be played and decided the same.
func (r *Recording) OK() bool { return len(r.Differs) == 0 && r.Problem == "" }

// recordings is the folder of the schedulers' recordings, a file for each process.
func recordings(dir string) string { return filepath.Join(dir, "recordings") }

// playAll plays every recording of a run.
func playAll(dir string) (out []Recording, err error) {
	files, err := filepath.Glob(filepath.Join(recordings(dir), "*"))
	if err != nil {
		return nil, err
	}
	for _, file := range files { // sorted by Glob
		r, err := play(file)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

// play plays one recording.
func play(file string) (Recording, error) {
	r := Recording{File: file}
	f, err := os.Open(file)
	if err != nil {
		return r, err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil {
		r.Bytes = info.Size()
	}
	if _, err := replay.Play(f, func(p *replay.Played) bool {
		r.count(p)
		return true
	}); err != nil {
		r.Problem = err.Error()
	}
	return r, nil
}

func (r *Recording) count(p *replay.Played) {
	switch {
	case p.Ended != "":
		r.Ended = p.Ended
	case len(p.Events) > 0:
		r.Calls++
	default:
		r.Steps++
		for line := range strings.Lines(p.Now) {
			if strings.HasPrefix(line, "start ") {
				r.Starts++
			}
		}
	}
	if p.Differs() {
		r.Differs = append(r.Differs, p.Line)
	}
}

// printRecordings says whether the schedulers' decisions came out the same when they were
// played again, and how to look at them.
func (r *Result) printRecordings(out io.Writer) {
	var sum Recording
	for i := range r.Recordings {
		one := &r.Recordings[i]
		sum.Bytes, sum.Calls, sum.Steps, sum.Starts = sum.Bytes+one.Bytes, sum.Calls+one.Calls, sum.Steps+one.Steps, sum.Starts+one.Starts
		switch {
		case one.Problem != "":
			fmt.Fprintf(out, "recording %s cannot be played: %s\n", one.File, one.Problem)
		case !one.OK():
			fmt.Fprintf(out, "recording %s: %d decisions differ when played again, the first in line %d: tangram replay %s\n",
				one.File, len(one.Differs), one.Differs[0], one.File)
		}
	}
	fmt.Fprintf(out, "recordings of %d processes of the scheduler, %d MB: %d calls of events, %d steps, %d starts, played again\n",
		len(r.Recordings), sum.Bytes>>20, sum.Calls, sum.Steps, sum.Starts)
}
