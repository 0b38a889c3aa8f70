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
	require.EqualError(t, c.Validate(), "--history: leave out what follows the path")
}
