// Package podupdate assesses running pods for the updater and `celvpa plan`: the resources that the
// rules want for a pod, how far it is from them, its priority, and what to do with it. It reads no
// clock and calls no API server.
package podupdate
