// Command generate writes the usage of examples/backtest: eight days of three workloads, with a sample
// every ten minutes. It prints the same bytes each time. That of celvpa demo is the same under shorter names.
//
//	go run ./examples/backtest/generate | gzip -9n > examples/backtest/usage.csv.gz
//	go run ./examples/backtest/generate demo | gzip -9n > examples/demo/usage.csv.gz
package main

import (
	"bufio"
	"fmt"
	"io"
	"log"
	"math"
	"math/rand/v2"
	"os"
	"time"
)

// container is one that has usage.
type container struct {
	namespace, pod, name string
	usage                func(r *rand.Rand, day int, hour float64) (cores, mebibytes float64)
}

func main() {
	out := bufio.NewWriter(os.Stdout)
	list := containers
	if len(os.Args) > 1 && os.Args[1] == "demo" {
		list = demo
	}
	write(out, list)
	if err := out.Flush(); err != nil {
		log.Fatal(err)
	}
}

func write(out io.Writer, containers []container) {
	const step = 10 * time.Minute
	begin := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC) // a Monday
	noise := rand.New(rand.NewPCG(14, 2026))
	fmt.Fprintln(out, "timestamp,namespace,pod,container,resource,value")
	for at := time.Duration(0); at < 8*24*time.Hour; at += step {
		for _, c := range containers {
			when := begin.Add(at)
			cores, mebibytes := c.usage(noise, int(at.Hours()/24), math.Mod(at.Hours(), 24))
			fmt.Fprintf(out, "%s,%s,%s,%s,cpu,%.2f\n", when.Format(time.RFC3339), c.namespace, c.pod, c.name, cores)
			fmt.Fprintf(out, "%s,%s,%s,%s,memory,%d\n", when.Format(time.RFC3339), c.namespace, c.pod, c.name, int64(mebibytes)<<20)
		}
	}
}

var containers = []container{
	{"payments", "books-0", "books", books},
	{"shop", "web-6f9c7d8b5d-bcdfg", "web", web},
	{"shop", "web-6f9c7d8b5d-hjklm", "web", web},
	{"shop", "search-54c9f7b6d8-npqrs", "search", search},
}

var demo = []container{
	{"pay", "cash-0", "cash", books},
	{"shop", "web-0", "web", web},
	{"shop", "web-1", "web", web},
	{"shop", "auth-0", "auth", search},
}

// closing is how much memory it takes to close the books of each day, in MiB.
var closing = []float64{430, 410, 440, 420, 610, 400, 450, 640}

// books is closed from one to three in the night.
func books(r *rand.Rand, day int, hour float64) (cores, mebibytes float64) {
	if hour >= 1 && hour < 3 {
		return 0.8 + 0.1*r.Float64(), 250 + (closing[day]-250)*math.Min(1, (hour-1)*1.5)
	}
	return 0.05 + 0.02*r.Float64(), 240 + 10*r.Float64()
}

// web is busy by day.
func web(r *rand.Rand, _ int, hour float64) (cores, mebibytes float64) {
	busy := math.Max(0, math.Sin((hour-7)/24*2*math.Pi))
	return 0.05 + 0.4*busy*(0.8+0.4*r.Float64()), 180 + 60*busy + 10*r.Float64()
}

// search is steady, and asks for far too much.
func search(r *rand.Rand, _ int, _ float64) (cores, mebibytes float64) {
	return 0.2 + 0.05*r.Float64(), 700 + 20*r.Float64()
}
