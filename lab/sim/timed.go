package sim

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"time"
)

// TimedJob is one row of a timed trace.
type TimedJob struct {
	// Submitted and Duration are in nanoseconds; the first job is submitted at 0.
	Submitted, Duration int64
	GPUs                int
	Queue               string
	Priority            int32
}

// timedColumns are those of the Philly trace in its derived form, and a priority if
// there is one. gpu_time says nothing new and is not read.
var timedColumns = []string{"timestamp", "duration", "num_gpus", "gpu_time", "cluster", "priority"}

// timedColumnsNeeded is how many of timedColumns must be there.
const timedColumnsNeeded = 5

const (
	// maxSeconds bounds times: 30 years, so that sums stay far from overflow.
	maxSeconds = 1 << 30
	// maxGang bounds the GPUs of one job.
	maxGang = 1 << 16
)

// ReadJobs reads a timed trace, sorted by submission. name is for errors, which say
// file, line and column.
func ReadJobs(name string, r io.Reader) ([]TimedJob, error) {
	var jobs []TimedJob
	err := readRows(name, r, timedColumns, timedColumnsNeeded, func(row *row) error {
		j := TimedJob{Submitted: row.moment(0), Duration: row.seconds(1), GPUs: int(row.number(2, maxGang)), Queue: row.text(4)}
		if row.text(5) != "" {
			j.Priority = row.priority(5)
		}
		switch {
		case row.err != nil:
			return row.err
		case j.Duration <= 0:
			return row.fail(1, fmt.Errorf("%q is not above 0", row.text(1)))
		case j.GPUs < 1:
			return row.fail(2, fmt.Errorf("%d is not in 1..%d", j.GPUs, maxGang))
		case j.Queue == "":
			return row.fail(4, fmt.Errorf("is empty"))
		}
		jobs = append(jobs, j)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(jobs) == 0 {
		return nil, fmt.Errorf("%s: no jobs", name)
	}
	slices.SortStableFunc(jobs, func(a, b TimedJob) int { return cmp.Compare(a.Submitted, b.Submitted) })
	first := jobs[0].Submitted
	if span := jobs[len(jobs)-1].Submitted - first; span > maxSeconds*int64(time.Second) {
		return nil, fmt.Errorf("%s: column timestamp: first and last are %v years apart", name, span/int64(365*24*time.Hour))
	}
	for i := range jobs {
		jobs[i].Submitted -= first
	}
	return jobs, nil
}

// moment is a field as a time: seconds, or a date and time.
func (r *row) moment(i int) int64 {
	if v, err := strconv.ParseFloat(r.text(i), 64); err == nil {
		if !(v >= 0 && v <= 1<<33) {
			r.note(i, fmt.Errorf("%q is not in 0..%d seconds", r.text(i), int64(1)<<33))
			return 0
		}
		return int64(math.Round(v * 1e9))
	}
	for _, layout := range []string{time.DateTime, time.RFC3339} {
		if t, err := time.Parse(layout, r.text(i)); err == nil {
			if t.Year() < 1970 || t.Year() > 2200 {
				r.note(i, fmt.Errorf("the year of %q is not in 1970..2200", r.text(i)))
				return 0
			}
			return t.UnixNano()
		}
	}
	r.note(i, fmt.Errorf("%q is neither seconds nor like %q", r.text(i), time.DateTime))
	return 0
}

// seconds is a field as a span of time.
func (r *row) seconds(i int) int64 {
	v, err := strconv.ParseFloat(r.text(i), 64)
	if err != nil || !(v >= 0 && v <= maxSeconds) {
		r.note(i, fmt.Errorf("%q is not a number of seconds in 0..%d", r.text(i), maxSeconds))
		return 0
	}
	return int64(math.Round(v * 1e9))
}

func (r *row) priority(i int) int32 {
	v, err := strconv.ParseInt(r.text(i), 10, 32)
	if err != nil {
		r.note(i, fmt.Errorf("%q is not a whole number of 32 bits", r.text(i)))
	}
	return int32(v)
}
