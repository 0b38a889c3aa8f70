package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
)

// The static estimates of cost.go take facts to be of usual sizes. What a run may take is bounded all the same, whatever
// the facts: an expression that would go beyond fails, as one that divides by zero does.
const (
	// maxRunSteps bounds what loops and comparisons of one run at a point go through.
	maxRunSteps = maxPointSteps
	// maxRunBytes bounds the texts and lists that one run builds.
	maxRunBytes = maxPointBytes
	// maxIterations bounds the iterations of one expression that CEL evaluates. Each counts for several steps in estimates,
	// so that expressions over facts of usual sizes stay below.
	maxIterations = maxCost / 3
)

var (
	errListTooLarge = fmt.Errorf("the list would have more than %d bytes", maxList)
	errTextTooLong  = fmt.Errorf("the text would have more than %d bytes", maxText)
	errFactTooLarge = fmt.Errorf("a rule cannot store a text of more than %d bytes, nor a list of more than %d entries of usual size", maxTextSize, maxFieldList)
	errTooManySteps = fmt.Errorf("the rules took more than %d steps in one run", maxRunSteps)
	errTooManyBytes = fmt.Errorf("the rules built more than %d bytes of texts and lists in one run", maxRunBytes)
)

// spend counts steps of the run; false when there are too many, which is a failure.
func (f *frame) spend(steps int) bool {
	f.steps += int64(steps)
	if f.steps > maxRunSteps {
		f.fail(errTooManySteps)
		return false
	}
	return true
}

// build counts bytes that the run builds; false when there are too many, which is a failure.
func (f *frame) build(bytes int) bool {
	f.bytes += int64(bytes)
	if f.bytes > maxRunBytes {
		f.fail(errTooManyBytes)
		return false
	}
	return f.spend(bytes / stepBytes)
}

// compared counts the steps of comparing two values; false when there are too many.
func (f *frame) compared(a, b ref.Val) bool {
	a, b = unwrapped(a), unwrapped(b)
	list, ok := a.(*listOf[ref.Val])
	if !ok {
		return true
	}
	other, ok := b.(*listOf[ref.Val])
	if !ok {
		return true
	}
	return f.spend(int(min(list.weight, other.weight) / stepBytes))
}

// unwrapped is what an optional holds, and otherwise the value itself.
func unwrapped(v ref.Val) ref.Val {
	if o, ok := v.(*types.Optional); ok && o.HasValue() {
		return o.GetValue()
	}
	return v
}

// bounded refuses a value that CEL's evaluator, or a function of the host, made too large.
func bounded(v ref.Val) error {
	if weigh(v, maxList) > maxList {
		return errListTooLarge
	}
	return nil
}

// stopped is a context that is done from the start. CEL looks at it after maxIterations only, which makes it a bound that
// needs no clock.
var stopped = func() context.Context {
	ctx, stop := context.WithCancel(context.Background())
	stop()
	return ctx
}()

// evaluate lets CEL evaluate a program.
func (f *frame) evaluate(p cel.Program) (ref.Val, error) {
	v, _, err := p.ContextEval(stopped, f)
	switch {
	case errors.As(err, &interpreter.InterruptError{}):
		f.steps = maxRunSteps
		return nil, errTooManySteps
	case err != nil:
		return nil, err
	}
	return v, bounded(v)
}
