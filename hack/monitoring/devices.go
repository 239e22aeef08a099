package main

// devices is the GPUs of a node or of all, from the agents or from dcgm-exporter.
func devices() dashboard {
	const at = `{Hostname=~"$node"}`
	one := func(metric, legend string) query { return query{metric + at, legend} }
	const device = "{{Hostname}} {{gpu}}"
	return dashboard{
		uid: "tangram-devices", title: "Tangram / Devices",
		description: "GPUs one by one: load, memory, heat, power, errors, health; and the agents.",
		variables:   []variable{{"node", "Node", "label_values(DCGM_FI_DEV_GPU_UTIL, Hostname)"}},
		rows: []row{
			{"Now", []panel{
				stat("GPUs", "short", `count(count by (UUID) (DCGM_FI_DEV_GPU_TEMP`+at+`))`, "GPUs that report."),
				stat("Utilization", "percent", `avg(DCGM_FI_DEV_GPU_UTIL`+at+`)`, "Mean."),
				stat("Memory used", "percentunit", `sum(DCGM_FI_DEV_FB_USED`+at+`) / (sum(DCGM_FI_DEV_FB_USED`+at+`) + sum(DCGM_FI_DEV_FB_FREE`+at+`))`, "Of all memory."),
				stat("Hottest", "celsius", `max(DCGM_FI_DEV_GPU_TEMP`+at+`)`, "The agent takes a GPU out of use at 90 °C for 5 minutes.").from(85, 90),
				stat("Power", "watt", `sum(DCGM_FI_DEV_POWER_USAGE`+at+`)`, "Of all."),
				stat("Not healthy", "short", `sum(tangram_agent_device_health{Hostname=~"$node",state!="Healthy"})`, "Suspect, degraded and failed GPUs.").from(1, 2),
				stat("XIDs, 5 minutes", "short", `sum(DCGM_EXP_XID_ERRORS_COUNT`+at+`) or vector(0)`, "Errors of the driver in the last 5 minutes.").from(1, 1),
				stat("Agents up", "percentunit", `avg(up{job="gpu-agent"})`, "Part of the agents that Prometheus reaches.").under(1, 0.99),
			}},
			{"Load", []panel{
				graph("Utilization", "percent", "Time in which a kernel ran.", one("DCGM_FI_DEV_GPU_UTIL", device)),
				graph("Memory used", "percentunit", "used / (used + free)", query{`DCGM_FI_DEV_FB_USED` + at + ` / (DCGM_FI_DEV_FB_USED` + at + ` + DCGM_FI_DEV_FB_FREE` + at + `)`, device}),
				graph("Memory bandwidth", "percent", "Time in which memory was read or written.", one("DCGM_FI_DEV_MEM_COPY_UTIL", device)),
				graph("SM clock", "rotmhz", "Falls with heat and power.", one("DCGM_FI_DEV_SM_CLOCK", device)),
			}},
			{"Heat and power", []panel{
				graph("Temperature", "celsius", "", one("DCGM_FI_DEV_GPU_TEMP", device)).from(85, 90),
				graph("Power of limit", "percentunit", "", query{`DCGM_FI_DEV_POWER_USAGE` + at + ` / DCGM_FI_DEV_POWER_MGMT_LIMIT` + at, device}),
				graph("Clocks held down by the hardware", "short", "1: heat, or power that is missing.",
					query{`max by (Hostname, gpu) (floor(DCGM_FI_DEV_CLOCKS_EVENT_REASONS` + at + ` / 8) % 2)`, device}),
				graph("NVLink traffic", "Bps", "Sent and received on all links of a GPU.", query{`rate(DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL` + at + `[$__rate_interval])`, device}),
			}},
			{"Errors and health", []panel{
				graph("Health", "short", "Devices in each state.", query{`sum by (state) (tangram_agent_device_health` + at + `)`, "{{state}}"}).stacked(),
				graph("XIDs by number", "short", "In the last 5 minutes. The table of numbers is in docs/reference/agent.md.", query{`sum by (Hostname, gpu, xid) (DCGM_EXP_XID_ERRORS_COUNT` + at + `)`, device + " XID {{xid}}"}),
				graph("Uncorrectable memory errors", "short", "Since the driver was loaded.", one("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", device)),
				graph("NVLink errors per minute", "short", "CRC, replay and recovery.", query{`rate(tangram_gpu_nvlink_errors_total` + at + `[$__rate_interval]) * 60`, device}),
			}},
			{"Agents", []panel{
				graph("Driver and events", "short", "1: the driver answers, its errors are received.",
					query{`min(tangram_agent_driver_answering` + at + `)`, "driver, worst node"}, query{`min(tangram_agent_events_watched` + at + `)`, "events, worst node"}),
				graph("Calls of the driver, p99", "s", "A driver that gets slow is about to fail.",
					query{`histogram_quantile(0.99, sum by (call, le) (rate(tangram_agent_backend_call_seconds_bucket` + at + `[$__rate_interval])))`, "{{call}}"}),
				graph("Allocations per minute", "short", "By step and result. Nothing where another device plugin serves.",
					query{`sum by (step, result) (rate(tangram_agent_allocations_total` + at + `[$__rate_interval])) * 60`, "{{step}} {{result}}"}),
				graph("Writes of GPUNodes per minute", "short", "", query{`sum by (part, result) (rate(tangram_agent_gpunode_writes_total` + at + `[$__rate_interval])) * 60`, "{{part}} {{result}}"}),
			}},
		},
	}
}
