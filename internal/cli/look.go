package cli

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tangram-dev/tangram/internal/ask"
	"github.com/tangram-dev/tangram/internal/terminal"
)

// look is what commands that read the API server or files have in common: the connection,
// and -o.
type look struct {
	options ask.Options
	format  formatFlag
}

// formatFlag is the value of -o, one of a list; empty for a table.
type formatFlag struct {
	value string
	of    []string
}

func (f *formatFlag) String() string { return f.value }
func (f *formatFlag) Type() string   { return strings.Join(f.of, "|") }
func (f *formatFlag) Set(s string) error {
	if !slices.Contains(f.of, s) {
		return fmt.Errorf("%q is none of %s", s, strings.Join(f.of, ", "))
	}
	f.value = s
	return nil
}

// addTo adds the flags. Those of ask.Options that are about the scheduler's query port are
// left out.
func (l *look) addTo(cmd *cobra.Command, help string, formats ...string) {
	var all cobra.Command
	l.options.AddFlags(&all)
	for _, name := range []string{"kubeconfig", "context", "cluster", "user", "server", "token", "certificate-authority", "insecure-skip-tls-verify"} {
		cmd.Flags().AddFlag(all.Flags().Lookup(name))
	}
	l.format.of = append([]string{"json", "yaml", "wide"}, formats...)
	cmd.Flags().VarP(&l.format, "output", "o", help)
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(l.format.of, cobra.ShellCompDirectiveNoFileComp))
}

// data writes a value as JSON or YAML; false when a table was asked for.
func (l *look) data(s *terminal.Screen, v any) (bool, error) {
	if l.format.value != "json" && l.format.value != "yaml" {
		return false, nil
	}
	text, err := json.Marshal(v)
	if err != nil {
		return true, err
	}
	if l.format.value == "yaml" {
		return true, s.YAML(text)
	}
	return true, s.JSON(text)
}

func screenOf(cmd *cobra.Command) *terminal.Screen {
	return terminal.New(cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
}
