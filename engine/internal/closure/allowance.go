package closure

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"

	"github.com/celvpa/celvpa/engine/lang"
)

// The static estimates of cost.go take facts to be of usual sizes. What a run may take is bounded all the same, whatever
// the facts: an expression that would go beyond fails, as one that divides by zero does.
const (
	// maxRunSteps bounds what loops and comparisons of one run at a point go through.
	maxRunSteps = lang.MaxPointSteps
	// MaxRunBytes bounds the texts and lists that one run builds.
	MaxRunBytes = lang.MaxPointBytes
	// MaxIterations bounds the iterations of one expression that CEL evaluates. Each counts for several steps in estimates,
	// so that expressions over facts of usual sizes stay below.
	MaxIterations = lang.MaxCost / 3
)

// What expressions that would take too much fail with.
var (
	ErrListTooLarge = fmt.Errorf("the list would have more than %d bytes", lang.MaxList)
	ErrTextTooLong  = fmt.Errorf("the text would have more than %d bytes", lang.MaxText)
	errFactTooLarge = fmt.Errorf("a rule cannot store a text of more than %d bytes, nor a list of more than %d entries of usual size", lang.MaxTextSize, lang.MaxFieldList)
	ErrTooManySteps = fmt.Errorf("the rules took more than %d steps in one run", maxRunSteps)
	ErrTooManyBytes = fmt.Errorf("the rules built more than %d bytes of texts and lists in one run", MaxRunBytes)
)

// spend counts steps of the run; false when there are too many, which is a failure.
func (f *Frame) spend(steps int) bool {
	f.Steps += int64(steps)
	if f.Steps > maxRunSteps {
		f.fail(ErrTooManySteps)
		return false
	}
	return true
}

// build counts bytes that the run builds; false when there are too many, which is a failure.
func (f *Frame) build(bytes int) bool {
	f.Bytes += int64(bytes)
	if f.Bytes > MaxRunBytes {
		f.fail(ErrTooManyBytes)
		return false
	}
	return f.spend(bytes / lang.StepBytes)
}

// compared counts the steps of comparing two values; false when there are too many.
func (f *Frame) compared(a, b ref.Val) bool {
	a, b = unwrapped(a), unwrapped(b)
	list, ok := a.(*lang.List)
	if !ok {
		return true
	}
	other, ok := b.(*lang.List)
	if !ok {
		return true
	}
	return f.spend(int(min(list.Weight, other.Weight) / lang.StepBytes))
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
	if lang.Weigh(v, lang.MaxList) > lang.MaxList {
		return ErrListTooLarge
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
func (f *Frame) evaluate(p cel.Program) (ref.Val, error) {
	v, _, err := p.ContextEval(stopped, f)
	switch {
	case errors.As(err, &interpreter.InterruptError{}):
		f.Steps = maxRunSteps
		return nil, ErrTooManySteps
	case err != nil:
		return nil, err
	}
	return v, bounded(v)
}
