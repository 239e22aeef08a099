package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tangram-dev/tangram/internal/ask"
	"github.com/tangram-dev/tangram/internal/cli/see"
	"github.com/tangram-dev/tangram/internal/migrate"
	"github.com/tangram-dev/tangram/internal/terminal"
)

func newMigrate() *cobra.Command {
	var l look
	var files []string
	var o migrate.Options
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Compare the configuration of Volcano, KAI, HAMi or Kueue with Tangram's, and translate it",
		Long: `Read the configuration of another scheduler and say, for every action, plugin, argument
and field, what its counterpart is, or that there is none and what to do.

Read are volcano-scheduler.conf, KAI's SchedulingShard, Config, Queue and the ConfigMap of
its scheduler, HAMi's Helm values, device ConfigMap and the device plugin's config.json, and
Kueue's ClusterQueue, Cohort, LocalQueue and ResourceFlavor: from files, or from a cluster
without -f. Fields are those of Volcano 1.14, KAI 0.17, HAMi 2.10 and Kueue 0.16.

What is set stands in the configuration that -o config writes; -o values has the same for
the chart, -o queues the Queue objects. Input that cannot be read is an error with file,
line and field; the exit code is then 2.`,
		Example: `  tangram migrate -f volcano-scheduler.conf
  tangram migrate -f volcano-scheduler.conf -o config > scheduler.yaml
  tangram migrate -f hami-values.yaml --serve -o values > values.yaml
  tangram migrate -f kueue/ -o queues | kubectl apply -f -
  tangram migrate                                # what the cluster of the kubeconfig has`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.Validate(); err != nil {
				return misused(err)
			}
			s := screenOf(cmd)
			inputs, err := l.inputs(cmd, s, files, configurations)
			if err != nil {
				return err
			}
			r := migrate.Translate(inputs, o)
			return l.printMigration(s, cmd.ErrOrStderr(), r, len(files) > 0)
		},
	}
	l.addTo(cmd, "json, yaml, wide; config: a KubeSchedulerConfiguration; values: values of the chart; queues: Queue objects", "config", "values", "queues")
	f := cmd.Flags()
	f.StringSliceVarP(&files, "filename", "f", nil, "files or folders (*.yaml, *.yml, *.json, *.conf), - for standard input; without: the cluster")
	f.StringVar(&o.From, "from", "", "the system that the configuration belongs to, where that is not plain: "+strings.Join(migrate.Systems(), ", "))
	f.BoolVar(&o.Serve, "serve", false, "gpu-agent takes the place of HAMi's device plugin, so its settings become the agent's")
	_ = cmd.RegisterFlagCompletionFunc("from", cobra.FixedCompletions(migrate.Systems(), cobra.ShellCompDirectiveNoFileComp))
	cmd.AddCommand(newMigrateCheck())
	return cmd
}

// printMigration writes the comparison in the format that was asked for. given: the input
// was named, and not looked for in a cluster.
func (l *look) printMigration(s *terminal.Screen, errOut io.Writer, r *migrate.Report, given bool) error {
	failed := complain(errOut, r.Problems)
	for _, text := range r.Skipped {
		fmt.Fprintln(errOut, "note:", terminal.Clean(text))
	}
	if len(r.Rows) == 0 && failed == nil {
		const none = "no configuration of Volcano, KAI, HAMi or Kueue was found: -f FILE reads one from a file, --from names the system"
		if given {
			return &ask.UsageError{Message: none}
		}
		return missing(none)
	}
	var out []byte
	var err error
	switch l.format {
	case "config":
		out, err = r.Result.Config()
	case "values":
		out, err = r.Result.Values()
	case "queues":
		if out, err = r.Result.Queues(); err == nil && len(out) == 0 && failed == nil {
			err = errors.New("the input defines no queues that need translation")
		}
	default:
		if done, err := l.data(s, r); done || err != nil {
			return errors.Join(err, failed)
		}
		l.migrationTable(s, r)
		return errors.Join(s.Failed(), failed)
	}
	// A configuration that was read in part must not be applied in its place.
	if err = errors.Join(err, failed); err != nil {
		return err
	}
	_, err = s.Out.Write(out)
	return err
}

func (l *look) migrationTable(s *terminal.Screen, r *migrate.Report) {
	wide := l.format == "wide"
	columns := []string{"FIELD", "VALUE", "VERDICT", "HERE", "WHAT TO DO, OR TO KNOW"}
	if wide {
		columns = append([]string{"FROM", "AT"}, columns...)
	}
	t := terminal.NewTable(columns...)
	styles := map[migrate.Verdict]terminal.Style{migrate.Set: terminal.Good, migrate.Differs: terminal.Warn, migrate.None: terminal.Warn}
	for _, row := range r.Rows {
		field := row.Field
		if row.Object != "" && !strings.HasPrefix(field, row.Object) {
			field = row.Object + " " + field
		}
		cells := []any{field, row.Value, terminal.Cell{Text: string(row.Verdict), Style: styles[row.Verdict]}, row.Here, row.Do}
		if wide {
			cells = append([]any{row.From, place(row.File, row.Line)}, cells...)
		}
		t.Add(cells...)
	}
	if t.Empty() {
		return // nothing could be read, and was complained about
	}
	t.Write(s)
	s.Blank()
	s.Line(terminal.Plain, "%d settings: %d set, %d always so, %d differ, %d without counterpart. -o config, values, queues write what is set.",
		len(r.Rows), r.Count(migrate.Set), r.Count(migrate.Always), r.Count(migrate.Differs), r.Count(migrate.None))
}

