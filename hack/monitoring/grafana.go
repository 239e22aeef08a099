package main

import (
	"bytes"
	"encoding/json"
)

// schemaVersion is that of Grafana 12. Newer versions read it and migrate.
const schemaVersion = 41

// columns is the width of Grafana's grid.
const columns = 24

// dashboard is one page: rows of panels, top to bottom.
type dashboard struct {
	uid, title, description string
	variables               []variable
	rows                    []row
}

// variable is a choice at the top of the page, from the values of a label.
type variable struct{ name, label, query string }

// row is a heading and the panels below it, left to right; Grafana breaks the line when it
// is full.
type row struct {
	title  string
	panels []panel
}

// panel is one picture. What Grafana calls its type is kind.
type panel struct {
	kind, title, description string
	unit                     string // Grafana's name of a unit: s, percentunit, short, ...
	width, height            int
	queries                  []query
	stack                    bool
	// warn and alarm colour the value from there on, in the unit; 0 for none. With below
	// set, small values are bad.
	warn, alarm float64
	below       bool
}

// query is a PromQL expression and what its series are called.
type query struct{ expr, legend string }

// stat is a number.
func stat(title, unit, expr, description string) panel {
	return panel{kind: "stat", title: title, unit: unit, width: 3, height: 4, description: description, queries: []query{{expr, ""}}}
}

// graph is lines over time.
func graph(title, unit, description string, queries ...query) panel {
	return panel{kind: "timeseries", title: title, unit: unit, width: 12, height: 8, description: description, queries: queries}
}

func (p panel) stacked() panel { p.stack = true; return p }

// from colours values of warn and more yellow, of alarm and more red.
func (p panel) from(warn, alarm float64) panel { p.warn, p.alarm = warn, alarm; return p }

// under colours values below warn yellow, below alarm red.
func (p panel) under(warn, alarm float64) panel {
	p.warn, p.alarm, p.below = warn, alarm, true
	return p
}

type object = map[string]any

// source is the data source chosen at the top of the page.
func source() object { return object{"type": "prometheus", "uid": "${datasource}"} }

// encode returns Grafana's JSON model. Keys are sorted, so that the same dashboard is
// always the same file.
func (d dashboard) encode() ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(object{
		"uid": d.uid, "title": d.title, "description": d.description, "tags": []string{"tangram", "gpu"},
		"schemaVersion": schemaVersion, "version": 1, "editable": true, "graphTooltip": 1,
		"refresh": "30s", "time": object{"from": "now-6h", "to": "now"}, "timezone": "browser",
		"fiscalYearStartMonth": 0, "liveNow": false, "weekStart": "", "id": nil,
		"annotations": object{"list": []object{{
			"name": "Alerts", "enable": true, "iconColor": "red", "datasource": source(),
			"expr": `ALERTS{alertstate="firing",severity=~"warning|critical"}`, "titleFormat": "{{alertname}}", "textFormat": "{{severity}}",
		}}},
		"links":      []object{{"type": "dashboards", "title": "Tangram", "tags": []string{"tangram"}, "asDropdown": true, "includeVars": true, "keepTime": true, "icon": "external link"}},
		"templating": object{"list": d.templating()},
		"panels":     d.panels(),
	})
	return out.Bytes(), err
}

func (d dashboard) templating() []object {
	list := []object{{
		"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus", "refresh": 1,
		"hide": 0, "includeAll": false, "multi": false, "regex": "", "options": []object{}, "current": object{},
	}}
	for _, v := range d.variables {
		list = append(list, object{
			"name": v.name, "label": v.label, "type": "query", "datasource": source(), "definition": v.query,
			"query": object{"query": v.query, "refId": v.name, "qryType": 1}, "refresh": 2, "sort": 1,
			"hide": 0, "includeAll": true, "multi": true, "allValue": ".*", "regex": "", "options": []object{},
			"current": object{"text": []string{"All"}, "value": []string{"$__all"}},
		})
	}
	return list
}

// panels lays the rows out on the grid and numbers them.
func (d dashboard) panels() []object {
	var out []object
	id, y := 0, 0
	for _, r := range d.rows {
		id++
		out = append(out, object{"id": id, "type": "row", "title": r.title, "collapsed": false, "panels": []object{},
			"gridPos": object{"x": 0, "y": y, "w": columns, "h": 1}})
		y++
		x, tallest := 0, 0
		for _, p := range r.panels {
			if x+p.width > columns {
				x, y, tallest = 0, y+tallest, 0
			}
			id++
			out = append(out, p.encode(id, object{"x": x, "y": y, "w": p.width, "h": p.height}))
			x, tallest = x+p.width, max(tallest, p.height)
		}
		y += tallest
	}
	return out
}

func (p panel) encode(id int, at object) object {
	var targets []object
	for i, q := range p.queries {
		targets = append(targets, object{
			"refId": string(rune('A' + i)), "datasource": source(), "expr": q.expr, "legendFormat": q.legend,
			"editorMode": "code", "range": p.kind != "stat", "instant": p.kind == "stat",
		})
	}
	defaults := object{"unit": p.unit, "min": 0, "color": object{"mode": "palette-classic"}, "mappings": []object{}, "thresholds": p.thresholds()}
	options := object{"legend": object{"displayMode": "table", "placement": "right", "calcs": []string{"lastNotNull", "max"}, "showLegend": true},
		"tooltip": object{"mode": "multi", "sort": "desc"}}
	if p.kind == "stat" {
		defaults["color"] = object{"mode": "thresholds"}
		options = object{"colorMode": "value", "graphMode": "area", "justifyMode": "auto", "textMode": "auto", "wideLayout": true,
			"orientation": "auto", "reduceOptions": object{"calcs": []string{"lastNotNull"}, "fields": "", "values": false}}
	} else {
		custom := object{"drawStyle": "line", "lineWidth": 1, "fillOpacity": 10, "showPoints": "never", "spanNulls": false,
			"stacking": object{"mode": "none", "group": "A"}, "thresholdsStyle": object{"mode": "off"}}
		if p.stack {
			custom["stacking"], custom["fillOpacity"] = object{"mode": "normal", "group": "A"}, 40
		}
		if p.warn != 0 || p.alarm != 0 {
			custom["thresholdsStyle"] = object{"mode": "line"}
		}
		defaults["custom"] = custom
	}
	return object{"id": id, "type": p.kind, "title": p.title, "description": p.description, "gridPos": at, "datasource": source(),
		"targets": targets, "options": options, "fieldConfig": object{"defaults": defaults, "overrides": []object{}}}
}

func (p panel) thresholds() object {
	step := func(color string, from any) object { return object{"color": color, "value": from} }
	steps := []object{step("green", nil)}
	switch {
	case p.warn == 0 && p.alarm == 0:
	case p.below:
		steps = []object{step("red", nil), step("yellow", p.alarm), step("green", p.warn)}
	default:
		steps = append(steps, step("yellow", p.warn), step("red", p.alarm))
	}
	return object{"mode": "absolute", "steps": steps}
}
