// Package target finds the pods that a VPA selects and the VPA that controls a pod (UPSTREAM.md
// §2.4, §4.2).
package target
