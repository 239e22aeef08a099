package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tangram-dev/tangram/internal/ask"
)

// referenceHead is the beginning of docs/reference/command-line.md.
const referenceHead = `# The command line

<!-- Written by go test ./internal/cli -run ReferencePage -update: change the commands, not this page. -->

Every command of ` + "`tangram`" + `, with its flags. As ` + "`kubectl-tangram`" + ` on the path the program is a plugin: ` + "`kubectl tangram why POD`" + `.
[The guide](../guides/command-line.md) shows them at work and documents exit codes.
`

// Reference is docs/reference/command-line.md, from the commands themselves.
func Reference() string {
	root := New()
	root.InitDefaultCompletionCmd("completion", "x")
	var b strings.Builder
	b.WriteString(referenceHead)

	var o ask.Options
	connection := &cobra.Command{Use: "x"}
	o.AddFlags(connection)
	shared := lines(connection.LocalFlags().FlagUsages())
	b.WriteString("\n## Which cluster, as whom\n\nFlags of every command that asks a cluster:\n\n```\n")
	b.WriteString(strings.Join(shared, "\n") + "\n```\n")

	for _, group := range append(root.Groups(), &cobra.Group{Title: "Other commands:"}) {
		fmt.Fprintf(&b, "\n## %s\n", strings.TrimSuffix(group.Title, ":"))
		for _, c := range root.Commands() {
			if c.GroupID == group.ID && c.IsAvailableCommand() && c.Name() != "help" {
				describe(&b, c, shared)
			}
		}
	}
	return b.String()
}

// describe writes a command and those below it.
func describe(b *strings.Builder, c *cobra.Command, shared []string) {
	c.InitDefaultHelpFlag()
	fmt.Fprintf(b, "\n### %s\n\n", c.CommandPath())
	text := c.Long
	if text == "" {
		text = c.Short + "."
	}
	if c.Parent() != nil && c.Parent().Name() == "completion" {
		text = c.Short + "." // cobra's own text; tangram completion SHELL --help shows it
	}
	b.WriteString(strings.TrimSpace(text) + "\n")
	if c.Runnable() {
		fmt.Fprintf(b, "\n```\n%s\n```\n", c.UseLine())
	}
	if c.Example != "" {
		fmt.Fprintf(b, "\nExamples:\n\n```\n%s\n```\n", c.Example)
	}
	var own []string
	asks := false
	for _, line := range lines(c.LocalFlags().FlagUsages()) {
		switch {
		case slices.Contains(shared, line):
			asks = true
		case !strings.Contains(line, "--help ") && strings.TrimSpace(line) != "":
			own = append(own, line)
		}
	}
	if len(own) > 0 {
		fmt.Fprintf(b, "\n```\n%s\n```\n", strings.Join(own, "\n"))
	}
	if asks {
		b.WriteString("\nAnd the flags of [which cluster, as whom](#which-cluster-as-whom).\n")
	}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			describe(b, sub, shared)
		}
	}
}

// lines are the lines of a flag set's usage, each flag without the padding that depends on
// the others.
func lines(usages string) []string {
	var out []string
	for _, line := range strings.Split(strings.TrimRight(usages, "\n"), "\n") {
		indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
		fields := strings.SplitN(strings.TrimLeft(line, " "), "   ", 2)
		if len(fields) == 2 {
			line = indent + fields[0] + "   " + strings.TrimLeft(fields[1], " ")
		}
		out = append(out, line)
	}
	return out
}
