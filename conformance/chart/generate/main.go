// Command generate writes what is made from the chart: see chart.Generated.
package main

import (
	"fmt"
	"os"

	"github.com/celvpa/celvpa/conformance/chart"
)

func main() {
	if err := chart.WriteGenerated(); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}
