package engine

import (
	"fmt"

	"github.com/celvpa/celvpa/engine/internal/closure"
)

// Payer is who pays for what code takes of a run: a rule set, or an overlay for what it put there. Each may take as much as
// lang.MaxRunSteps and lang.MaxRunBytes, so that none leaves too little to another.
type Payer struct {
	RuleSet string
	Overlay string // empty = none
}

// String names what is left out of a run when the payer has taken too much of it.
func (p Payer) String() string {
	if p.Overlay != "" {
		return fmt.Sprintf("what RuleOverlay %s put into rule set %s", p.Overlay, p.RuleSet)
	}
	return "rule set " + p.RuleSet
}

// account is what a payer's code has taken in a run.
type account struct {
	closure.Cost
	over bool // it may not take more, and is left out from there on
}

// charge makes a payer pay for what runs next, and reports false if it may not take more.
func (f *run) charge(to int32) bool {
	if to != f.paying {
		f.settle()
		f.paying, f.Steps, f.Bytes = to, f.accounts[to].Steps, f.accounts[to].Bytes
	}
	return !f.accounts[to].over
}

// close notes what the run took, and returns it to the pool.
func (r *run) close(code *pointCode) {
	if r.trace != nil {
		r.settle()
		for i, p := range code.payers {
			r.trace.spent(p, r.accounts[i].Cost)
		}
	}
	r.free()
}

// settle enters what the current payer has taken.
func (r *run) settle() {
	if len(r.accounts) > 0 {
		r.accounts[r.paying].Cost = closure.Cost{Steps: r.Steps, Bytes: r.Bytes}
	}
}
