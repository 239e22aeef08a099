// Command reasonsdoc writes docs/reference/reasons.md from the table of reasons in
// core/explain. It is a step of make generate.
package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/tangram-dev/tangram/core/explain"
)

const head = `# Why a pod waits: all reasons

<!-- Written by make generate from core/explain; do not edit. -->

A pod or gang that waits has one reason: a code with the numbers that go with it. It is in
the answer of ` + "`tangram why`" + ` ([how to read it](../guides/why.md)), in words in the pods' condition
` + "`PodScheduled`" + `, and the label ` + "`reason`" + ` of the metric
` + "`tangram_scheduling_attempts_total`" + `. Codes are stable; texts may change.

The class says who can help: ` + "`Capacity`" + ` more or other nodes, or the end of other pods;
` + "`Quota`" + ` the administrator of queues and quotas; ` + "`Members`" + ` the controller that creates the pods;
` + "`Turn`" + ` nobody has to do anything; ` + "`Owner`" + ` the specification is wrong.

Permanence says what could cure a cause: ` + "`passing`" + ` the end of pods or time, ` + "`administered`" + ` a
change by an administrator or another pod's start, ` + "`fixed`" + ` another node or another specification.
`

// page is docs/reference/reasons.md.
func page() string {
	var b strings.Builder
	b.WriteString(head)
	section := func(title, intro string, wanted func(explain.Code) bool) {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| code | class | permanence | it waits because | what helps |\n|---|---|---|---|---|\n", title, intro)
		for _, e := range explain.Reference() {
			if !wanted(e.Code) {
				continue
			}
			var helps []string
			for _, h := range e.Helps {
				helps = append(helps, fmt.Sprintf("%s: %s", h.Who, h.What))
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", e.Code, e.Code.Class(), e.Code.Permanence(), e.Meaning, strings.Join(helps, "<br>"))
		}
	}
	section("Of gangs", "A single pod is a gang of one.", func(c explain.Code) bool { return c.Class() != explain.OfNode })
	section("Of nodes", "With `Nodes` and `NoDomain`, the nodes are counted by why they cannot take the next pod. A node is counted\nunder the last check that it reached, so that the cause shown is the one to act on.", func(c explain.Code) bool { return c.Class() == explain.OfNode })
	return b.String()
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: reasonsdoc FILE")
		os.Exit(2)
	}
	if err := os.WriteFile(os.Args[1], []byte(page()), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
