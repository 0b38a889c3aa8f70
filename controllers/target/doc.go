// Package target finds which pods a VPA is about and which VPA a pod belongs to (UPSTREAM.md §2.4, §4.2).
package target
