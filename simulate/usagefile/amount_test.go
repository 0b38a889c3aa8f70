package usagefile

import (
	"math"
	"math/big"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAmountsAreReadExactly(t *testing.T) {
	for name, tt := range map[string]struct {
		text  string
		scale int
		want  int64
		err   error
	}{
		"a tenth of a core":                    {text: "0.1", scale: milli, want: 100},
		"what a float would round down":        {text: "0.29", scale: milli, want: 290},
		"finer than a milli-core is cut off":   {text: "0.0019999", scale: milli, want: 1},
		"whole bytes":                          {text: "1073741824", want: 1073741824},
		"half a byte is cut off":               {text: "7.9", want: 7},
		"an exponent that makes it small":      {text: "1.5e-05", scale: nano, want: 15000},
		"an exponent that makes it large":      {text: "1.073741824E+9", want: 1073741824},
		"an exponent without end makes it 0":   {text: "1e-99999999999999999999", scale: nano, want: 0},
		"an exponent without end makes it big": {text: "1e99999999999999999999", err: errHuge},
		"0 with an exponent without end":       {text: "0e99999999999999999999", want: 0},
		"no digit before the point":            {text: ".5", scale: milli, want: 500},
		"no digit after the point":             {text: "5.", scale: milli, want: 5000},
		"a plus":                               {text: "+3", want: 3},
		"minus 0":                              {text: "-0.00", scale: milli, want: 0},
		"the largest":                          {text: "9223372036854775807", want: math.MaxInt64},
		"one more":                             {text: "9223372036854775808", err: errHuge},
		"less than 0":                          {text: "-0.00001", scale: milli, err: errNegative},
		"less than 0 and large":                {text: "-1e400", err: errNegative},
		"nothing":                              {text: "", err: errNotNumber},
		"a point":                              {text: ".", err: errNotNumber},
		"two points":                           {text: "1.2.3", err: errNotNumber},
		"a quantity of Kubernetes":             {text: "250m", err: errNotNumber},
		"not a number":                         {text: "NaN", err: errNotNumber},
		"infinite":                             {text: "+Inf", err: errNotNumber},
		"hexadecimal":                          {text: "0x10", err: errNotNumber},
		"an exponent without digits":           {text: "1e", err: errNotNumber},
		"an exponent with a fraction":          {text: "1e1.5", err: errNotNumber},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := decimal(tt.text, tt.scale)
			require.ErrorIs(t, err, tt.err)
			require.Equal(t, tt.want, got)
		})
	}
}

func TestTimesAreReadExactly(t *testing.T) {
	for text, want := range map[string]string{
		"2026-01-31T12:00:00Z":         "2026-01-31T12:00:00Z",
		"2026-01-31T12:00:00.25+02:00": "2026-01-31T10:00:00.25Z",
		"2026-01-31 12:00:00Z":         "2026-01-31T12:00:00Z",
		"1376314846":                   "2013-08-12T13:40:46Z",
		"1376314846.001":               "2013-08-12T13:40:46.001Z",
		"1.376314846e9":                "2013-08-12T13:40:46Z",
		"0":                            "1970-01-01T00:00:00Z",
	} {
		got, err := ParseTime(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got.Format("2006-01-02T15:04:05.999999999Z07:00"), text)
	}
	for text, want := range map[string]string{
		"1376314846000":        `time "1376314846000" is after 2262: write seconds since 1970, not thousandths`,
		"-1":                   `time "-1" is less than 0: write it like 2026-01-31T12:00:00Z or as seconds since 1970`,
		"":                     `"" is not a time`,
		"2026-01-31":           `time "2026-01-31" is not written like 2026-01-31T12:00:00Z`,
		"2026-13-01T00:00:00Z": `time "2026-13-01T00:00:00Z": month out of range`,
		"2026-02-30T00:00:00Z": `time "2026-02-30T00:00:00Z": day out of range`,
		"2026-02-01T24:00:00Z": `time "2026-02-01T24:00:00Z": hour out of range`,
		"1969-12-31T23:59:59Z": `time "1969-12-31T23:59:59Z" is not between 1970 and 2262`,
	} {
		_, err := ParseTime(text)
		require.ErrorContains(t, err, want)
	}
}

var number = regexp.MustCompile(`^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,2})?$`)

// FuzzDecimal compares with arbitrary precision, truncated.
func FuzzDecimal(f *testing.F) {
	for _, seed := range []string{"0.1", "12", "1.5e-05", "9223372036854775808", "-0", "1e99", ".", "e5", "250m", "00000000000000000000.10"} {
		f.Add(seed, uint8(milli))
	}
	f.Fuzz(func(t *testing.T, text string, scale uint8) {
		got, err := decimal(text, int(scale%10))
		exact, ok := new(big.Rat).SetString(text)
		if !number.MatchString(text) || !ok {
			return
		}
		if exact.Sign() < 0 {
			require.ErrorIs(t, err, errNegative)
			return
		}
		exact.Mul(exact, new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale%10)), nil)))
		whole := new(big.Int).Quo(exact.Num(), exact.Denom())
		if !whole.IsInt64() {
			require.ErrorIs(t, err, errHuge)
			return
		}
		require.NoError(t, err)
		require.Equal(t, whole.Int64(), got)
	})
}
