package see

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tangram-dev/tangram/internal/ask"
	"github.com/tangram-dev/tangram/internal/terminal"
)

// Config is what the commands are made with.
type Config struct {
	// Screen, if not nil, replaces the command's own streams, for tests.
	Screen func(*cobra.Command) *terminal.Screen
	// Replica answers why, whatif and explain from a file of tangram dump instead of a
	// cluster, as of the time of the dump.
	Replica func(ctx context.Context, file string, q ask.Question) ([]byte, error)
	// Page serves the web page, and passes its questions on to upstream.
	Page func(upstream http.Handler) http.Handler
}

// Commands returns the commands, for a root to add.
func Commands(c Config) []*cobra.Command {
	return []*cobra.Command{
		newWhy(c), newWhatIf(c), newExplain(c), newJobs(c), newQueues(c), newTop(c), newCost(c), newDump(c), newWeb(c),
	}
}

// asking is one command at work.
type asking struct {
	config  Config
	options ask.Options
	format  string
	dump    string      // answer from this file; empty: from the cluster
	client  *ask.Client // nil until needed
}

func newAsking(c Config, cmd *cobra.Command) *asking {
	a := &asking{config: c}
	a.options.AddFlags(cmd)
	_ = cmd.RegisterFlagCompletionFunc("namespace", a.complete(namespaces))
	_ = cmd.RegisterFlagCompletionFunc("context", a.completeContexts)
	return a
}

// addFormat adds -o.
func (a *asking) addFormat(cmd *cobra.Command) *asking {
	AddFormat(cmd, &a.format, "json and yaml: the scheduler's answer, unchanged; wide: more columns", formatJSON, formatYAML, formatWide)
	return a
}

func (a *asking) wide() bool { return a.format == formatWide }

func (a *asking) screen(cmd *cobra.Command) *terminal.Screen {
	if a.config.Screen != nil {
		return a.config.Screen(cmd)
	}
	return terminal.New(cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
}

// connect reads the kubeconfig, once.
func (a *asking) connect() (*ask.Client, error) {
	if a.client != nil {
		return a.client, nil
	}
	var err error
	a.client, err = ask.New(a.options)
	return a.client, err
}

// answer asks the scheduler, or the dump, and says on standard error when that takes long.
func (a *asking) answer(ctx context.Context, s *terminal.Screen, q ask.Question) ([]byte, error) {
	if a.dump != "" {
		p := s.Progress("asking the dump " + a.dump)
		defer p.End()
		return a.config.Replica(ctx, a.dump, q)
	}
	client, err := a.connect()
	if err != nil {
		return nil, err
	}
	p := s.Progress("waiting for the scheduler's answer")
	defer p.End()
	return client.Ask(ctx, q)
}

// show asks a question and prints the answer; table writes it for people.
func show[T any](cmd *cobra.Command, a *asking, q ask.Question, table func(*terminal.Screen, *T)) error {
	s := a.screen(cmd)
	body, err := a.answer(cmd.Context(), s, q)
	if err != nil {
		return err
	}
	return print(a, s, body, table)
}

// showAndRead is show of an answer that is also returned, so one that cannot be decoded is
// an error in every format.
func showAndRead[T any](cmd *cobra.Command, a *asking, q ask.Question, table func(*terminal.Screen, *T)) (*T, error) {
	s := a.screen(cmd)
	body, err := a.answer(cmd.Context(), s, q)
	if err != nil {
		return nil, err
	}
	v, err := ask.Decode[T](body)
	if err != nil {
		return nil, err
	}
	return v, print(a, s, body, table)
}

// print writes an answer in the format that was asked for; table writes it for people.
func print[T any](a *asking, s *terminal.Screen, body []byte, table func(*terminal.Screen, *T)) error {
	switch a.format {
	case formatJSON:
		return s.JSON(body)
	case formatYAML:
		return s.YAML(body)
	}
	v, err := ask.Decode[T](body)
	if err != nil {
		return err
	}
	table(s, v)
	return s.Failed()
}

// object reads KIND/NAME, KIND NAME or NAME; its namespace is -n's or the context's.
func (a *asking) object(args []string) (ask.Object, error) {
	kind, name := "", args[0]
	if len(args) == 2 {
		kind, name = args[0], args[1]
	} else if k, n, ok := strings.Cut(args[0], "/"); ok {
		kind, name = k, n
	}
	if name == "" || len(args) == 2 && kind == "" {
		return ask.Object{}, &ask.UsageError{Message: fmt.Sprintf("%q names no object: want NAME or KIND/NAME", strings.Join(args, " "))}
	}
	namespace, err := a.namespace()
	if err != nil {
		return ask.Object{}, err
	}
	return ask.Object{Kind: kindOf(kind), Namespace: namespace, Name: name}, nil
}

// namespace is -n's or the context's; offline, where there is no context, default.
func (a *asking) namespace() (string, error) {
	if a.dump != "" {
		return cmp.Or(a.options.Namespace, "default"), nil
	}
	client, err := a.connect()
	if err != nil {
		return "", err
	}
	return client.Namespace(), nil
}

// addDump adds --dump.
func (a *asking) addDump(cmd *cobra.Command) {
	cmd.Flags().StringVar(&a.dump, "dump", "", "answer from a file of tangram dump instead of a cluster")
	_ = cmd.MarkFlagFilename("dump")
}

// kindOf knows kubectl's short forms; other kinds go on as they are, without their group.
func kindOf(word string) string {
	word, _, _ = strings.Cut(word, ".")
	return cmp.Or(shortKinds[strings.ToLower(word)], word)
}

var shortKinds = map[string]string{
	"po": "Pod", "pod": "Pod", "pods": "Pod", "gang": "Gang", "gangs": "Gang", "job": "Job", "jobs": "Job", "vcjob": "Job", "vj": "Job",
	"pg": "PodGroup", "podgroup": "PodGroup", "podgroups": "PodGroup", "deploy": "Deployment", "rs": "ReplicaSet",
	"sts": "StatefulSet", "ds": "DaemonSet", "cj": "CronJob", "lws": "LeaderWorkerSet",
}
