// Package see is the commands that ask the scheduler: why, whatif, explain, jobs, queues,
// top, cost, dump and web. They put a question to the query API (internal/ask) and print
// the answer as a table, or unchanged as JSON or YAML. They decide and compute nothing: a
// sentence or a sum that is missing in a table is missing in the answer.
//
// Reading order: see.go (how a command asks), format.go (-o), words.go (how values look),
// why.go, whatif.go, explain.go, jobs.go, queues.go, top.go and topnodes.go, cost.go, dump.go,
// web.go, page.go and guard.go (the page and who gets in), complete.go, exit.go.
package see
