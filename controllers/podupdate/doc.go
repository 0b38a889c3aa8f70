// Package podupdate is what the updater and `celvpa plan` share: what the rules want for a running pod, how far it is from that,
// which pods come first, and what is to be done. It reads no clock and talks to no API server.
package podupdate
