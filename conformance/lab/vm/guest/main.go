// Command guest runs inside of the virtual machine: as its agent, and as the pause container of each pod.
package main

import (
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "guest: say agent or pause")
		os.Exit(2)
	}
	switch os.Args[1] {
	case "agent":
		log.Fatal(serve())
	case "pause":
		pause()
	default:
		fmt.Fprintf(os.Stderr, "guest: no command %q: say agent or pause\n", os.Args[1])
		os.Exit(2)
	}
}

// pause holds a pod's namespaces until it gets a signal to end, and reaps what the pod's processes leave behind.
func pause() {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
	for signal := range signals {
		if signal != syscall.SIGCHLD {
			return
		}
		for {
			if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); err != nil || pid <= 0 {
				break
			}
		}
	}
}
