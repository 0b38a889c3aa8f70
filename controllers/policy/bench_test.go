package policy

import "testing"

// BenchmarkLoad loads and compiles all shipped rules: what a start and a reload take.
func BenchmarkLoad(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Load(Options{}); err != nil {
			b.Fatal(err)
		}
	}
}