func newMigrateCheck() *cobra.Command {
	var l look
	var files []string
	cmd := &cobra.Command{
		Use:   "check",
		Short: "List the words of manifests that Tangram does not know",
		Long: `Look at manifests, in files or of a cluster, for labels, annotations, resources, kinds and
fields of Volcano, KAI, Run:ai, HAMi, Koordinator, Kueue, cGPU, Ascend and Tangram itself
that have no effect, are refused or are not known; each with file, object, field and what to
do. Values are read as the scheduler reads them, so invalid ones are listed, too. What is
known is counted.

Of a cluster, pods of Deployments, Jobs and the like are not looked at: their owners are.
Workloads of Kueue and BindRequests of KAI, which those write themselves, are left out.

The exit code is 20 when something was found, 2 when input could not be read.`,
		Example: `  tangram migrate check -f manifests/
  helm template mychart | tangram migrate check -f -
  tangram migrate check -o json | jq '.findings[] | select(.what=="refused")'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s := screenOf(cmd)
			inputs, err := l.inputs(cmd, s, files, manifests)
			if err != nil {
				return err
			}
			r := migrate.Check(inputs)
			failed := complain(cmd.ErrOrStderr(), r.Problems)
			if done, err := l.data(s, r); err != nil {
				return err
			} else if !done {
				l.checkTable(s, r)
			}
			if err := errors.Join(s.Failed(), failed); err != nil {
				return err
			}
			if len(r.Findings) > 0 {
				return see.Found()
			}
			return nil
		},
	}
	l.addTo(cmd, "json, yaml; wide: the system a word belongs to, too")
	cmd.Flags().StringSliceVarP(&files, "filename", "f", nil, "files or folders (*.yaml, *.yml, *.json), - for standard input; without: the cluster")
	return cmd
}

func (l *look) checkTable(s *terminal.Screen, r *migrate.CheckReport) {
	wide := l.format == "wide"
	columns := []string{"AT", "OBJECT", "FIELD", "IS", "DO"}
	if wide {
		columns = append([]string{"SYSTEM"}, columns...)
	}
	t := terminal.NewTable(columns...)
	for _, f := range r.Findings {
		style := terminal.Warn
		if f.What == migrate.Refused || f.What == migrate.Malformed {
			style = terminal.Bad
		}
		cells := []any{place(f.File, f.Line), f.Object, f.Field, terminal.Cell{Text: f.What, Style: style}, f.Do}
		if wide {
			cells = append([]any{f.System}, cells...)
		}
		t.Add(cells...)
	}
	if !t.Empty() {
		t.Write(s)
		s.Blank()
	}
	var known []string
	for _, system := range slices.Sorted(maps.Keys(r.Known)) {
		known = append(known, fmt.Sprintf("%s %d", system, r.Known[system]))
	}
	detail := ""
	if len(known) > 0 {
		detail = " (" + strings.Join(known, ", ") + ")"
	}
	s.Line(terminal.Plain, "%d objects: %d words are known%s, %d are not or do not do the same.", r.Objects, r.KnownWords(), detail, len(r.Findings))
}

func place(file string, line int) string {
	if line > 0 {
		return fmt.Sprintf("%s:%d", file, line)
	}
	return file
}

// complain prints problems, and returns an error if there are any.
func complain(w io.Writer, problems []migrate.Problem) error {
	for _, p := range problems {
		fmt.Fprintln(w, terminal.Clean(p.Error()))
	}
	switch len(problems) {
	case 0:
		return nil
	case 1:
		return &ask.UsageError{Message: "a problem in the input, listed above"}
	}
	return &ask.UsageError{Message: fmt.Sprintf("%d problems in the input, listed above", len(problems))}
}

// inputs are the files of -f, or what fetch finds in the cluster.
func (l *look) inputs(cmd *cobra.Command, s *terminal.Screen, files []string, fetch func(ctx context.Context, c *cluster) ([]migrate.Input, error)) ([]migrate.Input, error) {
	if len(files) == 0 {
		c, err := l.connect()
		if err != nil {
			return nil, err
		}
		p := s.Progress("reading the cluster")
		defer p.End()
		return fetch(cmd.Context(), c)
	}
	var out []migrate.Input
	for _, name := range files {
		list, err := readInputs(cmd.InOrStdin(), name)
		if err != nil {
			return nil, misused(fmt.Errorf("-f: %w", err))
		}
		out = append(out, list...)
	}
	if len(out) == 0 {
		return nil, misused(fmt.Errorf("-f: %s: no *.yaml, *.yml, *.json or *.conf files", strings.Join(files, ", ")))
	}
	return out, nil
}

// extensions of files that are read in folders; a file that is named is read whatever it is
// called.
var extensions = []string{".yaml", ".yml", ".json", ".conf"}

// maxFile bounds one file, which is read as a whole.
const maxFile = 64 << 20

func readInputs(stdin io.Reader, name string) ([]migrate.Input, error) {
	if name == "-" {
		data, err := io.ReadAll(io.LimitReader(stdin, maxFile))
		return []migrate.Input{{Name: "standard input", Data: data}}, err
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	var out []migrate.Input
	read := func(path string) error {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		data, err := io.ReadAll(io.LimitReader(f, maxFile))
		out = append(out, migrate.Input{Name: path, Data: data})
		return err
	}
	if !info.IsDir() {
		err = read(name)
		return out, err
	}
	err = filepath.WalkDir(name, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && path != name && strings.HasPrefix(e.Name(), "."):
			return filepath.SkipDir
		case !e.Type().IsRegular() || !slices.Contains(extensions, filepath.Ext(path)):
			return nil
		}
		return read(path)
	})
	return out, err
}
