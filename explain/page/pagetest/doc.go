// Package pagetest has explanations for tests of pages: realistic ones, a large one, and one whose
// every text tries to leave its place.
package pagetest
