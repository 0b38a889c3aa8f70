package history

import (
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

func TestFlagsOfCommandsSuitAPrometheusOfToday(t *testing.T) {
	var c Config
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	AddReadFlags(flags, &c, "history")
	for _, one := range readDefaults {
		flag := flags.Lookup(one.name)
		require.Equal(t, one.otherwise, flag.Value.String(), one.name)
		require.Equal(t, one.otherwise, flag.DefValue, one.name)
		require.False(t, flag.Changed, one.name)
	}
	c.Address = "http://a"
	require.NoError(t, c.Validate(), "the defaults are valid")
	c.Address = "http://user:secret@a?x"
	require.EqualError(t, c.Validate(), "--history=http://user:xxxxx@a?x: leave out what follows the path")
}

func TestMatchers(t *testing.T) {
	for text, want := range map[string]string{
		`cluster=prod`:          `cluster="prod"`,
		`cluster="prod"`:        `cluster="prod"`,
		` cluster = 'prod' `:    `cluster="prod"`,
		`namespace=~"web|shop"`: `namespace=~"web|shop"`,
		`namespace!~kube-.+`:    `namespace!~"kube-.+"`,
		`a!=`:                   `a!=""`,
		"a=`b\\d`":              `a="b\\d"`,
		`a="b\"} or up{"`:       `a="b\"} or up{"`,
		`a=b"} or up{c="`:       `a="b\"} or up{c=\""`,
		`cluster`:               `error: "cluster" is not a matcher`,
		`="b"`:                  `error: "=\"b\"" is not a matcher`,
		`a="b`:                  `error: "a=\"b": the quotes of "b do not match`,
		`a="b",c="d"`:           `error: "a=\"b\",c=\"d\"": the quotes of "b",c="d" do not match; one --history-matcher holds one matcher`,
		`{a="b"}`:               `error: "{a=\"b\"}": "{a" is no name of a label`,
		`namespace=~"("`:        `error: "namespace=~\"(\"": error parsing regexp`,
	} {
		m, err := ParseMatcher(text)
		got := m.String()
		if err != nil {
			got = "error: " + err.Error()
		}
		require.Contains(t, got, want, text)
	}
}

func TestHeadersAreCheckedAndNeverShown(t *testing.T) {
	parse := func(args ...string) (Config, *pflag.FlagSet, error) {
		var c Config
		flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
		AddReadFlags(flags, &c, "history")
		return c, flags, flags.Parse(args)
	}
	_, flags, err := parse("--history-header=X-Scope-OrgID: s3cret", "--history-header=THANOS-TENANT:b")
	require.NoError(t, err)
	require.Equal(t, "Thanos-Tenant,X-Scope-Orgid", flags.Lookup("history-header").Value.String())
	for text, want := range map[string]string{
		"X-Scope-OrgID":      "it is not of the form NAME: VALUE",
		"A B: c":             "it is not of the form NAME: VALUE",
		"A: b\nc":            "it is not of the form NAME: VALUE",
		"authorization: x y": "use --prometheus-bearer-token-file",
		"Host: a":            "header Host is set by celvpa itself",
	} {
		_, _, err := parse("--history-header=" + text)
		require.ErrorContains(t, err, want, text)
	}
}

func FuzzParseMatcher(f *testing.F) {
	for _, text := range []string{`a="b"`, `a=~'b'`, "a!=`b`", `a="`, `a='\'`, `="`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		m, err := ParseMatcher(text)
		if err != nil {
			return
		}
		again, err := ParseMatcher(m.String())
		require.NoError(t, err, text)
		require.Equal(t, m, again, text)
	})
}
