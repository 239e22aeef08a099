package main

// fleet is the page to begin with: how much there is, how much of it works, which namespaces use it.
func fleet() dashboard {
	const gpus = "model_state:tangram_gpus:leader"
	return dashboard{
		uid: "tangram-fleet", title: "Tangram / Fleet",
		description: "All GPUs: what is free, held, idle or broken, and what it costs.",
		variables:   []variable{{"model", "Model", "label_values(model_state:tangram_gpus:leader, model)"}},
		rows: []row{
			{"Now", []panel{
				stat("GPUs", "short", `sum(`+gpus+`{model=~"$model"})`, "All GPUs that the scheduler knows; the states below add up to it."),
				stat("Held", "percentunit", `sum(`+gpus+`{model=~"$model",state=~"allocated|idle_allocated"}) / sum(`+gpus+`{model=~"$model"})`, "Part of the fleet that pods hold."),
				stat("Free", "short", `sum(`+gpus+`{model=~"$model",state="free"})`, "Fractions of shared GPUs count as such."),
				stat("Held but idle", "short", `sum(`+gpus+`{model=~"$model",state="idle_allocated"})`, "GPUs that a pod holds and that do nothing."),
				stat("Broken", "short", `sum(`+gpus+`{model=~"$model",state=~"failed|degraded"})`, "Failed and degraded GPUs: kept from new pods.").from(1, 1),
				stat("Cordoned", "short", `sum(`+gpus+`{model=~"$model",state="cordoned"})`, "Kept from new pods by an operator."),
				stat("Gangs waiting", "short", `sum(queue:tangram_pending_gangs:leader)`, "A single pod is a gang of one."),
				stat("Alerts firing", "short", `count(ALERTS{alertstate="firing",severity=~"warning|critical"}) or vector(0)`, "Warnings and worse, of all rules in this Prometheus.").from(1, 5),
			}},
			{"Capacity", []panel{
				graph("GPUs by state", "short", "The states are disjoint: their sum is the fleet.", query{`sum by (state) (` + gpus + `{model=~"$model"})`, "{{state}}"}).stacked(),
				graph("Held GPUs by model", "percentunit", "Part of each model that pods hold.",
					query{`sum by (model) (` + gpus + `{model=~"$model",state=~"allocated|idle_allocated"}) / sum by (model) (` + gpus + `{model=~"$model"})`, "{{model}}"}),
				graph("Utilization", "percent", "Of held GPUs: low means that pods hold more than they use. Of all: what the fleet does.",
					query{`avg(DCGM_FI_DEV_GPU_UTIL{pod!=""})`, "held"}, query{`avg(DCGM_FI_DEV_GPU_UTIL)`, "all"}).under(80, 60),
				graph("Fragmentation", "percentunit", "Part of the free GPUs that no waiting or typical request can use. Target: below 10 %.",
					query{`tangram:gpu_fragmentation:leader`, "unusable part of the free"}).from(0.1, 0.3),
			}},
			{"Health", []panel{
				graph("Nodes by health", "short", "As gpu-controller judges.", query{`max by (state) (tangram_node_health)`, "{{state}}"}).stacked(),
				graph("GPUs by health", "short", "As the agents judge.", query{`sum by (state) (tangram_agent_device_health)`, "{{state}}"}).stacked(),
				graph("Isolations", "short", "Devices and nodes taken out of service in the last hour, and those that were not because too many were.",
					query{`sum by (kind, cause) (increase(tangram_isolations_total[1h]))`, "{{kind}} {{cause}}"},
					query{`sum by (cause) (increase(tangram_isolations_suppressed_total[1h]))`, "suppressed {{cause}}"}),
				graph("Time to recovery", "s", "Mean over a day. workload is the service's MTTR, target below 5 minutes; device and node include quiet times of the hardware.",
					query{`sum by (kind) (rate(tangram_recovery_seconds_sum[1d])) / sum by (kind) (rate(tangram_recovery_seconds_count[1d]))`, "{{kind}}"}).from(300, 600),
				graph("Mean time between failures", "h", "Of one GPU. Target: 720 hours.", query{`max(tangram_mtbf_hours)`, "MTBF"}).under(720, 168),
				graph("Evictions off sick hardware", "short", "In the last hour, by cause and result.", query{`sum by (cause, result) (increase(tangram_evictions_total[1h]))`, "{{cause}} {{result}}"}),
			}},
			{"Use and cost", []panel{
				graph("GPU hours per hour by namespace", "short", "The ten largest. Counted while pods hold GPUs, used or not.",
					query{`topk(10, sum by (namespace) (rate(tangram_gpu_hours_total{model=~"$model"}[$__rate_interval]))) * 3600`, "{{namespace}}"}).stacked(),
				graph("Cost per hour by namespace", "short", "In the currency of the price table.",
					query{`topk(10, sum by (namespace) (rate(tangram_cost_total{model=~"$model"}[$__rate_interval]))) * 3600`, "{{namespace}}"}).stacked(),
				graph("Power", "watt", "Drawn by all GPUs together.", query{`sum(DCGM_FI_DEV_POWER_USAGE)`, "power"}),
				graph("Lost GPU hours per hour", "short", "Work of evicted pods, lost unless they kept checkpoints.",
					query{`sum by (queue) (rate(tangram_lost_gpu_hours_total[$__rate_interval])) * 3600`, "{{queue}}"}),
			}},
		},
	}
}
