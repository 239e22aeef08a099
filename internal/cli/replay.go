package cli

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tangram-dev/tangram/core/replay"
	"github.com/tangram-dev/tangram/internal/cli/see"
	"github.com/tangram-dev/tangram/internal/replica"
	"github.com/tangram-dev/tangram/internal/terminal"
)

// newReplay is `tangram replay`.
func newReplay() *cobra.Command {
	var o replaying
	cmd := &cobra.Command{
		Use:   "replay FILE",
		Short: "Do again what a scheduler decided, from its recording, and say where it differs",
		Long: `Read a recording of a scheduler (setting recording of GPUQueue): what its engine was told, and
what it decided. Everything is told again to the engine of this program, and its decisions are
compared with those of the recording. The file is a recording, or a dump (tangram dump) that
has one; both may be compressed with gzip.

Without flags only the sums and the differences are shown. The exit code is 20 when a decision
differs.`,
		Example: `  tangram replay recording.jsonl
  tangram replay cluster.dump --steps
  tangram replay recording.jsonl --events --gang ml-team/train`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(screenOf(cmd), args[0])
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.steps, "steps", false, "show every step that decided something")
	f.BoolVar(&o.events, "events", false, "show every event and every step")
	f.StringVar(&o.gang, "gang", "", "show only entries that name this, for example a gang, a pod's UID or a node")
	f.IntVar(&o.from, "from", 0, "show entries from this line of the recording on")
	f.IntVar(&o.to, "to", 0, "end after this line; 0: at the end")
	return cmd
}

// replaying is one replay and what of it is shown.
type replaying struct {
	steps, events bool
	gang          string
	from, to      int

	begun, last            int64
	applied, stepped, diff int
	starts, evictions      int
	ended                  string
}

func (o *replaying) run(s *terminal.Screen, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return misused(err)
	}
	defer f.Close()
	in, err := recordingIn(f)
	if err != nil {
		return misused(fmt.Errorf("%s: %w", file, err))
	}
	_, err = replay.Play(in, func(p *replay.Played) bool {
		o.count(p)
		o.show(s.Out, p)
		return o.to == 0 || p.Line < o.to
	})
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if o.ended != "" {
		fmt.Fprintf(s.Out, "The recording ends early: %s.\n", o.ended)
	}
	fmt.Fprintf(s.Out, "%s of events in %s, %s, %s and %s: ", see.Count(o.applied, "call"), time.Duration(o.last-o.begun).Round(time.Second),
		see.Count(o.stepped, "step"), see.Count(o.starts, "start"), see.Count(o.evictions, "eviction"))
	if o.diff == 0 {
		fmt.Fprintln(s.Out, "all decisions are the same.")
		return nil
	}
	fmt.Fprintf(s.Out, "%s.\n", see.Count(o.diff, "difference"))
	return see.Found()
}

// count adds an entry to the sums.
func (o *replaying) count(p *replay.Played) {
	if p.Ended != "" {
		o.ended = p.Ended
		return
	}
	if o.begun == 0 {
		o.begun = p.At
	}
	o.last = p.At
	if len(p.Events) > 0 {
		o.applied++
	} else {
		o.stepped++
		for line := range strings.Lines(p.Now) {
			switch {
			case strings.HasPrefix(line, "start "):
				o.starts++
			case strings.HasPrefix(line, "evict "):
				o.evictions++
			}
		}
	}
	if p.Differs() {
		o.diff++
	}
}

// show prints an entry, if it was asked for. What differs is always shown.
func (o *replaying) show(out io.Writer, p *replay.Played) {
	decides := len(p.Events) == 0 && p.Now != "" && o.steps
	wanted := p.Line >= o.from && (o.events || decides) && p.Ended == ""
	text := o.text(p)
	if !p.Differs() && (!wanted || o.gang != "" && !strings.Contains(text, o.gang)) {
		return
	}
	fmt.Fprint(out, terminal.CleanLines(text))
}

// text is an entry for people.
func (o *replaying) text(p *replay.Played) string {
	var b strings.Builder
	fmt.Fprintf(&b, "line %d, %s", p.Line, time.Unix(0, p.At).UTC().Format("2006-01-02 15:04:05.000"))
	if len(p.Events) == 0 {
		b.WriteString(": step\n")
	} else {
		b.WriteString(":\n")
	}
	for i := range p.Events {
		fmt.Fprintf(&b, "  %s\n", p.Events[i])
	}
	if !p.Differs() {
		return b.String() + indent(p.Now, "  -> ")
	}
	return b.String() + "  DIFFERS. Recorded:\n" + indent(p.Did, "    ") + "  Now:\n" + indent(p.Now, "    ")
}

func indent(text, by string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(by + line)
	}
	return b.String()
}

// recordingIn finds the recording in a file: it is one, or a dump that has one.
func recordingIn(f io.Reader) (io.Reader, error) {
	in := bufio.NewReader(f)
	if head, _ := in.Peek(2); len(head) == 2 && head[0] == 0x1f && head[1] == 0x8b {
		unzipped, err := gzip.NewReader(in)
		if err != nil {
			return nil, err
		}
		in = bufio.NewReader(unzipped)
	}
	if head, _ := in.Peek(len(recordingHead)); string(head) == recordingHead {
		return in, nil
	}
	var dump struct {
		Recording string `json:"recording"`
	}
	if err := json.NewDecoder(io.LimitReader(in, replica.MaxDumpText)).Decode(&dump); err != nil {
		return nil, fmt.Errorf("is neither a recording nor a dump: %w", err)
	}
	if dump.Recording == "" {
		return nil, errors.New("the dump has no recording: GPUQueue's argument recording.megabytes makes the scheduler keep one")
	}
	return strings.NewReader(dump.Recording), nil
}

// recordingHead is how a recording begins.
const recordingHead = `{"tangramRecording":`
