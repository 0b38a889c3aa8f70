// Package podupdate is what becomes of running pods: the resources that the rules want for a pod, how far
// it is from them, its priority, and a Step, which decides on the pods of a VPA one after the other and
// has that carried out. The updater, explanations, `celvpa plan` and `celvpa backtest` run it. It reads no
// clock of its own and calls no API server.
package podupdate
