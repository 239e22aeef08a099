package cluster

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/tangram-dev/tangram/lab/local"
)

// Samples are the values of a scrape, by name and labels as Prometheus' text has them.
type Samples map[string]float64

// ParseSamples reads what a program says on /metrics.
func ParseSamples(text string) (Samples, error) {
	out := Samples{}
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		line := lines.Text()
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		at := strings.LastIndexByte(line, ' ')
		value, err := strconv.ParseFloat(line[at+1:], 64)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", line, err)
		}
		out[line[:at]] = value
	}
	return out, nil
}

// OpenMetrics lets gpu-scheduler's metrics be read without a token.
const OpenMetrics = "--authorization-always-allow-paths=/healthz,/readyz,/livez,/metrics"

// Scrape reads the metrics of a scheduler with OpenMetrics.
func Scrape(p *local.Serving) (Samples, error) {
	client := HTTPClient(nil, "")
	defer client.CloseIdleConnections()
	answer, err := Asker{Client: client, Base: fmt.Sprintf("https://127.0.0.1:%d", p.Port)}.Try(context.Background(), http.MethodGet, "/metrics", nil)
	if err != nil {
		return nil, err
	}
	if answer.Status != http.StatusOK {
		return nil, fmt.Errorf("status %d: %s", answer.Status, answer.Text)
	}
	return ParseSamples(answer.Text)
}

// Attempts is how many times kube-scheduler has tried to place a pod, whatever came of it.
func (w *World) Attempts(p *local.Serving) int {
	w.T.Helper()
	samples, err := Scrape(p)
	w.Must(err)
	return int(samples.Sum("scheduler_schedule_attempts_total", ""))
}

// Of are the samples of one metric, for messages.
func (s Samples) Of(name string) string {
	var out []string
	for key, value := range s {
		if strings.HasPrefix(key, name+"{") || key == name {
			out = append(out, fmt.Sprintf("%s %g", key, value))
		}
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

// Sum adds up the samples of one metric whose labels contain some text.
func (s Samples) Sum(name, labels string) (sum float64) {
	for key, value := range s {
		if (strings.HasPrefix(key, name+"{") || key == name) && strings.Contains(key, labels) {
			sum += value
		}
	}
	return sum
}
