package recovery

import (
	"fmt"
	"strings"
	"time"

	"github.com/tangram-dev/tangram/core/recovery"
)

// maintenanceOf reads the annotation: START or START/END, where START is a time or now
// and END a time or a duration. since is when a maintenance that is under way began: now
// means that.
func maintenanceOf(text string, since, now time.Time) (*recovery.Maintenance, error) {
	start, end, bounded := strings.Cut(strings.TrimSpace(text), "/")
	var m recovery.Maintenance
	if start == "now" {
		if m.From = since; since.IsZero() {
			m.From = now
		}
	} else {
		var err error
		if m.From, err = time.Parse(time.RFC3339, start); err != nil {
			return nil, fmt.Errorf("%.40q is neither now nor a time such as 2026-10-01T02:00:00Z", start)
		}
	}
	if !bounded {
		return &m, nil
	}
	if d, err := time.ParseDuration(end); err == nil {
		m.Until = m.From.Add(d)
	} else if m.Until, err = time.Parse(time.RFC3339, end); err != nil {
		return nil, fmt.Errorf("%.40q is neither a duration such as 4h nor a time such as 2026-10-01T06:00:00Z", end)
	}
	if !m.Until.After(m.From) {
		return nil, fmt.Errorf("the end %.40q is not after the start", end)
	}
	return &m, nil
}
