package manifests

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// leftOut is a file in a folder that has no manifests, and why.
type leftOut struct {
	file string
	why  string // one of leftOutReasons
}

const (
	noObject = "no object"
	template = "template"
	isPatch  = "patch"
	noFile   = "no file"
)

// LeftOut says in a line which files in folders were left out; empty = none.
func (s *Set) LeftOut() string {
	files := map[string][]string{}
	for _, left := range s.leftOut {
		files[left.why] = append(files[left.why], left.file)
	}
	var parts []string
	for _, of := range []struct{ why, one, several string }{
		{noObject, "1 holds no VerticalPodAutoscaler or workload", "%d hold no VerticalPodAutoscaler or workload"},
		{template, "1 is a template, to be rendered first", "%d are templates, to be rendered first"},
		{noFile, "1 is not a regular file, such as a pipe or a device", "%d are not regular files, such as pipes or devices"},
		{isPatch, "1 is a patch, which kustomize build applies", "%d are patches, which kustomize build applies"},
	} {
		list := files[of.why]
		text := of.one
		switch {
		case len(list) == 0:
			continue
		case len(list) > 1:
			text = fmt.Sprintf(of.several, len(list))
		}
		parts = append(parts, text+" ("+few(list)+")")
	}
	if len(parts) == 0 {
		return ""
	}
	return fmt.Sprintf("files in folders left out: %s; name a file with -f to see what is wrong with it", strings.Join(parts, "; "))
}

// few are the first names.
func few(names []string) string {
	const most = 3
	if len(names) > most {
		names = append(slices.Clone(names[:most]), "…")
	}
	return strings.Join(names, ", ")
}

// patchesIn are those of the files that kustomizations among them name as patches.
func patchesIn(files []string) map[string]bool {
	out := map[string]bool{}
	for _, name := range files {
		if base := filepath.Base(name); base == "kustomization.yaml" || base == "kustomization.yml" {
			for _, path := range patchesOf(name) {
				out[filepath.Join(filepath.Dir(name), path)] = true
			}
		}
	}
	return out
}

// longestKustomization is how much is read of one, in bytes.
const longestKustomization = 1 << 20

// patchesOf are the files that a kustomization names as patches. None are in one that cannot be read.
func patchesOf(name string) (out []string) {
	type patch struct {
		Path string `json:"path"`
	}
	var k struct {
		Patches   []patch  `json:"patches"`
		Strategic []string `json:"patchesStrategicMerge"`
		JSON      []patch  `json:"patchesJson6902"`
	}
	file, err := openRegular(name)
	if err != nil || file == nil {
		return nil
	}
	defer file.Close()
	if text, err := io.ReadAll(io.LimitReader(file, longestKustomization)); err != nil || yaml.Unmarshal(text, &k) != nil {
		return nil
	}
	for _, p := range append(k.Patches, k.JSON...) {
		out = append(out, p.Path)
	}
	return append(out, k.Strategic...)
}

// readFolder reads the files of a folder. Those without a manifest are left out, as a repository has
// many.
func (s *Set) readFolder(path string, options Files) []error {
	files, err := filesIn(path, options.Ignore)
	var errs []error
	if err != nil {
		errs = append(errs, err)
	}
	patches := patchesIn(files)
	for i, name := range files {
		if options.Watch != nil {
			options.Watch("reading files", i, len(files))
		}
		if patches[name] {
			s.leftOut = append(s.leftOut, leftOut{name, isPatch})
			continue
		}
		text, err := s.readMember(name)
		switch {
		case err != nil:
			errs = append(errs, cannotRead(name, err))
		case text == nil:
			s.leftOut = append(s.leftOut, leftOut{name, noFile})
		default:
			errs = append(errs, s.parseMember(name, text)...)
		}
	}
	return errs
}

// readMember reads a file of a folder, nil if it is not a regular one.
func (s *Set) readMember(name string) ([]byte, error) {
	file, err := openRegular(name)
	if file == nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(&bounded{in: file, set: s})
}

// parseMember parses a file of a folder, unless it is no manifest. Templates, of Helm and of others, have {{ in
// place of values.
func (s *Set) parseMember(name string, text []byte) []error {
	read := Set{}
	errs := read.parse(name, text)
	switch {
	case len(errs) == 0:
	case bytes.Contains(text, []byte("{{")):
		s.leftOut = append(s.leftOut, leftOut{name, template})
		return nil
	case len(read.Documents) == 0 && !holdsObject(text):
		s.leftOut = append(s.leftOut, leftOut{name, noObject})
		return nil
	}
	s.Documents = append(s.Documents, read.Documents...)
	return errs
}

// kindLine matches the kind of an object that celvpa reads, in YAML, in a list in YAML, and in JSON.
var kindLine = regexp.MustCompile(`(?m)(?:^(?:[ \t]*- +)?|[{,]\s*["'])kind["']?\s*:\s*["']?(?:` + strings.Join(objectKinds(), "|") + `)\b`)

func objectKinds() (out []string) {
	for _, known := range workloadKinds {
		out = append(out, known.Kind)
	}
	return append(out, vpaKind.Kind, checkpointKind.Kind, ruleOverlayKind.Kind, podKind.Kind)
}

// holdsObject reports whether a text that cannot be read was meant to hold a VerticalPodAutoscaler,
// a workload or a RuleOverlay.
func holdsObject(text []byte) bool { return kindLine.Match(plain(text)) }
