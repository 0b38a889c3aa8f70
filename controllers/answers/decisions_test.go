package answers

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
)

func vpa(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "ns", Name: name}
}

func actions(l *Log, name string) (out []string) {
	for _, d := range l.Of(vpa(name)) {
		out = append(out, d.Action)
	}
	return out
}

func TestTheLastDecisionsAboutEachVPAAreKept(t *testing.T) {
	l := NewLog(LogOptions{Component: "updater", Kept: 2})
	for _, action := range []string{"a", "b", "c"} {
		l.Add(vpa("one"), Decision{Action: action})
	}
	l.Add(vpa("two"), Decision{Action: "d", Component: "somebody"})
	require.Equal(t, []string{"b", "c"}, actions(l, "one"))
	require.Equal(t, []string{"d"}, actions(l, "two"))
	require.Equal(t, "updater", l.Of(vpa("two"))[0].Component)
	require.Empty(t, l.Of(vpa("three")))
	l.Keep(func(v types.NamespacedName) bool { return v == vpa("two") })
	require.Empty(t, l.Of(vpa("one")))
	require.Equal(t, []string{"d"}, actions(l, "two"))
	require.Equal(t, 1, l.order.Len(), "nothing else holds memory")
}

func TestTheOldestDecisionsOfAllMakeRoom(t *testing.T) {
	l := NewLog(LogOptions{Kept: 3})
	for n := range total {
		l.Add(vpa(fmt.Sprint(n/2)), Decision{Action: fmt.Sprint(n)})
	}
	require.Equal(t, []string{"0", "1"}, actions(l, "0"))
	l.Add(vpa("new"), Decision{Action: "x"})
	l.Add(vpa("1"), Decision{Action: "y"})
	require.Empty(t, l.Of(vpa("0")))
	require.Equal(t, []string{"2", "3", "y"}, actions(l, "1"))
	l.Add(vpa("1"), Decision{Action: "z"})
	require.Equal(t, []string{"3", "y", "z"}, actions(l, "1"), "its own oldest makes room, and no other")
	require.Equal(t, []string{"4", "5"}, actions(l, "2"))
	require.Equal(t, total, l.order.Len())
}

func TestWithoutAnythingToKeepALogDoesNothing(t *testing.T) {
	var none *Log
	for _, l := range []*Log{none, NewLog(LogOptions{})} {
		require.False(t, l.Enabled())
		l.Add(vpa("one"), Decision{})
		require.Empty(t, l.Of(vpa("one")))
		l.Keep(func(types.NamespacedName) bool { return false })
	}
}

func TestIDsAreHexadecimalAndUnique(t *testing.T) {
	l, seen := NewLog(LogOptions{Kept: 1000}), map[string]bool{}
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for range 100 {
				l.Add(vpa(fmt.Sprint(worker)), Decision{})
				l.Of(vpa("0"))
			}
		})
	}
	all.Wait()
	for worker := range 8 {
		for _, d := range l.Of(vpa(fmt.Sprint(worker))) {
			require.Regexp(t, `^[0-9a-f]{16}$`, d.ID)
			seen[d.ID] = true
		}
	}
	require.Len(t, seen, 800)
}

func TestDecisionsAreLoggedWithAConstantMessage(t *testing.T) {
	var lines []string
	log := funcr.New(func(_, text string) { lines = append(lines, text) }, funcr.Options{})
	d := Decision{
		Time: time.Date(2026, 3, 1, 3, 12, 0, 0, time.UTC), Pod: "shop-1", Action: "Evict", Rule: "update/outside-range", Reason: "why",
		Changes: []string{"container app: requests.cpu 100m → 25m"}, Inputs: "aaaaaaaaaaaa", Rules: "bbbbbbbbbbbb",
	}
	l := NewLog(LogOptions{Component: "updater", Logged: true, Log: log})
	l.Add(vpa("shop"), d)
	NewLog(LogOptions{Component: "updater", Kept: 1, Log: log}).Add(vpa("shop"), d)
	require.Len(t, lines, 1, "--log-decisions asks for it, --decisions-kept does not")
	require.Regexp(t, `"msg"="decision" "id"="[0-9a-f]{16}" "namespace"="ns" "vpa"="shop" "component"="updater" "pod"="shop-1" "action"="Evict" "rule"="update/outside-range" `+
		`"reason"="why" "changes"=\["container app: requests.cpu 100m → 25m"\] "inputs"="aaaaaaaaaaaa" "rules"="bbbbbbbbbbbb" "at"="2026-03-01T03:12:00Z"`, lines[0])
	require.Empty(t, l.Of(vpa("shop")))
}

func TestWhatIsTooLongIsCut(t *testing.T) {
	l := NewLog(LogOptions{Kept: 1})
	many := make([]string, maxChanges+7)
	many[0] = strings.Repeat("ä", maxText)
	l.Add(vpa("one"), Decision{Pod: strings.Repeat("p", 2<<20), Reason: "a" + strings.Repeat("ä", maxText), Changes: many})
	got := l.Of(vpa("one"))[0]
	require.Equal(t, strings.Repeat("p", maxText)+"…", got.Pod, "the pod of a review may have any name")
	require.Equal(t, "a"+strings.Repeat("ä", maxText/2-1)+"…", got.Reason)
	require.Len(t, got.Changes, maxChanges+1)
	require.Equal(t, "and 7 more", got.Changes[maxChanges])
	require.Equal(t, strings.Repeat("ä", maxText/2)+"…", got.Changes[0])
}

func TestTheDigestIsThatOfTheContent(t *testing.T) {
	one := Digest(map[string]int{"a": 1, "b": 2}, "x")
	require.Regexp(t, `^[0-9a-f]{12}$`, one)
	require.Equal(t, one, Digest(map[string]int{"b": 2, "a": 1}, "x"))
	require.NotEqual(t, one, Digest(map[string]int{"a": 1, "b": 3}, "x"))
	require.NotEqual(t, Digest(math.NaN()), Digest(math.Inf(1)))
}

func TestAFullLogAllocatesNothing(t *testing.T) {
	l := NewLog(LogOptions{Kept: 3})
	for range 10 {
		l.Add(vpa("one"), Decision{})
	}
	key := vpa("one")
	require.Zero(t, testing.AllocsPerRun(100, func() { l.Add(key, Decision{Action: "a", Reason: "b"}) }))
}
