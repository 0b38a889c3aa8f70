package turns

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/util/workqueue"
	testclock "k8s.io/utils/clock/testing"
)

// of reads items such as a1: of namespace a, or a1! for an urgent one.
func of(item string) (string, int) {
	if strings.HasSuffix(item, "!") {
		return item[:1], 0
	}
	return item[:1], 1
}

func TestOrder(t *testing.T) {
	for name, tt := range map[string]struct{ served, given, want string }{
		"nothing":                           {"", "", ""},
		"one namespace keeps its order":     {"", "a3 a1 a2", "a3 a1 a2"},
		"one of each, then a second":        {"", "a1 a2 a3 b1 b2 c1", "a1 b1 c1 a2 b2 a3"},
		"urgent ones first in a namespace":  {"", "a1 a2! a3 a4!", "a2! a4! a1 a3"},
		"urgent ones first in a turn":       {"", "a1 a2 b1! b2 c1", "b1! a1 c1 a2 b2"},
		"urgent ones jump no turn":          {"", "a1! a2! a3! b1", "a1! b1 a2! a3!"},
		"served longest ago":                {"abc", "c1 a1 b1 c2", "a1 b1 c1 c2"},
		"never served":                      {"ab", "a1 b1 c1", "c1 a1 b1"},
		"urgency before that":               {"ab", "a1! b1 c1", "a1! c1 b1"},
		"served again goes to the back":     {"aba", "a1 b1", "b1 a1"},
		"in each turn":                      {"a", "a1 a2 b1 b2", "b1 a1 b2 a2"},
		"a namespace without anything left": {"z", "a1 b1", "a1 b1"},
	} {
		t.Run(name, func(t *testing.T) {
			turns, list := &Turns{}, strings.Fields(tt.given)
			for _, namespace := range tt.served {
				turns.Served(string(namespace))
			}
			Order(turns, list, of)
			require.Equal(t, tt.want, strings.Join(list, " "))
		})
	}
}

// TestMoreNamespacesThanTurns: each is served in every second cycle, whatever the others have to do.
func TestMoreNamespacesThanTurns(t *testing.T) {
	turns, served := &Turns{}, ""
	for range 4 {
		list := strings.Fields("a1 a2 b1 b2 c1 d1")
		Order(turns, list, of)
		for _, item := range list[:2] {
			served += item + " "
			turns.Served(item[:1])
		}
	}
	require.Equal(t, "a1 b1 c1 d1 a1 b1 c1 d1 ", served)
}

func TestNamespacesThatAreGoneTakeNoMemoryForEver(t *testing.T) {
	turns := &Turns{}
	turns.Served("a")
	for i := range maxRemembered + 5 {
		turns.Served(fmt.Sprint(i))
	}
	Order(turns, []string{"a1", "b1"}, of)
	require.Len(t, turns.last, 1)
	require.Contains(t, turns.last, "a")
}

func TestNamespacesTakeTurnsInAQueue(t *testing.T) {
	q := NewQueue(func(item string) string { return item[:1] })
	for _, item := range strings.Fields("a1 a2 a3 b1 c1 a4") {
		q.Push(item)
	}
	var got []string
	for range 4 {
		got = append(got, q.Pop())
	}
	q.Push("b2")
	require.Equal(t, 3, q.Len())
	for q.Len() > 0 {
		got = append(got, q.Pop())
	}
	require.Equal(t, "a1 b1 c1 a2 a3 b2 a4", strings.Join(got, " "))
	require.Empty(t, q.waiting)
	require.Empty(t, q.next)
}

func TestARateLimitingQueueTakesTurns(t *testing.T) {
	clk := testclock.NewFakeClock(time.Unix(0, 0))
	q := NewRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, time.Minute), clk, func(item string) string { return item[:1] })
	defer q.ShutDown()
	for _, item := range strings.Fields("a1 a2 a1 a3 b1") {
		q.Add(item)
	}
	var got []string
	for range 4 {
		item, _ := q.Get()
		got = append(got, item)
		q.Done(item)
	}
	require.Equal(t, "a1 b1 a2 a3", strings.Join(got, " "), "what is added again keeps its place")
}
