package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	patch "gomodules.xyz/jsonpatch/v2"
	"sigs.k8s.io/yaml"

	"github.com/celvpa/celvpa/engine"
)

// admitReport is what celvpa admit -o json prints. Scripts depend on its names.
type admitReport struct {
	Items []admitItem `json:"items"`

	explained []explanation // one for each item, with --explain
}

// admitItem is one pod.
type admitItem struct {
	Pod      string            `json:"pod"` // namespace/name, or namespace/generateName
	Allowed  bool              `json:"allowed"`
	Message  string            `json:"message,omitempty"` // why it is refused
	Warnings []string          `json:"warnings,omitempty"`
	Patch    []patch.Operation `json:"patch,omitempty"`  // of the pod as it was written
	Object   map[string]any    `json:"object,omitempty"` // the pod with it; none for a pod that is refused
}

// explanation tells how one pod came to what it has.
type explanation struct {
	pod, text string
	steps     []engine.Step
}

// refused reports whether a pod is refused.
func (r *admitReport) refused() bool {
	for i := range r.Items {
		if !r.Items[i].Allowed {
			return true
		}
	}
	return false
}

// writeRefusals tells what the lists of pods and patches leave out.
func (r *admitReport) writeRefusals(out io.Writer) {
	for i := range r.Items {
		if item := &r.Items[i]; !item.Allowed {
			fmt.Fprintf(out, "celvpa: pod %s is refused: %s\n", item.Pod, item.Message)
		}
	}
}

func (r *admitReport) writeExplanations(to io.Writer) error {
	out := bufio.NewWriter(to)
	for _, one := range r.explained {
		fmt.Fprintf(out, "\n%s: %s\n", one.pod, one.text)
		if len(one.steps) == 0 {
			continue
		}
		if err := engine.Explain(out, "  ", one.steps); err != nil {
			return err
		}
	}
	if len(r.explained) > 0 {
		fmt.Fprintln(out)
	}
	return out.Flush()
}

func (r *admitReport) writeJSON(out io.Writer) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(r)
}

// writeYAML prints manifests one after the other.
func (r *admitReport) writeYAML(to io.Writer) error {
	return r.stream(to, func(out io.Writer, item *admitItem) error {
		text, err := yaml.Marshal(item.Object)
		if err == nil {
			_, err = out.Write(text)
		}
		return err
	})
}

// writePatches prints a JSON Patch for each pod, as YAML documents: a line says which pod it is for, and each operation has a
// line.
func (r *admitReport) writePatches(to io.Writer) error {
	return r.stream(to, func(out io.Writer, item *admitItem) error {
		fmt.Fprintf(out, "# %s\n", item.Pod)
		if len(item.Patch) == 0 {
			_, err := fmt.Fprintln(out, "[]")
			return err
		}
		for i, op := range item.Patch {
			text, err := operation(op)
			if err != nil {
				return err
			}
			begin := ",\n "
			if i == 0 {
				begin = "["
			}
			fmt.Fprintf(out, "%s%s", begin, text)
		}
		_, err := fmt.Fprintln(out, "]")
		return err
	})
}

// operation is one operation in a line, as it is read best.
func operation(op patch.Operation) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value"`
	}{op.Operation, op.Path, op.Value})
	return bytes.TrimSpace(text.Bytes()), err
}

// stream prints a YAML document for each pod that is allowed.
func (r *admitReport) stream(to io.Writer, write func(io.Writer, *admitItem) error) error {
	out := bufio.NewWriter(to)
	first := true
	for i := range r.Items {
		if !r.Items[i].Allowed {
			continue
		}
		if !first {
			fmt.Fprintln(out, "---")
		}
		first = false
		if err := write(out, &r.Items[i]); err != nil {
			return err
		}
	}
	return out.Flush()
}
