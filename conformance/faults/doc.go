// Package faults puts a proxy between programs and an API server that misbehaves on demand: it refuses, loses and delays
// requests, is gone for a while, cuts and repeats watches, and changes answers. It makes no assertions.
package faults
