// Command program stands in for celvpa where a test is about how it is packed: it compiles in seconds.
package main

import "fmt"

var version, commit, date string

func main() { fmt.Println(version, commit, date) }
