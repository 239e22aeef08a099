package main

// queues is what each queue uses, what waits in it and what it costs.
func queues() dashboard {
	const q = `{queue=~"$queue"}`
	return dashboard{
		uid: "tangram-queues", title: "Tangram / Queues",
		description: "Shares, quotas, waiting times, preemption and cost of each queue.",
		variables:   []variable{{"queue", "Queue", "label_values(queue:tangram_pending_gangs:leader, queue)"}},
		rows: []row{
			{"Shares", []panel{
				graph("Share of entitlement", "percentunit", "1 is exactly what a queue is entitled to now. Below 1 with gangs waiting while others are above: unfair.",
					query{`queue:tangram_queue_share_ratio:leader` + q, "{{queue}}"}),
				graph("GPUs used", "short", "Queues below are included.", query{`queue_kind:tangram_queue_gpus:leader{queue=~"$queue",kind="used"}`, "{{queue}}"}),
				graph("GPUs entitled", "short", "The fair share now.", query{`queue_kind:tangram_queue_gpus:leader{queue=~"$queue",kind="entitled"}`, "{{queue}}"}),
				graph("Quota", "short", "What the Queues say: guarantee, deserved, capability. Absent where a Queue says nothing.",
					query{`queue_kind:tangram_queue_gpus:leader{queue=~"$queue",kind=~"guarantee|deserved|capability"}`, "{{queue}} {{kind}}"}),
			}},
			{"Waiting", []panel{
				graph("Gangs waiting", "short", "A single pod is a gang of one.", query{`queue:tangram_pending_gangs:leader` + q, "{{queue}}"}).stacked(),
				graph("Pods waiting", "short", "", query{`queue:tangram_pending_pods:leader` + q, "{{queue}}"}).stacked(),
				graph("Oldest waits since", "s", "Age of the oldest gang that waits.", query{`queue:tangram_pending_oldest_seconds:leader` + q, "{{queue}}"}),
				graph("Time to start, p50 and p95", "s", "From creation to Binding, of pods that were bound. Target: 30 s, alert: 60 s for queues below their share.",
					query{`histogram_quantile(0.5, sum by (queue, le) (rate(tangram_queue_wait_seconds_bucket{queue=~"$queue"}[$__rate_interval])))`, "{{queue}} p50"},
					query{`histogram_quantile(0.95, sum by (queue, le) (rate(tangram_queue_wait_seconds_bucket{queue=~"$queue"}[$__rate_interval])))`, "{{queue}} p95"}),
			}},
			{"Ends", []panel{
				graph("Pods that ended per hour", "short", "By how.", query{`sum by (result) (increase(tangram_pods_finished_total{queue=~"$queue"}[1h]))`, "{{result}}"}),
				graph("Success", "percentunit", "succeeded / (succeeded + failed) over a day. Target: 95 %, alert: 90 %.",
					query{`sum by (queue) (increase(tangram_pods_finished_total{queue=~"$queue",result="succeeded"}[1d])) / sum by (queue) (increase(tangram_pods_finished_total{queue=~"$queue",result=~"succeeded|failed"}[1d]))`, "{{queue}}"}).under(0.95, 0.9),
				graph("Preemptions per hour", "short", "Victims by queue. priority: for a pod of the same queue; reclaim: for a queue below its share.",
					query{`sum by (queue, cause) (increase(tangram_preemptions_total{queue=~"$queue"}[1h]))`, "{{queue}} {{cause}}"}),
				graph("Lost GPU hours per hour", "short", "What victims had computed.",
					query{`sum by (queue) (increase(tangram_lost_gpu_hours_total{queue=~"$queue"}[1h]))`, "{{queue}}"}),
			}},
			{"Use and cost", []panel{
				graph("GPU hours per hour", "short", "While pods hold GPUs, used or not.", query{`sum by (queue) (rate(tangram_gpu_hours_total{queue=~"$queue"}[$__rate_interval])) * 3600`, "{{queue}}"}).stacked(),
				graph("Cost per hour", "short", "In the currency of the price table.", query{`sum by (queue) (rate(tangram_cost_total{queue=~"$queue"}[$__rate_interval])) * 3600`, "{{queue}}"}).stacked(),
				graph("Cost of the last day by user", "short", "The ten largest.", query{`topk(10, sum by (user) (increase(tangram_cost_total{queue=~"$queue"}[1d])))`, "{{user}}"}),
				graph("Cost of the last day by model", "short", "", query{`sum by (model) (increase(tangram_cost_total{queue=~"$queue"}[1d]))`, "{{model}}"}),
			}},
		},
	}
}
