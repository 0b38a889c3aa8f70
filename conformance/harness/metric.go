package harness

import (
	"io"
	"net/http"
	"strconv"
	"strings"
)

// Metric is the value of a series, given with its labels, that a process serves at an address; 0 if there is none.
func Metric(address, series string) float64 {
	resp, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(body)) {
		if rest, found := strings.CutPrefix(line, series+" "); found {
			v, _ := strconv.ParseFloat(strings.TrimSpace(rest), 64)
			return v
		}
	}
	return 0
}
