package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/celvpa/celvpa/conformance/harness"
)

// preview shows what celvpa makes of a day of recorded usage, which takes no cluster: there is something to read while the lab's
// programs compile.
func preview(ctx context.Context, program string) error {
	root, err := harness.Root()
	if err != nil {
		return err
	}
	say("preview         the lab compiles next, which takes minutes; here is the same workload with a day of recorded usage, no cluster needed")
	example := filepath.Join("examples", "quickstart")
	recommend := []string{"recommend", "-f", example, "--usage", filepath.Join(example, "usage.csv")}
	admit := []string{"admit", "-f", "-", "-f", filepath.Join(example, "deployment.yaml"), "--explain", "-o", "table"}
	command := func(args []string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, program, args...)
		cmd.Dir = root
		return cmd
	}
	show := func(line string, cmd *exec.Cmd) error {
		fmt.Printf("\n$ %s\n", line)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stdout
		defer fmt.Println()
		return cmd.Run()
	}
	asTable := "celvpa " + strings.Join(recommend, " ")
	if err := show(asTable, command(recommend)); err != nil {
		return fmt.Errorf("%s: %w", asTable, err)
	}
	asYAML := asTable + " -o yaml"
	recommended, err := command(append(recommend, "-o", "yaml")).Output()
	if err != nil {
		return fmt.Errorf("%s: %w", asYAML, err)
	}
	say("preview         what a new pod gets from it at admission, and the rule behind each value")
	admitted := command(admit)
	admitted.Stdin = bytes.NewReader(recommended)
	line := asYAML + " | celvpa " + strings.Join(admit, " ")
	if err := show(line, admitted); err != nil {
		return fmt.Errorf("%s: %w", line, err)
	}
	return nil
}
