// Command lock keeps the rule sets and pipelines of releases: conformance/rules/lock/released.yaml has a digest of each
// version that a release shipped, and a test refuses another content under the same version. Versions that no release
// had may change. Operators refer to rules by version: overlays to what they change, VPAs to the pipeline that they pin.
package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/celvpa/celvpa/rules"
)

// file is read and written in the repository's folder.
const file = "conformance/rules/lock/released.yaml"

const header = `# The rule sets and pipelines that releases have shipped, with the SHA-256 of each as JSON. Made by "make rules-lock".
# A version that is in here never changes: give what you change a new version, and name that in the pipeline.
`

func main() {
	check := flag.Bool("check", false, "fail if a shipped version is missing, rather than add it")
	flag.Parse()
	if err := run(*check); err != nil {
		fmt.Fprintln(os.Stderr, "lock:", err)
		os.Exit(1)
	}
}

func run(check bool) error {
	shipped, err := digests(rules.FS)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	released, err := read(text)
	if err != nil {
		return err
	}
	if err := changed(released, shipped); err != nil {
		return err
	}
	added := missing(released, shipped)
	if check && len(added) > 0 {
		return fmt.Errorf(`%s lacks %s: run "make rules-lock", and commit it before you tag the release`, file, strings.Join(added, ", "))
	}
	if len(added) == 0 {
		return nil
	}
	for _, id := range added {
		released[id] = shipped[id]
	}
	text, err = yaml.Marshal(released)
	if err != nil {
		return err
	}
	return os.WriteFile(file, append([]byte(header), text...), 0o644)
}

// read reads the digests of what was released, by name@version. Nothing was, if there is no text.
func read(text []byte) (map[string]string, error) {
	released := map[string]string{}
	if err := yaml.UnmarshalStrict(text, &released); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return released, nil
}

// digests are those of all rule sets and pipelines in some rule files, by name@version. Comments and layout do not count.
func digests(files fs.FS) (map[string]string, error) {
	names, err := fs.Glob(files, "*.yaml")
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
		for text, err = documents.Read(); err == nil; text, err = documents.Read() {
			id, digest, err := digest(text)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			out[id] = digest
		}
		if !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return out, nil
}

// digest is that of a document, with its name@version.
func digest(document []byte) (id, digest string, err error) {
	var known struct {
		Metadata struct{ Name string }
		Spec     struct{ Version string }
	}
	if err := yaml.Unmarshal(document, &known); err != nil {
		return "", "", err
	}
	canonical, err := yaml.YAMLToJSON(document)
	return known.Metadata.Name + "@" + known.Spec.Version, fmt.Sprintf("%x", sha256.Sum256(canonical)), err
}

// changed reports each version whose content is not what a release shipped.
func changed(released, shipped map[string]string) error {
	var errs []error
	for _, id := range slices.Sorted(maps.Keys(released)) {
		if now, is := shipped[id]; is && now != released[id] {
			name, _, _ := strings.Cut(id, "@")
			errs = append(errs, fmt.Errorf("%s differs from what a release shipped under that version: give %s a new version in spec.version, and name that in the pipeline", id, name))
		}
	}
	return errors.Join(errs...)
}

// missing are the shipped versions that no release had.
func missing(released, shipped map[string]string) (out []string) {
	for _, id := range slices.Sorted(maps.Keys(shipped)) {
		if _, is := released[id]; !is {
			out = append(out, id)
		}
	}
	return out
}
