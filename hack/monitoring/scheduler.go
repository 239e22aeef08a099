package main

// scheduler is how gpu-scheduler does: is there a leader, how fast, what goes wrong.
func scheduler() dashboard {
	quantile := func(q, phase string) string {
		return `histogram_quantile(` + q + `, sum by (le) (rate(tangram_scheduling_duration_seconds_bucket{phase="` + phase + `"}[$__rate_interval])))`
	}
	return dashboard{
		uid: "tangram-scheduler", title: "Tangram / Scheduler",
		description: "gpu-scheduler itself: leader, latency by phase, failures, locks, process.",
		rows: []row{
			{"Now", []panel{
				stat("Replicas up", "short", `sum(up{job="gpu-scheduler"})`, "Replicas that Prometheus reaches.").under(2, 1),
				stat("Leaders", "short", `sum(tangram_leader)`, "Must be 1."),
				stat("Available", "percentunit", `max(tangram_scheduler_available_ratio)`, "Over 30 days, or since the start. Target: 99.9 %.").under(0.9995, 0.999),
				stat("Pods per second", "short", `sum(rate(tangram_scheduling_attempts_total{result="scheduled"}[5m]))`, "Bound, over 5 minutes."),
				stat("Decision p95", "s", `histogram_quantile(0.95, sum by (le) (rate(tangram_scheduling_duration_seconds_bucket{phase="decision"}[5m])))`, "What the scheduler itself takes. Target: below 100 ms.").from(0.1, 0.2),
				stat("Decision p99", "s", `histogram_quantile(0.99, sum by (le) (rate(tangram_scheduling_duration_seconds_bucket{phase="decision"}[5m])))`, "Target: below 200 ms.").from(0.2, 0.5),
				stat("Pods waiting", "short", `sum(queue:tangram_pending_pods:leader)`, "Over all queues."),
				stat("Self-check failures", "short", `sum(tangram_engine_check_failures_total) or vector(0)`, "Differences between the scheduler's books and the API since its start. Must be 0.").from(1, 1),
			}},
			{"Latency", []panel{
				graph("Decision", "s", "From the plan to the Binding; waiting for capacity is not counted. Targets: p50 50 ms, p95 100 ms, p99 200 ms.",
					query{quantile("0.5", "decision"), "p50"}, query{quantile("0.95", "decision"), "p95"}, query{quantile("0.99", "decision"), "p99"}).from(0.1, 0.2),
				graph("Phases, p95", "s", "Where the time goes. queue waits for quota and capacity, permit for other members of the gang.",
					query{`histogram_quantile(0.95, sum by (phase, le) (rate(tangram_scheduling_duration_seconds_bucket[$__rate_interval])))`, "{{phase}}"}),
				graph("Slow decisions per minute", "short", "Each is in the scheduler's log with its phases.",
					query{`sum by (threshold) (rate(tangram_scheduling_slow_total[$__rate_interval])) * 60`, "over {{threshold}}"}),
				graph("Engine lock held, p99", "s", "By what for. A long step delays all others.",
					query{`histogram_quantile(0.99, sum by (for, le) (rate(tangram_engine_lock_seconds_bucket[$__rate_interval])))`, "{{for}}"}),
			}},
			{"Outcomes", []panel{
				graph("Attempts per second", "short", "unschedulable: the pod waits. error: it had a place and was not bound.",
					query{`sum by (result) (rate(tangram_scheduling_attempts_total[$__rate_interval]))`, "{{result}}"}),
				graph("Why pods wait", "short", "Reason codes per minute.",
					query{`sum by (reason) (rate(tangram_scheduling_attempts_total{result="unschedulable"}[$__rate_interval])) * 60`, "{{reason}}"}),
				graph("Retries and conflicts per minute", "short", "Places that were taken back; conflicts over what a pod was given.",
					query{`sum(rate(tangram_scheduling_retries_total[$__rate_interval])) * 60`, "retries"},
					query{`sum by (kind) (rate(tangram_conflicts_total[$__rate_interval])) * 60`, "{{kind}}"}),
				graph("Vetoes per minute", "short", "Nodes that a filter of kube-scheduler refused after they were planned.",
					query{`sum by (plugin) (rate(tangram_vetoes_total[$__rate_interval])) * 60`, "{{plugin}}"}),
				graph("Reservations", "short", "Large gangs for which nodes are kept.", query{`sum(tangram_reservations)`, "reservations"}),
				graph("How far promised starts were off, p90", "s", "Of gangs with a reservation.",
					query{`histogram_quantile(0.9, sum by (direction, le) (rate(tangram_expected_start_error_seconds_bucket[1h])))`, "{{direction}}"}),
			}},
			{"Process", []panel{
				graph("CPU", "short", "Cores.", query{`rate(process_cpu_seconds_total{job=~"gpu-scheduler|gpu-controller|gpu-agent"}[$__rate_interval])`, "{{job}} {{instance}}"}),
				graph("Memory", "bytes", "Resident.", query{`process_resident_memory_bytes{job=~"gpu-scheduler|gpu-controller|gpu-agent"}`, "{{job}} {{instance}}"}),
				graph("Requests to the API server per second", "short", "Of the scheduler, by method and status.",
					query{`sum by (method, code) (rate(rest_client_requests_total{job="gpu-scheduler"}[$__rate_interval]))`, "{{method}} {{code}}"}),
				graph("kube-scheduler's own queue", "short", "Pods in the queues of the framework that Tangram runs in.",
					query{`sum by (queue) (scheduler_pending_pods{job="gpu-scheduler"})`, "{{queue}}"}),
			}},
		},
	}
}
