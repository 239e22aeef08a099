package export

import (
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tangram-dev/tangram/internal/metrictable"
)

// The table has every metric that a registry would accept, and the right types.
func TestTable(t *testing.T) {
	table := Table().Metrics
	for _, m := range metrics {
		if !slices.ContainsFunc(table, func(x metrictable.Metric) bool { return x.Name == m.name && x.Help == m.help }) {
			t.Errorf("%s is not in the table", m.name)
		}
	}
	descs := 0
	for _, c := range []prometheus.Collector{NewCollector(Options{}), NewMetrics(""), NewReachable()} {
		out := make(chan *prometheus.Desc, 1000)
		c.Describe(out)
		descs += len(out)
	}
	if len(table) != descs {
		t.Errorf("%d metrics in the table, %d are described: the library spells them otherwise now", len(table), descs)
	}
	for name, want := range map[string]metrictable.Type{
		"DCGM_FI_DEV_XID_ERRORS": metrictable.Gauge, "DCGM_EXP_XID_ERRORS_TOTAL": metrictable.Counter, "tangram_agent_backend_call_seconds": metrictable.Histogram,
		"tangram_agent_api_server_answering": metrictable.Gauge, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": metrictable.Counter,
	} {
		i := slices.IndexFunc(table, func(m metrictable.Metric) bool { return m.Name == name })
		if i < 0 || table[i].Type != want {
			t.Errorf("%s: not a %s", name, want)
		}
	}
	for name := range standsFor {
		if !slices.ContainsFunc(table, func(m metrictable.Metric) bool { return m.Name == name }) {
			t.Errorf("standsFor names %s, which is no metric", name)
		}
	}
	if i := slices.IndexFunc(table, func(m metrictable.Metric) bool { return m.Name == "DCGM_FI_DEV_GPU_UTIL" }); i < 0 || !strings.Contains(strings.Join(table[i].LabelNames(), ","), "Hostname,gpu,UUID") {
		t.Error("labels of DCGM_FI_DEV_GPU_UTIL are not read")
	}
}
