package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
)

// cores says who runs where: a server has one core, and what loads it the others, so that neither takes time from the other.
type cores struct {
	pin                 []string // goes before a server's program and its flags
	env                 []string
	serverText, ownText string
	own                 float64 // how many there are for what loads the server
}

// divide gives the first core to the server and moves this process to the others. Without taskset, or where the kernel does not
// let it, both are only told how many they may use.
func divide() cores {
	all := runtime.NumCPU()
	others := max(all-1, 1)
	runtime.GOMAXPROCS(others)
	asked := cores{env: []string{"GOMAXPROCS=1"}, own: float64(others), serverText: "GOMAXPROCS=1", ownText: fmt.Sprintf("GOMAXPROCS=%d", others)}
	if all < 2 {
		return asked
	}
	rest := "1-" + strconv.Itoa(all-1)
	if exec.Command("taskset", "-c", "0", "true").Run() != nil ||
		exec.Command("taskset", "-a", "-c", "-p", rest, strconv.Itoa(os.Getpid())).Run() != nil {
		return asked
	}
	asked.pin = []string{"taskset", "-c", "0"}
	asked.serverText, asked.ownText = "core 0", "core "+rest
	if all == 2 {
		asked.ownText = "core 1"
	}
	return asked
}
