// Package sim replays traces on core, without Kubernetes: "tangram simulate".
//
// Read command.go, the commands; input.go, errors of flags and files; driver.go,
// policies one after the other and what is written; page.go and chart.go, pages and their
// charts; progress.go, the bar; events.go, events by time; cputime_unix.go and
// cputime_other.go, processor time.
//
// "simulate pack" fills a fleet: packcommand.go and packconfig.go, what can be asked;
// openb.go, trace.go and translate.go, the trace; cluster.go and packpolicy.go, the fleet under
// a policy; static.go, the published protocol without departures; lifetimes.go, the one with;
// packreport.go and packpage.go, figures and page. Baselines as published: fgd.go with
// fragmentation.go, rules.go and random.go. generate.go writes traces.
//
// "simulate queue" replays jobs over time: queuecommand.go and queueconfig.go, what can be
// asked; timed.go, the trace; queuepolicy.go, policies as settings of the engine; queuerun.go,
// the replay; witness.go, what must not happen; fairness.go, what each queue gets;
// queuereport.go and queuepage.go, figures and page. generatejobs.go writes traces.
package sim
