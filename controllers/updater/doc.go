// Package updater brings running pods to their recommendation: it resizes them in place or evicts them. Which of the
// two, when and whether at all is a decision of the rules; this package supplies facts and carries the verdict out.
package updater
