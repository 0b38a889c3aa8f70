package engine_test

import (
	"fmt"
	"math"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/registry"
)

var edgeDoubles = []float64{0, 1, -1, 0.5, math.NaN(), math.Inf(1), math.Inf(-1), 1e300, math.MaxInt64, math.Copysign(0, -1), 1e-320}

func (g *generator) fill(r *lang.Record) *lang.Record {
	some := func() bool { return g.next(4) != 0 }
	if some() {
		r.SetInt("i", edgeInts[g.next(len(edgeInts))])
	}
	if some() {
		r.SetDouble("d", edgeDoubles[g.next(len(edgeDoubles))])
	}
	if some() {
		r.SetBool("b", g.next(2) == 0)
	}
	if some() {
		r.SetString("s", edgeTexts[g.next(len(edgeTexts))])
	}
	if some() {
		texts := edgeTexts[:g.next(4)]
		var list ref.Val = lang.ListFrom(texts)
		if g.next(2) == 0 {
			list = types.NewStringList(types.DefaultTypeAdapter, texts)
		}
		r.Put("l", list)
	}
	if r.Schema() == outerSchema && some() {
		r.SetRecord("n", g.fill(innerSchema.New()))
	}
	return r
}

// several returns up to three records.
func (g *generator) several() ref.Val {
	var out []*lang.Record
	for range g.next(4) {
		out = append(out, g.fill(outerSchema.New()))
	}
	return lang.Records(out)
}

// pick returns up to three elements.
func pick[T any](g *generator, from []T) (out []T) {
	for range g.next(4) {
		out = append(out, from[g.next(len(from))])
	}
	return out
}

// facts returns facts with two items.
func (g *generator) facts() *registry.Facts {
	f := mixedPoint.NewFacts().Set("r", g.fill(outerSchema.New())).Set("y", types.Double(edgeDoubles[g.next(len(edgeDoubles))]))
	if g.next(8) != 0 {
		f.Set("x", lang.Number(edgeInts[g.next(len(edgeInts))]))
	}
	f.Set("rs", g.several()).Set("is", lang.ListFrom(pick(g, edgeInts)))
	if g.next(2) == 0 {
		f.Set("is", types.NewRefValList(types.DefaultTypeAdapter, f.Value(5).(*lang.List).Values))
	}
	var doubles, bools []ref.Val
	for _, d := range pick(g, edgeDoubles) {
		doubles, bools = append(doubles, types.Double(d)), append(bools, types.Bool(d > 0))
	}
	f.Set("ds", types.NewRefValList(types.DefaultTypeAdapter, doubles)).Set("bs", types.NewRefValList(types.DefaultTypeAdapter, bools))
	for range 2 {
		label := []string{"a", "12", "another"}[g.next(3)]
		item := f.AddItem("one", label).Set("now", g.fill(outerSchema.New()))
		item.Set("q", g.fill(outerSchema.New())).Set("qs", g.several())
		if g.next(8) != 0 {
			item.Set("t", lang.Text(edgeTexts[g.next(len(edgeTexts))]))
		}
	}
	return f
}

func show(r *lang.Record) string {
	var out []string
	for i := range r.Cells() {
		switch v := r.At(i).(type) {
		case nil:
			out = append(out, "unset")
		case *lang.Record:
			out = append(out, show(v))
		default:
			out = append(out, fmt.Sprintf("%v %v", v.Type(), v.Value()))
		}
	}
	return fmt.Sprint(out)
}
