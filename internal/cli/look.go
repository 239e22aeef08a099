package cli

import (
	"encoding/json"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/tangram-dev/tangram/api/query"
	"github.com/tangram-dev/tangram/internal/ask"
	"github.com/tangram-dev/tangram/internal/cli/see"
	"github.com/tangram-dev/tangram/internal/terminal"
)

// look is what commands that read the API server or files have in common: the connection,
// and -o.
type look struct {
	options ask.Options
	format  string // of -o; empty for a table
}

// addTo adds the flags. Those of ask.Options that are about the scheduler's query port are
// left out.
func (l *look) addTo(cmd *cobra.Command, help string, formats ...string) {
	var all cobra.Command
	l.options.AddFlags(&all)
	for _, name := range []string{"kubeconfig", "context", "cluster", "user", "server", "token", "certificate-authority", "insecure-skip-tls-verify"} {
		cmd.Flags().AddFlag(all.Flags().Lookup(name))
	}
	see.AddFormat(cmd, &l.format, help, append([]string{"json", "yaml", "wide"}, formats...)...)
}

// data writes a value as JSON or YAML; false when a table was asked for.
func (l *look) data(s *terminal.Screen, v any) (bool, error) {
	if l.format != "json" && l.format != "yaml" {
		return false, nil
	}
	text, err := json.Marshal(v)
	if err != nil {
		return true, err
	}
	if l.format == "yaml" {
		return true, s.YAML(text)
	}
	return true, s.JSON(text)
}

func screenOf(cmd *cobra.Command) *terminal.Screen {
	return terminal.New(cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
}

// misused is an error as one of usage: a flag, an argument or a file that was given cannot be
// used.
func misused(err error) error { return &ask.UsageError{Message: err.Error()} }

// missing is an error for something that is not there.
func missing(message string) error {
	return &query.Error{Status: http.StatusNotFound, Reason: "NotFound", Message: message}
}
