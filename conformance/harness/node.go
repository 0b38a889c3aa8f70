package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
)

// MissingError says what this machine lacks to run a real node, and the command that installs it.
type MissingError struct{ Reason string }

func (e *MissingError) Error() string { return e.Reason }

// UpNode is Up for a lab with one real node, in a virtual machine. It returns a MissingError where that cannot be started.
func UpNode(ctx context.Context, name string, out io.Writer) (*Lab, error) {
	lab, err := launcher(ctx, name)
	if err != nil {
		return nil, err
	}
	if text, err := lab.command(ctx, "node missing").CombinedOutput(); err != nil {
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			return nil, &MissingError{strings.TrimSpace(string(text))}
		}
		return nil, fmt.Errorf("looking for what a real node needs: %w", err)
	}
	return Up(ctx, name, out, "-node=vm")
}

// Load imports an image archive into the lab's real node.
func (l *Lab) Load(ctx context.Context, archive string) error {
	if text, err := l.command(ctx, "load", archive).CombinedOutput(); err != nil {
		return fmt.Errorf("loading %s: %w\n%s", archive, err, text)
	}
	return nil
}

// KillNode cuts the power of the lab's real node; StartNode switches it on again and waits until it is ready.
func (l *Lab) KillNode(ctx context.Context) error { return l.node(ctx, "kill") }

// StartNode is the opposite of KillNode.
func (l *Lab) StartNode(ctx context.Context) error { return l.node(ctx, "start") }

func (l *Lab) node(ctx context.Context, verb string) error {
	if text, err := l.command(ctx, "node "+verb).CombinedOutput(); err != nil {
		return fmt.Errorf("lab node %s: %w\n%s", verb, err, text)
	}
	return nil
}
