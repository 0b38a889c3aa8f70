package lang

// What expressions, and the rules at a point together, may take. Nothing outside the process bounds a
// rule file or an overlay, so these do: see cost.go for the estimates that are held against them.
const (
	// MaxCost is the highest estimate, in steps, of one expression with the variables that it reads. A
	// rule of the shipped set takes a few thousand at most; nested loops over all containers reach this.
	MaxCost = 10_000_000
	// MaxBytes is the highest estimate of the texts and lists that one expression builds with the
	// variables that it reads.
	MaxBytes = 32 << 20
	// MaxKept is the highest estimate of what the variables of one stage or table build. It is kept
	// until the stage ends.
	MaxKept = 2 * MaxBytes
	// MaxPointSteps and maxPointBytes bound what the rules of all rule sets at a point take together in
	// one run. The shipped ones, over 100 containers with all gates on, take less than a tenth.
	MaxPointSteps = 40 * MaxCost
	MaxPointBytes = 32 * MaxBytes
	// MaxExpressionSize bounds the source of an expression, in bytes: monsters are refused unparsed.
	MaxExpressionSize = 16 << 10
	// MaxVariables bounds the variables of a stage or of a table of decisions.
	MaxVariables = 200
	// StepBytes is how much of a text or list one step goes through.
	StepBytes = 16
)
