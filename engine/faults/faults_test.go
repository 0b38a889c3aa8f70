package faults

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestJoinPrintsOneErrorPerLine(t *testing.T) {
	a, b, c := errors.New("a"), errors.New("b"), errors.New("c")
	require.NoError(t, Join())
	require.NoError(t, Join(nil, Join(nil)))
	all := Join(a, nil, Join(b, Join(c)))
	require.EqualError(t, all, "a\nb\nc")
	require.Equal(t, []error{a, b, c}, List(all))
	require.ErrorIs(t, all, c)
}

func TestListKeepsWrappedErrorsWhole(t *testing.T) {
	wrapped := fmt.Errorf("reading: %w", Join(errors.New("a"), errors.New("b")))
	require.Equal(t, []error{wrapped}, List(wrapped))
	require.EqualError(t, Join(wrapped, errors.New("c")), "reading: a\nb\nc")
	require.Nil(t, List(nil))
}
