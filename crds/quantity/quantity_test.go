package quantity

import (
	"encoding/json"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/celvpa/celvpa/conformance/hang"
)

// endless are quantities that keep the parser busy for minutes.
var endless = []string{"1e-999999999", "1e999999999", "-1E+999999999", "1.5e-99999999", "1e0000000001", strings.Repeat("9", 1<<20), "0." + strings.Repeat("0", 1<<20) + "1"}

func TestQuantities(t *testing.T) {
	for text, want := range map[string]string{
		"500m": "500m", "1Gi": "1Gi", "1e3": "1e3", "1E": "1E", "12E6": "12E6", "1e-9": "1e-9", "1e-999": "1e-9", "1e999": "1e999", "0": "0", "+1.5": "1500m",
		strings.Repeat("0", 63) + "1": strings.Repeat("0", 63) + "1",
		"":                            "it is not a quantity such as 500m, 2 or 1Gi",
		"two":                         "it is not a quantity such as 500m, 2 or 1Gi",
		" 1":                          "it is not a quantity such as 500m, 2 or 1Gi",
		"1e1.5":                       "it is not a quantity such as 500m, 2 or 1Gi",
		"1e1000":                      "an exponent has at most three digits",
		"1e-0001":                     "an exponent has at most three digits",
		" 1e-999999999\t":             "an exponent has at most three digits",
		strings.Repeat("0", 64) + "1": "a quantity has at most 64 characters",
	} {
		got, err := Parse(text)
		if err != nil {
			require.EqualError(t, err, want, "%q", text)
			continue
		}
		require.Equal(t, want, got.String(), "%q", text)
	}
	for _, text := range endless {
		_, err := Parse(text)
		require.Error(t, err)
	}
	require.Panics(t, func() { Must("1e1000") })
}

// holder has quantities in every place a type can have them.
type holder struct {
	inner `json:",inline"`

	Plain   resource.Quantity    `json:"plain"`
	Pointer *resource.Quantity   `json:"pointer,omitempty"`
	Many    []*resource.Quantity `json:"many"`
	List    corev1.ResourceList  `json:"list"`
	Again   []holder             `json:"again"`
	Label   map[string]string    `json:"label"`
	Any     any                  `json:"any"`
	Hidden  resource.Quantity    `json:"-"`
}

type inner struct {
	Embedded resource.Quantity `json:"embedded"`
}

