// Package query answers questions about the scheduler's state over HTTPS: what api/query
// describes. It computes nothing: a Source does, and this package decides who may ask, what
// of an answer they may see, and how many questions are answered at once.
//
//	server.go    the way of a request: who, which question, how many, the answer
//	table.go     the questions: path, method, parameters, function
//	request.go   parameters and bodies, checked
//	caller.go    what a caller may list
//	busy.go      how many questions run at once, of all and of one caller
//	bounds.go    bounds on tokens that are checked, answers, and the engine's lock
//	source.go    where answers come from: internal/kube/answer
//	lists.go     fleet, nodes, queues, history, gangs, timeline
//	why.go, explain.go, usage.go, whatif.go
//	             one question each
//	filter.go    what a caller may not list is taken out of answers, and counted
//	timing.go    what the time of a question was spent on
//	serve.go     the port, its certificate
//	announce.go  where the leader answers, in its Lease
//
// A new question is a file with its function, and a row in table.go.
package query
