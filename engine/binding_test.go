package engine_test

import (
	"testing"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/engine/lang"
)

type parcel struct {
	price  int32
	weight *int
	rate   *float64
	tier   string
	note   *string
	sealed *bool
	tags   []string
	inside []*lang.Record
	label  *lang.Record
	codes  ref.Val
}

func TestBindingDeclaresAndBindsEachField(t *testing.T) {
	or := func(p *parcel) bool { return p.weight != nil }
	schema := lang.Bind("Parcel",
		lang.IntFrom("price", lang.IntOf("cents"), "what it costs", func(p *parcel) int32 { return p.price }),
		lang.IntIf("weight", lang.Int, "", func(p *parcel) (int, bool) {
			if !or(p) {
				return 0, false
			}
			return *p.weight, true
		}),
		lang.DoubleIf("discount", "", func(p *parcel) (float64, bool) { return 0.25, p.rate != nil }),
		lang.TextFrom("tier", "", func(p *parcel) string { return p.tier }),
		lang.TextIf("note", "", func(p *parcel) (string, bool) { return "fragile", p.note != nil }),
		lang.BoolFrom("heavy", "", or),
		lang.BoolIf("sealed", "", func(p *parcel) (bool, bool) { return true, p.sealed != nil }),
		lang.TextsFrom("tags", "", func(p *parcel) []string { return p.tags }),
		lang.RecordsFrom("inside", lineSchema, "", func(p *parcel) []*lang.Record { return p.inside }),
		lang.RecordFrom("label", lineSchema, "", func(p *parcel) *lang.Record { return p.label }),
		lang.ForRules[*parcel]("free", lang.Bool, "written by rules"),
		lang.OpaqueFrom("codes", lang.OpaqueOf(vouchersType, "cents"), "", func(p *parcel) ref.Val { return p.codes }))
	require.Equal(t, lang.Field{Name: "price", Type: lang.IntOf("cents"), Doc: "what it costs"}, schema.Fields()[0])

	weight, rate, note, sealed := 7, 0.25, "fragile", true
	line := lineSchema.New().SetInt("price", 3)
	full := schema.Of(&parcel{price: -1, weight: &weight, rate: &rate, tier: "gold", note: &note, sealed: &sealed, tags: []string{},
		inside: []*lang.Record{line}, label: line, codes: vouchers{}})
	want := schema.New().SetInt("price", -1).SetInt("weight", 7).SetDouble("discount", 0.25).SetString("tier", "gold").SetString("note", "fragile").
		SetBool("heavy", true).SetBool("sealed", true).Put("tags", lang.ListFrom([]string{})).SetOpaque("inside", lang.Records([]*lang.Record{line})).SetRecord("label", line)
	for _, f := range schema.Fields() {
		if f.Name != "codes" && f.Name != "free" {
			require.Equal(t, types.True, want.Field(f.Name).Equal(full.Field(f.Name)), f.Name)
		}
	}
	require.Equal(t, vouchers{}, full.Field("codes"))
	require.Nil(t, full.Field("free"), "rules write it")

	var set []string
	for _, f := range schema.Fields() {
		if schema.Of(&parcel{}).Field(f.Name) != nil {
			set = append(set, f.Name)
		}
	}
	require.Equal(t, []string{"price", "tier", "heavy", "inside"}, set, "the others are unset where there is nothing")
}

func TestIntegerFieldRejectsOtherTypes(t *testing.T) {
	require.PanicsWithValue(t, "engine: field price is bound to an integer, and of type double", func() {
		lang.IntFrom("price", lang.Double, "", func(p parcel) int32 { return p.price })
	})
}

func TestHostTypeUnitAppliesToItsFunctions(t *testing.T) {
	_, err := compileOne("order.adjust", "\n  stages: [{name: a, each: line, rules: [{name: r, set: {now.weight: \"voucher(customer.vouchers, 'x')\"}}]}]\n", compile.Options{})
	require.ErrorContains(t, err, "the expression gives int (cents), the field holds int (grams)")
}
