package see

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/tangram-dev/tangram/api/query"
	"github.com/tangram-dev/tangram/internal/ask"
	"github.com/tangram-dev/tangram/internal/terminal"
)

func newWhatIf(c Config) *cobra.Command {
	var a *asking
	var exitCode bool
	var file string
	cmd := &cobra.Command{
		Use:   "whatif -f FILE",
		Short: "Say what would become of a manifest, without submitting it",
		Long: `Say where the pods of a manifest would go, when, and which pods and jobs they would displace
or delay. The scheduler decides on a copy of its state; nothing is created or changed.

Objects without a namespace are taken to be in that of -n or of the context. The exit code
is 1 when an object was refused.

With --dump the answer comes from a file of tangram dump, without a cluster.`,
		Example: `  tangram whatif -f job.yaml
  kubectl kustomize overlays/large | tangram whatif -f - -n research
  tangram whatif -f job.yaml --dump cluster.dump`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			manifest, err := readManifest(a.screen(cmd), file)
			if err != nil {
				return err
			}
			namespace, err := a.namespace()
			if err != nil {
				return err
			}
			v, err := showAndRead(cmd, a, ask.WhatIfQuestion(namespace, manifest), a.printWhatIf)
			switch {
			case err != nil:
				return err
			case len(v.Refused) > 0:
				return fmt.Errorf("%s refused: see above", Count(len(v.Refused), "object"))
			case exitCode:
				return outcomeCode(v.Gangs)
			}
			return nil
		},
	}
	a = newAsking(c, cmd).addFormat(cmd)
	cmd.Flags().StringVarP(&file, "filename", "f", "", "file with the manifests, YAML or JSON; - is standard input")
	_ = cmd.MarkFlagRequired("filename")
	_ = cmd.MarkFlagFilename("filename", "yaml", "yml", "json")
	cmd.Flags().BoolVar(&exitCode, "exit-code", false, "exit with 10 when some of it would wait, 11 when some of it would not start as things are")
	a.addDump(cmd)
	return cmd
}

// outcomeCode is the exit code of the worst outcome.
func outcomeCode(gangs []query.Outcome) error {
	worst := error(nil)
	for _, g := range gangs {
		if err := startCode(g.Gang.Phase, g.Start); ExitCode(err) > ExitCode(worst) {
			worst = err
		}
	}
	return worst
}

// readManifest reads a file or standard input, and no more than the scheduler takes.
func readManifest(s *terminal.Screen, file string) ([]byte, error) {
	in := s.In
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, &ask.UsageError{Message: "-f: " + err.Error()}
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, query.MaxBody+1))
	switch {
	case err != nil:
		return nil, &ask.UsageError{Message: fmt.Sprintf("-f %s: %v", file, err)}
	case len(data) == 0:
		return nil, &ask.UsageError{Message: fmt.Sprintf("-f %s: it is empty", file)}
	case len(data) > query.MaxBody:
		return nil, &ask.UsageError{Message: fmt.Sprintf("-f %s: it has more than %d KiB", file, query.MaxBody>>10)}
	}
	return data, nil
}

func (a *asking) printWhatIf(s *terminal.Screen, w *query.WhatIf) {
	if len(w.Gangs)+len(w.Assumed)+len(w.Refused) == 0 {
		s.Line(terminal.Plain, "The manifest makes no pods.")
	}
	for i, same := range alike(w.Gangs) {
		if i > 0 {
			s.Blank()
		}
		a.printOutcome(s, same)
	}
	if len(w.Assumed) > 0 && len(w.Gangs) > 0 {
		s.Blank()
	}
	for _, text := range w.Assumed {
		s.Field("Assumed", label, terminal.Plain, text)
	}
	if len(w.Refused) > 0 {
		if len(w.Gangs) > 0 || len(w.Assumed) > 0 {
			s.Blank()
		}
		t := terminal.NewTable("REFUSED", "FIELD", "PROBLEM")
		for _, r := range w.Refused {
			t.Add(terminal.Cell{Text: r.Object, Style: terminal.Bad}, or(r.Field), r.Message)
		}
		t.Write(s)
	}
	asOf(s, w.At)
}

// alike puts outcomes together that say the same of pods of one object, as those of a
// Deployment's replicas do: first ones stay where they are.
func alike(all []query.Outcome) (out [][]query.Outcome) {
	at := map[string]int{}
	for _, o := range all {
		key := o
		key.Gang = query.Gang{Kind: o.Gang.Kind, Owner: o.Gang.Owner, Queue: o.Gang.Queue, Priority: o.Gang.Priority, Milli: o.Gang.Milli, Phase: o.Gang.Phase, Need: o.Gang.Need}
		key.Gang.Namespace = o.Gang.Namespace
		key.Start.Nodes, key.Members = nil, nil
		text, err := json.Marshal(key)
		i, known := at[string(text)]
		if err != nil || !known || o.Gang.Owner == "" {
			at[string(text)] = len(out)
			out = append(out, []query.Outcome{o})
			continue
		}
		out[i] = append(out[i], o)
	}
	return out
}

// printOutcome writes what becomes of a gang, and of others that are like it.
func (a *asking) printOutcome(s *terminal.Screen, same []query.Outcome) {
	o := &same[0]
	g := &o.Gang
	who, each := gangName(g.GangRef), ""
	if more := len(same) - 1; more > 0 {
		who, each = fmt.Sprintf("%s and %d more alike", who, more), " each"
	}
	s.Line(terminal.Bold, "%s (%s, queue %s, priority %d, %s%s)", who, g.Kind, or(g.Queue), g.Priority, gpus(g.Milli), each)
	s.Field("Starts", label, startStyle(o.Start), startText(o.Start, s))
	if o.Reason != nil {
		s.Field("Because", label, terminal.Plain, o.Reason.Text)
		printCauses(s, "Nodes", o.Reason.Nodes)
	}
	if text := gangNames(o.Displaces, o.DisplacesHidden); text != "" {
		s.Field("Evicts", label, terminal.Warn, text)
	}
	delay := func(d *query.Delay) string {
		return fmt.Sprintf("%s by %s", gangName(d.Gang), span(secondsOf(d.Seconds)))
	}
	if text := seen(named(o.Delays, delay), o.DelaysHidden); text != "" {
		s.Field("Delays", label, terminal.Warn, text)
	}
	printHelps(s, o.Helps)
	var members []query.Member
	for i := range same {
		members = append(members, same[i].Members...)
	}
	if len(members) > 0 {
		s.Blank()
		printMembers(s, members)
	}
}
