package main

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// dashboard is what a maintainer changes; json adds what Grafana requires in every panel.
type dashboard struct {
	name        string // of its file; its uid is celvpa-name
	title       string
	description string
	variables   []variable
	rows        []row
}

// variable is chosen at the top of a dashboard. The data source is one in all of them.
type variable struct {
	name  string
	query string
	all   bool // several may be chosen, or all
}

type row struct {
	title  string
	panels []panel
}

// panel is half as wide as the dashboard, or a quarter if it shows single values.
type panel struct {
	kind        kind
	title       string
	description string // what it means, and when to worry
	unit        string // Grafana's name of it
	signed      bool   // values may be negative, so the axis need not begin at 0
	queries     []query
}

type kind string

const (
	graph  kind = "timeseries"
	number kind = "stat"
	table  kind = "table"
)

type query struct {
	expr   string
	legend string // with {{label}} for the value of a label
}

const (
	gridWidth = 24
	schema    = 39 // of Grafana 10.4; newer ones take it, too
)

type object = map[string]any

var datasource = object{"type": "prometheus", "uid": "${datasource}"}

func (d dashboard) json() ([]byte, error) {
	var panels []object
	x, y, tallest := 0, 0, 0
	place := func(p object, width, height int) {
		if x+width > gridWidth {
			x, y, tallest = 0, y+tallest, 0
		}
		p["id"], p["gridPos"] = len(panels)+1, object{"x": x, "y": y, "w": width, "h": height}
		x, tallest = x+width, max(tallest, height)
		panels = append(panels, p)
	}
	for _, r := range d.rows {
		x, y, tallest = 0, y+tallest, 0
		place(object{"type": "row", "title": r.title, "collapsed": false, "panels": []any{}}, gridWidth, 1)
		for _, p := range r.panels {
			out, err := p.object()
			if err != nil {
				return nil, err
			}
			if p.kind == number {
				place(out, gridWidth/4, 4)
			} else {
				place(out, gridWidth/2, 8)
			}
		}
	}
	var text bytes.Buffer
	out := json.NewEncoder(&text)
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	err := out.Encode(object{
		"uid": "celvpa-" + d.name, "title": d.title, "description": d.description, "tags": []string{"celvpa"},
		"schemaVersion": schema, "editable": true, "refresh": "1m", "timezone": "browser",
		"time":       object{"from": "now-6h", "to": "now"},
		"templating": object{"list": d.templating()},
		"links":      []object{{"type": "dashboards", "title": "celvpa", "tags": []string{"celvpa"}, "asDropdown": true, "includeVars": true, "keepTime": true}},
		"panels":     panels,
	})
	return text.Bytes(), err
}

func (d dashboard) templating() []object {
	out := []object{{"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}}
	for _, v := range d.variables {
		variable := object{"name": v.name, "label": v.name, "type": "query", "datasource": datasource, "refresh": 2, "sort": 1,
			"query": object{"query": v.query, "refId": "variable-" + v.name}, "includeAll": v.all, "multi": v.all}
		if v.all {
			variable["allValue"], variable["current"] = ".*", object{"text": "All", "value": "$__all"}
		}
		out = append(out, variable)
	}
	return out
}

func (p panel) object() (object, error) {
	if p.title == "" || p.description == "" || p.unit == "" || len(p.queries) == 0 {
		return nil, fmt.Errorf("panel %q needs a title, a description, a unit and a query", p.title)
	}
	out := object{"type": p.kind, "title": p.title, "description": p.description, "datasource": datasource}
	var targets []object
	for i, q := range p.queries {
		t := object{"refId": string(rune('A' + i)), "datasource": datasource, "expr": q.expr, "legendFormat": q.legend}
		if p.kind != graph {
			t["instant"] = true
		}
		if p.kind == table {
			t["format"] = "table"
		}
		targets = append(targets, t)
	}
	out["targets"] = targets
	defaults := object{"unit": p.unit}
	switch p.kind {
	case graph:
		if !p.signed {
			defaults["min"] = 0
		}
		out["options"] = object{"legend": object{"displayMode": "list", "placement": "bottom"}, "tooltip": object{"mode": "multi", "sort": "desc"}}
	case number:
		if p.queries[0].legend != "" { // what is of interest is which series there is
			out["options"] = object{"textMode": "name"}
		}
	case table:
		out["transformations"] = []object{{"id": "organize", "options": object{"excludeByName": object{"Time": true, "__name__": true}}}}
	}
	out["fieldConfig"] = object{"defaults": defaults, "overrides": []any{}}
	return out, nil
}
