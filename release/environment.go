package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
)

// places are the variables that say where Go, its caches and modules are. They do not enter the program, so the user's values hold, be
// they from the environment or from go env -w.
var places = []string{
	"GOROOT", "GOPATH", "GOCACHE", "GOCACHEPROG", "GOTMPDIR",
	"GOMODCACHE", "GOPROXY", "GOSUMDB", "GOPRIVATE", "GONOPROXY", "GONOSUMDB", "GOINSECURE", "GOVCS", "GOAUTH",
}

// resources are the variables that limit what Go takes of this machine.
var resources = []string{"GOGC", "GOMAXPROCS", "GOMEMLIMIT"}

// pinned are variables that enter the program, or choose what builds it. None is empty: Go takes an empty variable for unset, and reads
// the file of go env -w, or go.env of its own folder, instead. Without that file, variables that are not here have Go's defaults.
var pinned = []string{
	"GOENV=off", "GOTOOLCHAIN=local", "GOWORK=off", "GOFLAGS=-mod=readonly",
	"CGO_ENABLED=0", "GOFIPS140=off", "GOAMD64=v1", "GOARM64=v8.0",
}

// runGo runs the go command in the clone, as every release does, and returns what it prints.
func (s *source) runGo(ctx context.Context, args ...string) (string, error) {
	environment, err := s.goEnvironment(ctx)
	if err != nil {
		return "", err
	}
	return s.command(ctx, environment, "go", args...)
}

// goEnvironment is the environment of the go command: all that is not Go's, the places and resources, and what is pinned.
func (s *source) goEnvironment(ctx context.Context) ([]string, error) {
	if s.environment != nil {
		return s.environment, nil
	}
	kept := slices.DeleteFunc(os.Environ(), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return isGo(name) && !slices.Contains(places, name) && !slices.Contains(resources, name)
	})
	ask := append(slices.Clone(kept), "GOTOOLCHAIN=local", "GOENV="+os.Getenv("GOENV"))
	text, err := s.command(ctx, ask, "go", append([]string{"env", "-json"}, places...)...)
	if err != nil {
		return nil, err
	}
	values := map[string]string{}
	if err := json.Unmarshal([]byte(text), &values); err != nil {
		return nil, fmt.Errorf("reading what go env prints: %w", err)
	}
	for _, name := range places {
		kept = append(kept, name+"="+values[name])
	}
	s.environment = append(kept, pinned...)
	return s.environment, nil
}

// isGo reports whether a variable is one of the go command, its compiler and linker, listed by go help environment or not.
func isGo(name string) bool {
	return strings.HasPrefix(name, "CGO_") || strings.HasPrefix(name, "GO") && !strings.HasPrefix(name, "GOOGLE_")
}
