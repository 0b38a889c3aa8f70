// Package backtest replays recorded usage through celvpa: what would a policy have done to this
// cluster? The recommender, the updater and the admission controller decide as they do in a
// cluster, by a virtual clock, and see nothing of the future. Several policies run beside each
// other, and beside baselines, on the same history.
//
// Package history holds the usage. Results are plain structs; scripts depend on their JSON names.
// Flags and output belong in cmd/celvpa. No policy lives here: rules decide, and this package
// carries out and measures.
package backtest
