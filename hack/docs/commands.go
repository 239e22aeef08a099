package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tangram-dev/tangram/internal/ask"
	"github.com/tangram-dev/tangram/internal/cli"
	labcli "github.com/tangram-dev/tangram/lab/cli"
)

// commandsHead is the beginning of docs/reference/command-line.md.
const commandsHead = `# The command line

<!-- Written by make generate: change the commands, not this page. -->

Every command of ` + "`tangram`" + `, with its flags. As ` + "`kubectl-tangram`" + ` on the path the program is a plugin: ` + "`kubectl tangram why POD`" + `.
[The guide](../guides/command-line.md) shows them at work and documents exit codes.
`

// writeCommands describes the commands of tangram, from the commands themselves.
func writeCommands(p *page, _ string) error {
	root := cli.New(labcli.Commands()...)
	root.InitDefaultCompletionCmd("completion", "x")
	p.WriteString(commandsHead)

	var o ask.Options
	connection := &cobra.Command{Use: "x"}
	o.AddFlags(connection)
	shared := lines(connection.LocalFlags().FlagUsages())
	p.WriteString("\n## Which cluster, as which user\n\nFlags of every command that asks a cluster:\n\n```\n")
	p.WriteString(strings.Join(shared, "\n") + "\n```\n")

	for _, group := range append(root.Groups(), &cobra.Group{Title: "Other commands:"}) {
		p.printf("\n## %s\n", strings.TrimSuffix(group.Title, ":"))
		for _, c := range root.Commands() {
			if c.GroupID == group.ID && c.IsAvailableCommand() && c.Name() != "help" {
				describe(p, c, shared)
			}
		}
	}
	return nil
}

// describe writes a command and those below it.
func describe(p *page, c *cobra.Command, shared []string) {
	c.InitDefaultHelpFlag()
	p.printf("\n### %s\n\n", c.CommandPath())
	text := c.Long
	if text == "" {
		text = c.Short + "."
	}
	if c.Parent() != nil && c.Parent().Name() == "completion" {
		text = c.Short + "." // cobra's own text; tangram completion SHELL --help shows it
	}
	p.WriteString(strings.TrimSpace(text) + "\n")
	if c.Runnable() {
		p.printf("\n```\n%s\n```\n", c.UseLine())
	}
	if c.Example != "" {
		p.printf("\nExamples:\n\n```\n%s\n```\n", c.Example)
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
		p.printf("\n```\n%s\n```\n", strings.Join(own, "\n"))
	}
	if asks {
		p.WriteString("\nAnd the flags of [which cluster, as which user](#which-cluster-as-which-user).\n")
	}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			describe(p, sub, shared)
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
