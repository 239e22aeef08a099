package cli

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tangram-dev/tangram/internal/ask"
	"github.com/tangram-dev/tangram/internal/cli/see"
	"github.com/tangram-dev/tangram/internal/terminal"
)

// Names under which the program is installed. kubectl runs what is called kubectl-NAME as
// `kubectl NAME`, and asks kubectl_complete-NAME for its completions.
const (
	program         = "tangram"
	kubectlPlugin   = "kubectl-tangram"
	kubectlComplete = "kubectl_complete-tangram"
)

// Main runs the command with its arguments, the first of which is the program's name, and
// returns its exit code. An error is printed once, on errOut, with nothing in it that could
// drive a terminal. more are commands that the program adds to those of this package.
func Main(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer, more ...*cobra.Command) int {
	root := New(more...)
	name, rest := program, args[1:]
	switch filepath.Base(args[0]) {
	case kubectlPlugin:
		name = "kubectl " + program
		asPlugin(root)
	case kubectlComplete:
		name = "kubectl " + program
		asPlugin(root)
		rest = append([]string{cobra.ShellCompRequestCmd}, rest...)
	}
	root.SetArgs(rest)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errOut)
	root.InitDefaultCompletionCmd() // it writes to what root's output is now
	for _, c := range root.Commands() {
		if !c.Runnable() { // completion: it would answer a shell that it does not know with its help
			c.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
	}
	begun := new(bool)
	markBegun(root, begun)
	cmd, err := root.ExecuteContextC(ctx)
	if err != nil && !*begun {
		// A flag, an argument or a command that does not exist: nothing has run. Cobra takes
		// an argument too many for a command.
		if _, arg, ok := strings.Cut(err.Error(), "unknown command "); ok && !cmd.HasSubCommands() {
			arg, _, _ = strings.Cut(arg, " for ")
			err = fmt.Errorf("%s takes no arguments, but %s was given", cmd.CommandPath(), arg)
		}
		if _, count, ok := strings.Cut(err.Error(), " arg(s), received "); ok {
			err = fmt.Errorf("want %q, but %s arguments were given", strings.TrimSuffix(cmd.UseLine(), " [flags]"), count)
		}
		err = &ask.UsageError{Message: fmt.Sprintf("%v\nSee '%s --help'.", err, cmd.CommandPath())}
	}
	if err != nil && err.Error() != "" {
		fmt.Fprintf(errOut, "%s: %s\n", name, terminal.CleanLines(err.Error()))
	}
	return see.ExitCode(err)
}

// markBegun notes when a command's own function is called: errors before are mistakes in the
// command line.
func markBegun(cmd *cobra.Command, begun *bool) {
	if run := cmd.RunE; run != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			*begun = true
			return run(cmd, args)
		}
	}
	for _, sub := range cmd.Commands() {
		markBegun(sub, begun)
	}
}

// asPlugin makes the help speak of `kubectl tangram`.
func asPlugin(root *cobra.Command) {
	root.Use = kubectlPlugin
	root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl " + program}
	var rewrite func(*cobra.Command)
	rewrite = func(c *cobra.Command) {
		lines := strings.Split(c.Example, "\n")
		for i, line := range lines {
			lines[i] = strings.ReplaceAll(strings.Replace(line, "  "+program+" ", "  kubectl "+program+" ", 1), "| "+program+" ", "| kubectl "+program+" ")
		}
		c.Example = strings.Join(lines, "\n")
		for _, sub := range c.Commands() {
			rewrite(sub)
		}
	}
	rewrite(root)
}