func TestEachQuantityInJSONIsCheckedBeforeItIsParsed(t *testing.T) {
	for name, tt := range map[string]struct{ json, field string }{
		"a field":                  {`{"plain":"1e-999999999"}`, "plain"},
		"a number":                 {`{"plain":1e-999999999}`, "plain"},
		"a pointer":                {`{"pointer":"1e-999999999"}`, "pointer"},
		"a list":                   {`{"many":["1",null,"1e-999999999"]}`, "many[2]"},
		"a map":                    {`{"list":{"cpu":"1","memory":"1e-999999999"}}`, "list.memory"},
		"embedded":                 {`{"embedded":"1e-999999999"}`, "embedded"},
		"nested":                   {`{"again":[{},{"again":[{"list":{"cpu":"1e-999999999"}}]}]}`, "again[1].again[0].list.cpu"},
		"another case":             {`{"PLAIN":"1e-999999999"}`, "PLAIN"},
		"the first of two":         {`{"plain":"1e-999999999","plain":"1"}`, "plain"},
		"the second of two":        {`{"plain":"1","plain":"1e-999999999"}`, "plain"},
		"blanks around it":         {`{"plain":" 1e-999999999 "}`, "plain"},
		"escaped":                  {`{"plain":"1\u0065-\u0039999"}`, "plain"},
		"after what is ignored":    {`{"any":[{"a":[1,{}]},[]],"x":{"y":[[]]},"plain":"1e-999999999"}`, "plain"},
		"very many digits":         {`{"plain":"` + strings.Repeat("9", 1<<20) + `"}`, "plain"},
		"a label":                  {`{"label":{"commit":"1e-999999999"}}`, ""},
		"what has no type":         {`{"any":"1e-999999999","unknown":"1e-999999999"}`, ""},
		"what is left out":         {`{"Hidden":"1e-999999999","hidden":"1e-999999999"}`, ""},
		"a list where none is":     {`{"plain":["1e-999999999"]}`, ""},
		"an object where none is":  {`{"plain":{"plain":"1e-999999999"}}`, ""},
		"quantities":               {`{"plain":"1e-999","list":{"cpu":"1","memory":"1Gi"},"many":[1,1.5]}`, ""},
		"what is not JSON":         {`{"plain":"1e-999999999"`, ""},
		"more than one JSON value": {`{} {"plain":"1e-999999999"}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			bytes := hang.Bytes(t, func() {
				err := checkJSON([]byte(tt.json), &holder{})
				if tt.field == "" {
					require.NoError(t, err)
				} else {
					var fault *Fault
					require.ErrorAs(t, err, &fault)
					require.Equal(t, tt.field, fault.Field)
					require.LessOrEqual(t, len(fault.Text), MaxLength)
					require.Contains(t, err.Error(), "write it like 500m, 2 or 1Gi")
				}
				out := &holder{}
				if err := Unmarshal([]byte(tt.json), out); tt.field != "" {
					require.Error(t, err)
					require.Equal(t, &holder{}, out, "nothing of it is read")
				}
				_, err = UnmarshalStrict([]byte(tt.json), &holder{})
				require.Equal(t, tt.field != "", err != nil && strings.Contains(err.Error(), "write it like"))
			})
			require.Less(t, bytes, uint64(32<<20))
		})
	}
}

// TestNamesAreNotSuspicious: a name such as service-0001 costs no second look. Exponents count after a
// number only, because apimachinery's parser reads no other.
func TestNamesAreNotSuspicious(t *testing.T) {
	require.False(t, suspicious([]byte(`{"name":"service-000123","uid":"cache-2024010112"}`)))
	require.True(t, suspicious([]byte(`{"cpu":"1.e-9999"}`)))
	require.True(t, suspicious([]byte(`{"cpu":1E99999}`)))
	for _, text := range []string{"e-999999999", "+e-999999999", "Ke-999999999", "1ke-999999999", "1Ee-999999999", "1 e-999999999"} {
		_, err := resource.ParseQuantity(text)
		require.Error(t, err, text)
	}
}

// Types that no decoder could look into would refuse all objects with a long exponent.
func TestEveryTypeOfKubernetesCanBeLookedInto(t *testing.T) {
	require.NoError(t, checkJSON([]byte(`{"a":"1e-999999999"}`), &map[string]any{}))
	require.NoError(t, checkJSON([]byte(`{"a":"1e-999999999"}`), nil))
	for kind, goType := range clientgoscheme.Scheme.AllKnownTypes() {
		part := `{"metadata":{"name":"1e9999","creationTimestamp":5},"spec":{"template":{"spec":{"containers":[{"name":true}]}}},"status":{}}`
		require.NoError(t, checkJSON([]byte(part), reflect.New(goType).Interface()), kind)
		require.NoError(t, checkJSON([]byte(`{"items":[`+part+`]}`), reflect.New(goType).Interface()), kind)
	}
	require.ErrorContains(t, checkJSON([]byte(`{"items":[{"spec":{"containers":[{"name":5,"resources":{"requests":{"cpu":"1e9999"}}}]}}]}`), &corev1.PodList{}),
		`items[0].spec.containers[0].resources.requests.cpu is "1e9999"`)
}

// probe stands in for a quantity and records what would reach the parser.
type probe struct{ texts []string }

func (p *probe) UnmarshalJSON(data []byte) error {
	text := string(data)
	if len(text) >= 2 && text[0] == '"' {
		text = text[1 : len(text)-1]
	}
	p.texts = append(p.texts, strings.TrimSpace(text))
	return nil
}

type mirror struct {
	Plain   probe            `json:"plain"`
	Pointer *probe           `json:"pointer"`
	Many    []*probe         `json:"many"`
	List    map[string]probe `json:"list"`
	Again   []mirror         `json:"again"`
	Label   any              `json:"label"`
	Any     any              `json:"any"`
}

func (m *mirror) texts() []string {
	out := m.Plain.texts
	if m.Pointer != nil {
		out = append(out, m.Pointer.texts...)
	}
	for _, p := range m.Many {
		if p != nil {
			out = append(out, p.texts...)
		}
	}
	for _, p := range m.List {
		out = append(out, p.texts...)
	}
	for i := range m.Again {
		out = append(out, m.Again[i].texts()...)
	}
	return out
}

// Whatever passes Check parses quickly, and JSON that passes holds nothing else.
func FuzzCheck(f *testing.F) {
	for _, seed := range append(endless[:5], "500m", "1Gi", "1e3", " 1e-9999 ", "1E5", "", `"`, "1Ei1234", strings.Repeat("\x84", 30)) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		text = strings.ToValidUTF8(text, "\uFFFD") // as JSON has it, which makes it longer
		err := Check(text)
		quoted, _ := json.Marshal(text)
		data := []byte(`{"plain":` + string(quoted) + `}`)
		inJSON := checkJSON(data, &holder{})
		if err != nil {
			_, parsed := Parse(text)
			require.Error(t, parsed)
			return
		}
		require.NoError(t, inJSON)
		var got, want resource.Quantity
		var fault, refused error
		require.Less(t, hang.Bytes(t, func() {
			got, fault = Parse(text)
			want, refused = resource.ParseQuantity(text)
		}), uint64(1<<20))
		require.Equal(t, refused == nil, fault == nil)
		if fault == nil {
			require.Zero(t, got.Cmp(want))
			require.LessOrEqual(t, len(got.String()), 1100, "an exponent has at most three digits")
		}
	})
}

