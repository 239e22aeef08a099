package export

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tangram-dev/tangram/internal/metrictable"
)

// standsFor are the requirement documents' names of the agent's metrics.
var standsFor = map[string][]string{
	"DCGM_FI_DEV_GPU_UTIL":               {"001 DCGM_FI_DEV_GPU_UTIL", "003 gpu_utilization"},
	"DCGM_FI_DEV_MEM_COPY_UTIL":          {"001 DCGM_FI_DEV_MEM_COPY_UTIL"},
	"DCGM_FI_DEV_FB_USED":                {"001 DCGM_FI_DEV_FB_USED", "003 memory_utilization: FB_USED / (FB_USED + FB_FREE + FB_RESERVED)"},
	"DCGM_FI_DEV_FB_FREE":                {"001 DCGM_FI_DEV_FB_FREE"},
	"DCGM_FI_DEV_GPU_TEMP":               {"001 DCGM_FI_DEV_GPU_TEMP", "003 temperature"},
	"DCGM_FI_DEV_POWER_USAGE":            {"001 DCGM_FI_DEV_POWER_USAGE", "003 power_consumption"},
	"DCGM_FI_DEV_XID_ERRORS":             {"001 DCGM_FI_DEV_XID_ERRORS: a gauge, the last error's number"},
	"DCGM_EXP_XID_ERRORS_TOTAL":          {"003 error_count"},
	"DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL": {"001 DCGM_FI_DEV_NVLINK_BANDWIDTH: a counter, so its rate is the bandwidth"},
	"tangram_agent_device_health":        {"003 NodeHealthStatus, per device"},
}

// description is how Prometheus's library spells a Desc: the only way to read one.
var description = regexp.MustCompile(`^Desc\{fqName: ("(?:[^"\\]|\\.)*"), help: ("(?:[^"\\]|\\.)*"), constLabels: \{([^}]*)\}, variableLabels: \{([^}]*)\}\}$`)

// Table is all metrics of gpu-agent, read from the collectors themselves.
func Table() metrictable.Table {
	out := metrictable.Table{Program: "gpu-agent", Where: "the address of `--listen`, path `/metrics`", Common: slices.Concat([]string{"Hostname"}, labels)}
	for _, c := range []prometheus.Collector{NewCollector(Options{}), NewMetrics(""), NewReachable()} {
		descs := make(chan *prometheus.Desc)
		go func() {
			c.Describe(descs)
			close(descs)
		}()
		for d := range descs {
			if m, ok := parse(d.String()); ok {
				out.Metrics = append(out.Metrics, m)
			}
		}
	}
	return out
}

func parse(desc string) (m metrictable.Metric, ok bool) {
	parts := description.FindStringSubmatch(desc)
	if parts == nil {
		return m, false
	}
	m.Name, _ = strconv.Unquote(parts[1])
	m.Help, _ = strconv.Unquote(parts[2])
	if parts[3] != "" {
		m.Labels = append(m.Labels, metrictable.Label{Name: "Hostname", Values: "the node"})
	}
	for name := range strings.SplitSeq(parts[4], ",") {
		if name != "" {
			m.Labels = append(m.Labels, metrictable.Label{Name: name})
		}
	}
	m.Type, m.Unit, m.Source, m.StandsFor = typeOf(m.Name), unitOf(m.Name, m.Help), "agent", standsFor[m.Name]
	if slices.ContainsFunc(m.Labels, func(l metrictable.Label) bool { return l.Name == "UUID" }) {
		m.Source = "driver"
	}
	return m, true
}

func typeOf(name string) metrictable.Type {
	if i := slices.IndexFunc(metrics, func(m metric) bool { return m.name == name }); i >= 0 {
		if metrics[i].kind == prometheus.CounterValue {
			return metrictable.Counter
		}
		return metrictable.Gauge
	}
	switch {
	case strings.HasSuffix(name, "_total") || strings.HasSuffix(name, "_TOTAL"):
		return metrictable.Counter
	case strings.HasSuffix(name, "_seconds"):
		return metrictable.Histogram
	}
	return metrictable.Gauge
}

// inUnit is how the help of a metric says its unit.
var inUnit = regexp.MustCompile(`\(in ([^)]+)\)`)

func unitOf(name, help string) string {
	switch found := inUnit.FindStringSubmatch(help); {
	case found != nil:
		return found[1]
	case strings.HasSuffix(name, "_seconds"):
		return "seconds"
	case strings.HasPrefix(help, "Whether") || strings.HasPrefix(help, "State of"):
		return "0 or 1"
	}
	return "number"
}
