package history

import (
	"bufio"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// BenchmarkLoad reads 8 days at one hour of 1,000 pods with one container each, from a server that
// writes answers as Prometheus does. It reports what a sample costs as long as the pods are held.
func BenchmarkLoad(b *testing.B) {
	const pods = 1000
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out := bufio.NewWriter(w)
		defer out.Flush()
		if query := r.FormValue("query"); !strings.HasPrefix(query, cpu) && !strings.HasPrefix(query, memory) {
			_, _ = out.WriteString(nothing)
			return
		}
		start, _ := strconv.ParseInt(r.FormValue("start"), 10, 64)
		end, _ := strconv.ParseInt(r.FormValue("end"), 10, 64)
		_, _ = out.WriteString(`{"status":"success","data":{"resultType":"matrix","result":[`)
		for i := range pods {
			if i > 0 {
				_ = out.WriteByte(',')
			}
			_, _ = fmt.Fprintf(out, `{"metric":{"namespace":"ns-%d","pod_name":"pod-%d-7d4b9c6f5-abcde","name":"app"},"values":[`, i%50, i)
			for at := start; at <= end; at += 3600 {
				if at > start {
					_ = out.WriteByte(',')
				}
				_, _ = fmt.Fprintf(out, `[%d,"0.%017d"]`, at, at*int64(i+1))
			}
			_, _ = out.WriteString("]}")
		}
		_, _ = out.WriteString("]}}")
	}))
	defer server.Close()
	s, _ := source(b, server.URL, "--history-length=8d", "--history-resolution=1h")
	b.ReportAllocs()
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		list, _ := s.Load(b.Context(), now)
		runtime.GC()
		runtime.GC() // pools, which hold the last answer, are emptied by the second
		runtime.ReadMemStats(&after)
		if len(list) != pods {
			b.Fatalf("%d pods", len(list))
		}
		b.ReportMetric((float64(after.HeapAlloc)-float64(before.HeapAlloc))/(pods*193*2), "B-held/sample")
		runtime.KeepAlive(list)
	}
}
