package engine

import (
	"testing"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/stretchr/testify/require"
)

// parcel is a Go value of the shop.
type parcel struct {
	price  int32
	weight *int
	rate   *float64
	tier   string
	note   *string
	sealed *bool
	tags   []string
	inside []*Record
	label  *Record
	codes  ref.Val
}

func TestABindingDeclaresAndBindsEachFieldOnce(t *testing.T) {
	or := func(p *parcel) bool { return p.weight != nil }
	schema := Bind("Parcel",
		IntFrom("price", IntOf("cents"), "what it costs", func(p *parcel) int32 { return p.price }),
		IntIf("weight", Int, "", func(p *parcel) (int, bool) {
			if !or(p) {
				return 0, false
			}
			return *p.weight, true
		}),
		DoubleFrom("rate", "", func(p *parcel) float64 { return 0.5 }),
		DoubleIf("discount", "", func(p *parcel) (float64, bool) { return 0.25, p.rate != nil }),
		TextFrom("tier", "", func(p *parcel) string { return p.tier }),
		TextIf("note", "", func(p *parcel) (string, bool) { return "fragile", p.note != nil }),
		BoolFrom("heavy", "", or),
		BoolIf("sealed", "", func(p *parcel) (bool, bool) { return true, p.sealed != nil }),
		TextsFrom("tags", "", func(p *parcel) []string { return p.tags }),
		RecordsFrom("inside", lineSchema, "", func(p *parcel) []*Record { return p.inside }),
		RecordFrom("label", lineSchema, "", func(p *parcel) *Record { return p.label }),
		ForRules[*parcel]("free", Bool, "written by rules"),
		OpaqueFrom("codes", OpaqueOf(vouchersType, "cents"), "", func(p *parcel) ref.Val { return p.codes }))
	require.Equal(t, Field{Name: "price", Type: IntOf("cents"), Doc: "what it costs"}, schema.Fields()[0])

	weight, rate, note, sealed := 7, 0.25, "fragile", true
	line := lineSchema.New().SetInt("price", 3)
	full := schema.Of(&parcel{price: -1, weight: &weight, rate: &rate, tier: "gold", note: &note, sealed: &sealed, tags: []string{},
		inside: []*Record{line}, label: line, codes: vouchers{}})
	want := schema.New().SetInt("price", -1).SetInt("weight", 7).SetDouble("rate", 0.5).SetDouble("discount", 0.25).SetString("tier", "gold").SetString("note", "fragile").
		SetBool("heavy", true).SetBool("sealed", true).SetStrings("tags", []string{}).SetOpaque("inside", Records([]*Record{line})).SetRecord("label", line)
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
	require.Equal(t, []string{"price", "rate", "tier", "heavy", "inside"}, set, "the others are unset where there is nothing")
}

func TestIntegersAreBoundToIntegers(t *testing.T) {
	require.PanicsWithValue(t, "engine: field price is bound to an integer, and of type double", func() {
		IntFrom("price", Double, "", func(p parcel) int32 { return p.price })
	})
}
