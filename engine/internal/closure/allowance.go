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

// Static cost estimates assume facts of usual size. These limits bound a run whatever the facts
// are: an expression that exceeds one fails, as a division by zero does.
const (
	// maxRunSteps bounds the steps of loops and comparisons that one rule set, or an overlay in it, takes
	// in one run at a point.
	maxRunSteps = lang.MaxRunSteps
	// MaxRunBytes bounds the strings and lists that it builds.
	MaxRunBytes = lang.MaxRunBytes
	// MaxIterations bounds the iterations of one expression that CEL evaluates. An estimate charges
	// several steps per iteration, so expressions over facts of usual size stay below it.
	MaxIterations = maxRunSteps / 3
)

// Failures of expressions that exceed a limit.
var (
	ErrListTooLarge = fmt.Errorf("the list would have more than %d bytes", lang.MaxList)
	ErrTextTooLong  = fmt.Errorf("the text would have more than %d bytes", lang.MaxText)
	errFactTooLarge = fmt.Errorf("a rule cannot store a text of more than %d bytes, nor a list of more than %d entries of usual size", lang.MaxTextSize, lang.MaxFieldList)
	ErrTooManySteps = fmt.Errorf("the rules took more than %d steps in one run", maxRunSteps)
	ErrTooManyBytes = fmt.Errorf("the rules built more than %d bytes of texts and lists in one run", MaxRunBytes)
)

// IsTooMuch reports whether an expression failed because a run would take too long, or too much memory.
func IsTooMuch(err error) bool {
	return errors.Is(err, ErrTooManySteps) || errors.Is(err, ErrTooManyBytes)
}

// spend charges steps to the run; it fails the expression and returns false above the limit.
func (f *Frame) spend(steps int) bool {
	f.Steps += int64(steps)
	if f.Steps > maxRunSteps {
		f.Steps = maxRunSteps + 1 // what is beyond is not done
		f.fail(ErrTooManySteps)
		return false
	}
	return true
}

// Check fails the expression just run if it went beyond a limit. A false beside that, or an element that decides, absorbs the
// failure, as CEL has it.
func (f *Frame) Check() {
	switch {
	case f.Steps > maxRunSteps:
		f.fail(ErrTooManySteps)
	case f.Bytes > MaxRunBytes:
		f.fail(ErrTooManyBytes)
	}
}

// build charges bytes to the run; it fails the expression and returns false above the limit.
func (f *Frame) build(bytes int) bool {
	f.Bytes += int64(bytes)
	if f.Bytes > MaxRunBytes {
		f.fail(ErrTooManyBytes)
		return false
	}
	return f.spend(bytes / lang.StepBytes)
}

// compared charges the steps of comparing two values; false above the limit.
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

func unwrapped(v ref.Val) ref.Val {
	if o, ok := v.(*types.Optional); ok && o.HasValue() {
		return o.GetValue()
	}
	return v
}

// bounded rejects an oversized value from CEL's evaluator or a host function.
func bounded(v ref.Val) error {
	if lang.Weigh(v, lang.MaxList) > lang.MaxList {
		return ErrListTooLarge
	}
	return nil
}

// stopped is a cancelled context. CEL checks it only every MaxIterations iterations, which makes it
// an iteration limit without a clock.
var stopped = func() context.Context {
	ctx, stop := context.WithCancel(context.Background())
	stop()
	return ctx
}()

// evaluate runs a CEL program within the limits.
func (f *Frame) evaluate(p cel.Program) (ref.Val, error) {
	v, _, err := p.ContextEval(stopped, f)
	switch {
	case errors.As(err, &interpreter.InterruptError{}):
		f.Steps = maxRunSteps + 1
		return nil, ErrTooManySteps
	case err != nil:
		return nil, err
	}
	return v, bounded(v)
}
