package certificates

import (
	"crypto/x509"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	testclock "k8s.io/utils/clock/testing"
)

// TestAReplicaThatRestartsDropsItsCAFromBefore: one that was killed again and again pushed the CAs of healthy replicas out of the bundle.
func TestAReplicaThatRestartsDropsItsCAFromBefore(t *testing.T) {
	clk := testclock.NewFakeClock(newYear)
	of := func(replica string) *Source {
		return own(t, clk, func(o *SelfSignedOptions) { o.Replica = replica })
	}
	healthy := of("a:8000")
	bundle := healthy.Bundle().Merge(nil, clk.Now())
	for range 2 * maxCAs {
		clk.Step(time.Minute)
		killed := of("b:8000")
		bundle = killed.Bundle().Merge(bundle, clk.Now())
		cas, err := parseCAs(bundle)
		require.NoError(t, err)
		require.Len(t, cas, 2)
		require.NoError(t, believes(t, healthy, bundle, "127.0.0.1", clk.Now()))
		require.NoError(t, believes(t, killed, bundle, "127.0.0.1", clk.Now()))
	}
	require.Equal(t, string(bundle), string(healthy.Bundle().Merge(bundle, clk.Now())), "others' CAs are theirs to drop")
}

// TestAllOfManyReplicasStayTrusted while they change their CAs at the same time, as replicas do that started together: of those that
// did not fit into the bundle, the oldest were dropped, with which replicas still served.
func TestAllOfManyReplicasStayTrusted(t *testing.T) {
	clk := testclock.NewFakeClock(newYear)
	replicas := make([]*Source, 24)
	for i := range replicas {
		replicas[i] = own(t, clk, func(o *SelfSignedOptions) { o.Replica = fmt.Sprintf("%d:8000", i) })
	}
	var registered []byte
	check := func() int {
		t.Helper()
		for _, r := range replicas {
			b := r.Bundle()
			registered = b.Merge(registered, clk.Now())
			r.Published(b)
		}
		for i, r := range replicas {
			require.NoError(t, believes(t, r, registered, "127.0.0.1", clk.Now()), "replica %d after %s", i, clk.Since(newYear))
		}
		cas, err := parseCAs(registered)
		require.NoError(t, err)
		return len(cas)
	}
	require.Equal(t, 24, check())
	most := 0
	for _, step := range []time.Duration{DefaultCALifetime / 2, 0, maxSettle / 2, maxSettle, maxGrace / 2, maxGrace} {
		clk.Step(step)
		most = max(most, check())
	}
	require.Equal(t, 48, most)
	require.Equal(t, 24, check())
}

// TestABundleIsMerged as the situation demands.
func TestABundleIsMerged(t *testing.T) {
	clk := testclock.NewFakeClock(newYear)
	var made []*x509.Certificate // each an hour younger than the one before
	for range maxCAs + 10 {
		made = append(made, own(t, clk, nil).Bundle().Needed...)
		clk.Step(time.Hour)
	}
	expired, foreign := made[0], *made[1]
	foreign.Subject.CommonName = "vpa_webhook_ca"
	ours := func(c *x509.Certificate) bool { return c.Subject.CommonName == caName && !c.Equal(&foreign) }
	list := func(cas ...*x509.Certificate) []*x509.Certificate { return cas }
	for name, tt := range map[string]struct {
		bundle    Bundle
		old, want []*x509.Certificate
		now       time.Time
	}{
		"nothing is there":                     {bundle: Bundle{Needed: list(made[5]), Keeps: ours}, want: list(made[5])},
		"replicas are there":                   {bundle: Bundle{Needed: list(made[5]), Keeps: ours}, old: list(made[4], made[9]), want: list(made[9], made[5], made[4])},
		"all is there, in another order":       {bundle: Bundle{Needed: list(made[5]), Keeps: ours}, old: list(made[4], made[5]), want: list(made[4], made[5])},
		"another program's CA is there":        {bundle: Bundle{Needed: list(made[5]), Keeps: ours}, old: list(&foreign, made[5]), want: list(made[5])},
		"what is retired goes":                 {bundle: Bundle{Needed: list(made[5]), Retired: list(made[4]), Keeps: ours}, old: list(made[3], made[4], made[5]), want: list(made[5], made[3])},
		"what has expired goes":                {bundle: Bundle{Needed: list(made[5]), Keeps: ours}, old: list(expired, made[5]), want: list(made[5]), now: expired.NotAfter},
		"what has expired and is needed stays": {bundle: Bundle{Needed: list(expired), Keeps: ours}, old: list(expired), want: list(expired), now: expired.NotAfter.Add(time.Hour)},
		"exactly what is needed":               {bundle: Bundle{Needed: list(made[5])}, old: list(made[4], made[5]), want: list(made[5])},
		"too many: the newest stay, and what is needed": {bundle: Bundle{Needed: list(made[2]), Keeps: ours}, old: made[3:],
			want: append(reversed(made[11:]), made[2])},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.now.IsZero() {
				tt.now = clk.Now()
			}
			got := tt.bundle.Merge(inOrder(tt.old), tt.now)
			require.Equal(t, string(inOrder(tt.want)), string(got))
			require.Equal(t, string(got), string(tt.bundle.Merge(got, tt.now)), "what was merged needs no more merging")
		})
	}
	mixed := append([]byte("garbage\n-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n"), inOrder(made[5:6])...)
	require.Equal(t, string(inOrder(made[5:6])), string(Bundle{Needed: made[5:6], Keeps: ours}.Merge(mixed, clk.Now())))
}

func reversed(cas []*x509.Certificate) (out []*x509.Certificate) {
	for i := range cas {
		out = append(out, cas[len(cas)-1-i])
	}
	return out
}

// inOrder writes CAs in the order in which they are given.
func inOrder(cas []*x509.Certificate) (out []byte) {
	for _, c := range cas {
		out = append(out, encodeCAs([]*x509.Certificate{c})...)
	}
	return out
}
