// Package pagetest has backtests to write as pages, for tests of the page and of what browsers make
// of it.
package pagetest
