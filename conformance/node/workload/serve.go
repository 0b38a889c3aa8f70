package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// workload serves:
//
//	GET  /                 report
//	POST /burn?milli=N     burn N milli-cores
//	POST /hold?bytes=N     hold N bytes
//	POST /exit?code=N      end
type workload struct {
	cpu    burner
	memory holder
	exit   func(code int)
}

// report says what the program does, and what the files of its cgroup say: those of cgroup v2, as the container sees them.
type report struct {
	Milli  int64             `json:"milli"`
	Bytes  int64             `json:"bytes"`
	Cgroup map[string]string `json:"cgroup"`
}

// cgroupFiles are the files of the cgroup that a report holds.
var cgroupFiles = []string{"cpu.max", "cpu.weight", "cpu.stat", "memory.max", "memory.current", "memory.events"}

// cgroupFolder is where a container finds its own cgroup.
const cgroupFolder = "/sys/fs/cgroup"

func (w *workload) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", func(out http.ResponseWriter, _ *http.Request) { w.answer(out) })
	mux.HandleFunc("POST /burn", w.order("milli", func(n int64) error { w.cpu.set(n); return nil }))
	mux.HandleFunc("POST /hold", w.order("bytes", w.memory.set))
	mux.HandleFunc("POST /exit", w.order("code", func(n int64) error { w.exit(int(n)); return nil }))
	return mux
}

// order carries out an order with a number, and answers with the report.
func (w *workload) order(parameter string, do func(int64) error) http.HandlerFunc {
	return func(out http.ResponseWriter, request *http.Request) {
		n, err := strconv.ParseInt(request.URL.Query().Get(parameter), 10, 64)
		if err != nil || n < 0 {
			http.Error(out, fmt.Sprintf("%s must be a number that is not negative: %q", parameter, request.URL.Query().Get(parameter)), http.StatusBadRequest)
			return
		}
		if err := do(n); err != nil {
			http.Error(out, err.Error(), http.StatusInsufficientStorage)
			return
		}
		w.answer(out)
	}
}

func (w *workload) answer(out http.ResponseWriter) {
	r := report{Milli: w.cpu.now(), Bytes: w.memory.now(), Cgroup: map[string]string{}}
	for _, name := range cgroupFiles {
		if text, err := os.ReadFile(filepath.Join(cgroupFolder, name)); err == nil { // outside of a container there are none
			r.Cgroup[name] = strings.TrimSpace(string(text))
		}
	}
	out.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(out).Encode(r)
}
