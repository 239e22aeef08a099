package main

import (
	"fmt"
	"strings"

	"github.com/tangram-dev/tangram/core/explain"
)

const reasonsHead = `# Why a pod waits: all reasons

<!-- Written by make generate from core/explain; do not edit. -->

A pod or gang that waits has one reason: a code with the numbers that go with it. It is in
the answer of ` + "`tangram why`" + ` ([how to read it](../guides/why.md)), in words in the pods' condition
` + "`PodScheduled`" + `, and the label ` + "`reason`" + ` of the metric
` + "`tangram_scheduling_attempts_total`" + `. Codes are stable; texts may change.

The class says who can help: ` + "`Capacity`" + ` more or other nodes, or the end of other pods;
` + "`Quota`" + ` the administrator of queues and quotas; ` + "`Members`" + ` the controller that creates the pods;
` + "`Turn`" + ` nothing has to be done; ` + "`Owner`" + ` the specification is wrong.

Permanence says what could cure a cause: ` + "`temporary`" + ` the end of pods or time, ` + "`administered`" + ` a
change by an administrator or another pod's start, ` + "`fixed`" + ` another node or another specification.
`

// writeReasons describes the reasons of core/explain.
func writeReasons(p *page, _ string) error {
	p.WriteString(reasonsHead)
	section := func(title, intro string, columns []string, wanted func(explain.Code) bool) {
		p.printf("\n## %s\n\n%s\n\n", title, intro)
		p.table(columns...)
		for _, e := range explain.Reference() {
			if !wanted(e.Code) {
				continue
			}
			var helps []string
			for _, h := range e.Helps {
				helps = append(helps, fmt.Sprintf("%s: %s", h.Who, h.What))
			}
			cells := []string{code(fmt.Sprint(e.Code)), fmt.Sprint(e.Code.Class())}
			if word := e.Code.Condition(); word != "" {
				cells = append(cells, code(word))
			}
			p.row(append(cells, fmt.Sprint(e.Code.Permanence()), e.Meaning, strings.Join(helps, "<br>"))...)
		}
	}
	section("Of gangs", "A single pod is a gang of one. The condition is the reason of the condition `PodScheduled`; a single pod that is\n`Rejected` is `Unschedulable`.",
		[]string{"code", "class", "condition", "permanence", "it waits because", "what helps"},
		func(c explain.Code) bool { return c.Condition() != "" })
	section("Of nodes", "With `Nodes` and `NoDomain`, the nodes are counted by why they cannot take the next pod. A node is counted\nunder the last check that it reached, so that the cause shown is the one to act on.",
		[]string{"code", "class", "permanence", "it is refused because", "what helps"},
		func(c explain.Code) bool { return c.Class() == explain.OfNode })
	section("Of other objects", "What `tangram why` answers about objects that are no waiting gang; no pod's condition shows it.",
		[]string{"code", "class", "permanence", "it waits because", "what helps"},
		func(c explain.Code) bool { return c.Condition() == "" && c.Class() != explain.OfNode })
	return nil
}
