// Command workload is what tests run in pods of real nodes: a program that burns CPU and holds memory on request, over
// HTTP, and says what the kernel allows it. It is static and needs nothing but itself, so it is an image of one file.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "workload:", err)
		os.Exit(2)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("workload", flag.ContinueOnError)
	address := flags.String("address", ":8080", "address to listen on")
	burn := flags.Int64("burn", 0, "milli-cores to burn from the start")
	hold := flags.Int64("hold", 0, "bytes to hold from the start")
	start := flags.Duration("start", 0, "how long the start takes: a whole core is burnt, and nobody is served")
	if err := flags.Parse(args); err != nil {
		return err
	}
	w := &workload{exit: os.Exit}
	if *start > 0 {
		w.cpu.set(1000)
		select {
		case <-time.After(*start):
		case <-ctx.Done():
			return nil
		}
	}
	w.cpu.set(*burn)
	if err := w.memory.set(*hold); err != nil {
		return err
	}
	server := &http.Server{Addr: *address, Handler: w.handler(), ReadHeaderTimeout: 10 * time.Second}
	go func() {
		<-ctx.Done()
		_ = server.Close()
	}()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
