package history

import (
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

func TestHeadersAreCheckedAndNeverShown(t *testing.T) {
	parse := func(args ...string) (Config, *pflag.FlagSet, error) {
		var c Config
		flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
		AddFlags(flags, &c)
		return c, flags, flags.Parse(args)
	}
	_, flags, err := parse("--prometheus-header=X-Scope-OrgID: s3cret", "--prometheus-header=THANOS-TENANT:b")
	require.NoError(t, err)
	require.Equal(t, "Thanos-Tenant,X-Scope-Orgid", flags.Lookup("prometheus-header").Value.String())
	for text, want := range map[string]string{
		"X-Scope-OrgID s3cret":  "it is not of the form NAME: VALUE",
		"A B: s3cret":           "it is not of the form NAME: VALUE",
		"A: b\ns3cret":          "it is not of the form NAME: VALUE",
		"authorization: s3cret": "use --prometheus-bearer-token-file",
		"Host: s3cret":          "header Host is set by celvpa itself",
	} {
		c := parsed(t, "--prometheus-header="+text)
		require.ErrorContains(t, c.Validate(), want, text)
		require.NotContains(t, c.Validate().Error(), "s3cret")
		require.Empty(t, c.Headers)
	}
}
