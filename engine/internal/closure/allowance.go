package closure

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"

	"github.com/celvpa/celvpa/engine/lang"
)

// Estimates assume facts of usual size. What follows bounds a run whatever the facts are: an expression
// that exceeds a limit of package lang fails, as a division by zero does.

// Failures of expressions that exceed a limit.
var (
	ErrListTooLarge = fmt.Errorf("the list would have more than %d bytes", lang.MaxList)
	ErrTextTooLong  = fmt.Errorf("the text would have more than %d bytes", lang.MaxText)
	errFactTooLarge = fmt.Errorf("a rule cannot store a text of more than %d bytes, nor a list of more than %d entries of usual size", lang.MaxTextSize, lang.MaxFieldList)
	ErrTooManySteps = fmt.Errorf("the rules took more than %d steps in one run", lang.MaxRunSteps)
	ErrTooManyBytes = fmt.Errorf("the rules built more than %d bytes of texts and lists in one run", lang.MaxRunBytes)
)

// IsTooMuch reports whether an expression failed because a run would take too long, or too much memory.
func IsTooMuch(err error) bool {
	return errors.Is(err, ErrTooManySteps) || errors.Is(err, ErrTooManyBytes)
}

// spend charges steps to the run; it fails the expression and returns false above the limit.
func (f *Frame) spend(steps int) bool {
	f.Steps += int64(steps)
	if f.Steps > lang.MaxRunSteps {
		f.Steps = lang.MaxRunSteps + 1 // what is beyond is not done
		f.fail(ErrTooManySteps)
		return false
	}
	return true
}

// Check fails the expression just run if it went beyond a limit. A false beside that, or an element that decides, absorbs the
// failure, as CEL has it.
func (f *Frame) Check() {
	switch {
	case f.Steps > lang.MaxRunSteps:
		f.fail(ErrTooManySteps)
	case f.Bytes > lang.MaxRunBytes:
		f.fail(ErrTooManyBytes)
	}
}

// build charges bytes to the run; it fails the expression and returns false above the limit.
func (f *Frame) build(bytes int) bool {
	f.Bytes += int64(bytes)
	if f.Bytes > lang.MaxRunBytes {
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

// maxIterations bounds the iterations of one expression that CEL evaluates. An estimate charges several
// steps per iteration, so expressions over facts of usual size stay below it.
const maxIterations = lang.MaxRunSteps / 3

// RunLimits are the options of CEL programs with the same limits.
func RunLimits() []cel.ProgramOption {
	return []cel.ProgramOption{cel.EvalOptions(cel.OptOptimize), cel.InterruptCheckFrequency(maxIterations)}
}

// stopped is a cancelled context. CEL checks it only every maxIterations iterations, which makes it
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
		f.Steps = lang.MaxRunSteps + 1
		return nil, ErrTooManySteps
	case err != nil:
		if key, missing := strings.CutPrefix(err.Error(), "no such key: "); missing {
			err = fmt.Errorf("there is no key %s; ask '%[1]s' in …, or give a default: …[?'%[1]s'].orValue(…)", key)
		}
		return nil, err
	}
	return v, bounded(v)
}
