package bench

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// LockTimes is how long a scheduler held its lock, by what for: how often in all, and how
// often for longer than some times.
type LockTimes map[string]LockHistogram

// LockHistogram counts.
type LockHistogram struct {
	Count uint64 `json:"count"`
	// Over counts the times above each bound, by the bound in milliseconds; bounds above
	// which there are none are left out.
	Over map[string]uint64 `json:"overMs"`
	// Seconds is the sum of all times.
	Seconds float64 `json:"seconds"`
}

const lockMetric = "tangram_engine_lock_seconds"

// lockTimes asks a contender for its lock times; nil where it has none.
func (t *trial) lockTimes(ctx context.Context) (LockTimes, error) {
	if !t.contender.records { // only Tangram writes records, and has this lock
		return nil, nil
	}
	body, err := get(ctx, fmt.Sprintf("%s://127.0.0.1:%d/metrics", t.contender.scheme, t.port))
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return parseLockTimes(body)
}

// parseLockTimes reads the histogram from Prometheus' text format.
func parseLockTimes(r io.Reader) (LockTimes, error) {
	out := LockTimes{}
	below := map[string]map[string]uint64{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		name, labels, value, ok := sample(lines.Text())
		if !ok || !strings.HasPrefix(name, lockMetric) {
			continue
		}
		what := labels["for"]
		h := out[what]
		switch strings.TrimPrefix(name, lockMetric) {
		case "_count":
			h.Count = uint64(value)
		case "_sum":
			h.Seconds = value
		case "_bucket":
			if below[what] == nil {
				below[what] = map[string]uint64{}
			}
			below[what][labels["le"]] = uint64(value)
		}
		out[what] = h
	}
	for what, buckets := range below {
		h := out[what]
		h.Over = map[string]uint64{}
		for bound, n := range buckets {
			if seconds, err := strconv.ParseFloat(bound, 64); err == nil && n < h.Count && bound != "+Inf" {
				h.Over[strconv.FormatFloat(seconds*1000, 'g', -1, 64)] = h.Count - n
			}
		}
		out[what] = h
	}
	return out, lines.Err()
}

// sample reads one line: name{label="value",...} number.
func sample(line string) (name string, labels map[string]string, value float64, ok bool) {
	head, number, found := strings.Cut(line, "} ")
	if !found {
		return "", nil, 0, false
	}
	name, list, found := strings.Cut(head, "{")
	if !found {
		return "", nil, 0, false
	}
	labels = map[string]string{}
	for _, pair := range strings.Split(list, ",") {
		key, quoted, _ := strings.Cut(pair, "=")
		labels[key] = strings.Trim(quoted, `"`)
	}
	value, err := strconv.ParseFloat(number, 64)
	return name, labels, value, err == nil
}
