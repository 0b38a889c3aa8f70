package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
)

// cores says where a server and its clients run, so that neither takes CPU time from the other.
type cores struct {
	pin             []string // goes before a server's program
	server, clients string   // for people
}

// divideCores gives the first core to servers, and the others to this process. Without taskset, or
// where the kernel does not permit it, both are only limited to as many.
func divideCores() cores {
	others := max(runtime.NumCPU()-1, 1)
	runtime.GOMAXPROCS(others)
	rest := fmt.Sprintf("1-%d", others)
	if runtime.NumCPU() > 1 && exec.Command("taskset", "-c", "0", "true").Run() == nil &&
		exec.Command("taskset", "-a", "-c", "-p", rest, fmt.Sprint(os.Getpid())).Run() == nil {
		return cores{pin: []string{"taskset", "-c", "0"}, server: "core 0", clients: "cores " + rest}
	}
	return cores{pin: []string{"env", "GOMAXPROCS=1"}, server: "GOMAXPROCS=1", clients: fmt.Sprintf("GOMAXPROCS=%d", others)}
}