// looksLikeQuantity matches what the parser does not reject at once.
var looksLikeQuantity = regexp.MustCompile(`^[+-]?[0-9.]*([eE][+-]?[0-9]+|[A-Za-z]{0,2})$`)

func FuzzCheckJSON(f *testing.F) {
	for _, seed := range []string{
		`{"plain":"1e-999999999"}`, `{"plain":1e-9999}`, `{"list":{"cpu":"1","cpu":"1E9999"}}`, `{"again":[{"many":["1e-99999",null]}]}`,
		`{"plain":"1\u0065-9999"}`, `{"plain":" 1e-9999 "}`, `{"pointer":"1","pointer":null}`, `{"PLAIN":"1e9999","any":{"plain":"1e9999"}}`,
		`{"plain":"` + strings.Repeat("7", 80) + `"}`, `[{"plain":"1e9999"}]`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if checkJSON(data, &holder{}) != nil {
			return
		}
		var read mirror
		_ = json.Unmarshal(data, &read)
		for _, text := range read.texts() {
			if len(text) > MaxLength && !looksLikeQuantity.MatchString(text) {
				continue // the parser rejects it at once
			}
			require.NoError(t, Check(text))
		}
	})
}

func TestDecodeChecksQuantitiesBeforeTheyAreParsed(t *testing.T) {
	type container struct{ Requests map[string]resource.Quantity }
	var ok struct{ Containers []container }
	require.NoError(t, Decode([]byte(`{"Containers":[{"Requests":{"cpu":"500m","memory":2,"gpu":null," ":" 1Gi "}}],"uid":"9e12345678901234"}`), &ok))
	require.Equal(t, "500m", ptrTo(ok.Containers[0].Requests["cpu"]).String())
	require.Equal(t, "1Gi", ptrTo(ok.Containers[0].Requests[" "]).String())
	for text, want := range map[string]string{
		`"1e-999999999"`:      `Containers[1].Requests.cpu is "1e-999999999": an exponent has at most three digits`,
		`1e-999999999`:        `Containers[1].Requests.cpu is "1e-999999999": an exponent has at most three digits`,
		`"1\u0065-999999999"`: `Containers[1].Requests.cpu is "1e-999999999": an exponent has at most three digits`,
		`"1.5.2"`:             `Containers[1].Requests.cpu is "1.5.2": it is not a quantity`,
		`{}`:                  `Containers[1].Requests.cpu is "{}": it is not a quantity`,
	} {
		var into struct{ Containers []container }
		err := Decode([]byte(`{"Containers":[{},{"Requests":{"cpu":`+text+`}}]}`), &into)
		require.ErrorContains(t, err, want)
		require.ErrorAs(t, err, new(*Fault))
	}
}

func ptrTo(q resource.Quantity) *resource.Quantity { return &q }
