package score_test

import (
	"testing"

	"github.com/tangram-dev/tangram/core/model"
	"github.com/tangram-dev/tangram/core/score"
	"github.com/tangram-dev/tangram/test/coretest"
)

func TestLiveObjectives(t *testing.T) {
	m := model.Measured
	type four [4]int // utilization, memory, temperature, power
	of := func(utilization, memory, temperature, power int) model.Telemetry {
		return model.Telemetry{Utilization: m(utilization), MemoryUsed: m(memory), Temperature: m(temperature), Power: m(power)}
	}
	tests := []struct {
		name      string
		model     string
		telemetry []model.Telemetry // of two devices of 80 GiB; the first is chosen
		want      four
	}{
		{"nothing measured", "A100", nil, four{50, 50, 50, 50}},
		{"idle and cool", "A100", []model.Telemetry{of(0, 0, 30, 0), of(0, 0, 40, 0)}, four{100, 100, 100, 100}},
		{"busy and hot", "A100", []model.Telemetry{of(100, 80<<10, 90, 400), of(100, 80<<10, 95, 400)}, four{0, 0, 0, 0}},
		{"between", "A100", []model.Telemetry{of(25, 20<<10, 65, 100), of(25, 20<<10, 65, 100)}, four{75, 75, 50, 75}},
		{"only the neighbour is busy, and warms", "A100", []model.Telemetry{of(0, 0, 40, 0), of(100, 80<<10, 90, 400)}, four{100, 100, 50, 50}},
		{"only the neighbour was measured", "A100", []model.Telemetry{{}, of(100, 0, 90, 400)}, four{50, 50, 25, 25}},
		{"beyond the limits", "A100", []model.Telemetry{of(120, 90<<10, -5, 900), of(0, 0, 200, 0)}, four{0, 0, 50, 50}},
		{"a card draws less than a module", "A100 PCIe", []model.Telemetry{{Power: m(300)}, {Power: m(300)}}, four{50, 50, 50, 0}},
		{"an unlisted model", "Fancy 9000", []model.Telemetry{{Power: m(300)}, {Power: m(300)}}, four{50, 50, 50, 50}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := coretest.Node("n").GPUs(2, tt.model).Build()
			l := coretest.Ledger(t, n)
			l.SetTelemetry("n", tt.telemetry)
			v, _ := l.View("n")
			c := score.Rate(coretest.Request(1), v, 0b01)
			if got := (four{c[score.LiveUtilization], c[score.LiveMemory], c[score.Temperature], c[score.Power]}); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}
