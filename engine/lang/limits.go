package lang

// Limits of an expression, and of all rules at a point together. Nothing outside the process bounds
// a rule file or an overlay. See compile/cost.go for the estimates checked against them.
const (
	// MaxCost bounds the estimated steps of one expression with the variables that it reads. A
	// shipped rule takes a few thousand at most; nested loops over all containers reach this.
	MaxCost = 10_000_000
	// MaxBytes bounds the estimated size of the strings and lists that one expression builds with
	// the variables that it reads.
	MaxBytes = 32 << 20
	// MaxKept bounds the estimated size of the variables of one stage or table, which are kept
	// until the stage ends.
	MaxKept = 2 * MaxBytes
	// MaxPointSteps and MaxPointBytes bound the estimate of one run of all rules at a point, whose lists
	// are longer than those of any real pod: MaxItems items, each with a list of MaxListSize entries. The
	// shipped rules are estimated at up to 26M steps and 29 MB (pod.recommend). An ordinary overlay with
	// one loop inside another in a stage with each, such as
	// rs.filter(c, qs.filter(d, d.b).exists(d, d.i > 0)), comes to 126M to 351M steps and up to 803 MB, so
	// lower bounds refuse it. They only keep out what no pod can run: what a run really takes is bounded by
	// MaxRunSteps and MaxRunBytes.
	MaxPointSteps = 40 * MaxCost
	MaxPointBytes = 32 * MaxBytes
	// MaxRunSteps and MaxRunBytes bound what a rule set really takes in one run at a point, and what an
	// overlay takes in it. No shipped one takes a quarter, for 100 containers with all gates on.
	MaxRunSteps = MaxCost
	MaxRunBytes = MaxBytes
	// MaxReviewSteps bounds all validations of one object, as API servers bound those of a schema. The
	// shipped ones take a tenth of it for the largest object.
	MaxReviewSteps = 10_000_000
	// CheckSteps is what evaluating an expression of a validation costs at least.
	CheckSteps = 10
	// MaxExpressionSize bounds the source of an expression, in bytes. Longer ones are not parsed.
	MaxExpressionSize = 16 << 10
	// MaxVariables bounds the variables of a stage or of a decision table.
	MaxVariables = 200
	// StepBytes is how many bytes of a string or list one step covers.
	StepBytes = 16
)
