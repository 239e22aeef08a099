package monitoring

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/tangram-dev/tangram/monitoring"
)

// grafana is a dashboard, as far as this package reads it.
type grafana struct {
	UID           string `json:"uid"`
	Title         string `json:"title"`
	SchemaVersion int    `json:"schemaVersion"`
	Panels        []struct {
		ID         int               `json:"id"`
		Type       string            `json:"type"`
		Title      string            `json:"title"`
		DataSource map[string]string `json:"datasource"`
		GridPos    struct{ X, Y, W, H int }
		Targets    []struct {
			Expr       string            `json:"expr"`
			DataSource map[string]string `json:"datasource"`
		} `json:"targets"`
	} `json:"panels"`
	Templating struct {
		List []struct {
			Name       string `json:"name"`
			Type       string `json:"type"`
			Query      any    `json:"query"`
			Definition string `json:"definition"`
		} `json:"list"`
	} `json:"templating"`
}

func dashboards(t *testing.T) (out []grafana) {
	t.Helper()
	for _, f := range monitoring.Dashboards() {
		var d grafana
		if err := json.Unmarshal(f.Data, &d); err != nil {
			t.Fatalf("%s: %v", f.Name, err)
		}
		if d.UID+".json" != f.Name {
			t.Errorf("%s has the uid %s", f.Name, d.UID)
		}
		out = append(out, d)
	}
	if len(out) < 4 {
		t.Fatalf("%d dashboards, want those of fleet, scheduler, queues and devices", len(out))
	}
	return out
}

var variable = regexp.MustCompile(`\$(\w+)`)

// concrete is an expression as Grafana would send it, with All chosen everywhere.
func concrete(expr, rateInterval string) string {
	return variable.ReplaceAllStringFunc(expr, func(v string) string {
		if v == "$__rate_interval" {
			return rateInterval
		}
		return ".*"
	})
}

// TestDashboards: every query is PromQL about metrics that exist, every variable is
// defined, panels do not overlap, and nothing is fetched from elsewhere.
func TestDashboards(t *testing.T) {
	known := withRecorded(t, exported())
	for _, d := range dashboards(t) {
		t.Run(d.UID, func(t *testing.T) {
			defined := map[string]bool{"$__rate_interval": true}
			for _, v := range d.Templating.List {
				defined["$"+v.Name] = true
				if v.Type != "query" {
					continue
				}
				metric, label, ok := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(v.Definition, "label_values("), ")"), ", ")
				if !ok {
					t.Errorf("variable %s: %q is no label_values(METRIC, LABEL)", v.Name, v.Definition)
				}
				for _, p := range known.problems(use{map[string][]string{metric: {label}}, nil}) {
					t.Errorf("variable %s: %s", v.Name, p)
				}
			}
			ids, cells := map[int]bool{}, map[[2]int]string{}
			for _, p := range d.Panels {
				if ids[p.ID] {
					t.Errorf("panel %q: number %d is taken", p.Title, p.ID)
				}
				ids[p.ID] = true
				for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
					for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
						if other := cells[[2]int{x, y}]; other != "" || x >= 24 {
							t.Fatalf("panel %q lies over %q, or beyond the grid", p.Title, other)
						}
						cells[[2]int{x, y}] = p.Title
					}
				}
				if p.Type == "row" {
					continue
				}
				if len(p.Targets) == 0 || p.DataSource["uid"] != "${datasource}" {
					t.Errorf("panel %q: %d queries of data source %v", p.Title, len(p.Targets), p.DataSource)
				}
				for _, q := range p.Targets {
					for _, v := range variable.FindAllString(q.Expr, -1) {
						if !defined[v] {
							t.Errorf("panel %q: the variable %s is not defined", p.Title, v)
						}
					}
					u, err := parse(t, concrete(q.Expr, "5m"))
					if err != nil {
						t.Errorf("panel %q: %v", p.Title, err)
						continue
					}
					for _, problem := range known.problems(u) {
						t.Errorf("panel %q: %s", p.Title, problem)
					}
				}
			}
		})
	}
	for _, f := range monitoring.Dashboards() {
		if i := strings.Index(string(f.Data), "http"); i >= 0 {
			t.Errorf("%s names an address: %.60s", f.Name, f.Data[i:])
		}
	}
}
