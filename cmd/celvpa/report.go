package main

import (
	"encoding/xml"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/celvpa/celvpa/engine/source"
	"github.com/celvpa/celvpa/simulate"
	"github.com/celvpa/celvpa/simulate/manifests"
)

// report is a result in the form that CI systems read: what was checked, and what was found.
type report struct {
	checks []check
	unread []error // inputs that could not be read
}

// check is one thing that was checked, e.g. a row of a test table.
type check struct {
	suite, file, name string
	findings          []finding
}

// finding is a fault at a place.
type finding struct {
	rule    string // e.g. vpa-object/min-replicas-positive
	about   string // the object or rule at fault
	message string
	at      source.Position // Line and Col are 0 where they are not known
	warning bool            // it does not fail the check
}

// The findings that no rule makes.
const (
	findingLint     = "rules-lint"
	findingRow      = "test-row"
	findingCoverage = "test-coverage"
	findingSchema   = "schema"
	findingUnread   = "unreadable" // an input that could not be read
)

// reportForms are the outputs that every report has.
var reportForms = []string{"junit", "github"}

// or adds the outputs of a report to others.
func (r *report) or(own map[string]func(*page)) map[string]func(*page) {
	out := maps.Clone(own)
	out["junit"], out["github"] = r.junit, r.github
	return out
}

// String is a finding in a line, without its place.
func (f *finding) String() string {
	if f.about == "" {
		return f.message
	}
	return f.about + ": " + f.message
}

// place is a finding's "file:line:col: ", as far as it is known.
func (f *finding) place() string {
	file := relative(f.at.File)
	switch {
	case f.at.File == "":
		return ""
	case f.at.Line == 0:
		return file + ": "
	case f.at.Col == 0:
		return fmt.Sprintf("%s:%d: ", file, f.at.Line)
	}
	return fmt.Sprintf("%s:%d:%d: ", file, f.at.Line, f.at.Col)
}

// relative is the path of a file from the working directory, with slashes; of one outside of it, and a URL, as it is.
func relative(file string) string {
	if manifests.IsURL(file) {
		return file
	}
	if filepath.IsAbs(file) {
		if here, err := os.Getwd(); err == nil {
			if below, err := filepath.Rel(here, file); err == nil && filepath.IsLocal(below) {
				file = below
			}
		}
	}
	return filepath.ToSlash(filepath.Clean(file))
}

// github prints a workflow command of GitHub Actions for each finding, and for each input that could
// not be read.
func (r *report) github(p *page) {
	for _, c := range r.all() {
		for _, f := range c.findings {
			f.github(p)
		}
	}
}

// all are the checks, and one more for each file with input that could not be read.
func (r *report) all() []check {
	out := slices.Clone(r.checks)
	own := len(out)
	for _, err := range r.unread {
		f := unreadFinding(err)
		suite := "input"
		if f.at.File != "" {
			suite = relative(f.at.File)
		}
		at := own + slices.IndexFunc(out[own:], func(c check) bool { return c.suite == suite })
		if at < own {
			at = len(out)
			out = append(out, check{suite: suite, file: f.at.File, name: "can be read"})
		}
		out[at].findings = append(out[at].findings, *f)
	}
	return out
}

func (f *finding) github(p *page) {
	inMessage := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	inProperty := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
	command, properties := "error", []string{"title=" + inProperty.Replace(f.rule)}
	if f.warning {
		command = "warning"
	}
	if onDisk(f.at.File) {
		properties = append(properties, "file="+inProperty.Replace(relative(f.at.File)))
		if f.at.Line > 0 {
			properties = append(properties, fmt.Sprintf("line=%d", f.at.Line))
		}
		if f.at.Col > 0 {
			properties = append(properties, fmt.Sprintf("col=%d", f.at.Col))
		}
	}
	p.printf("::%s %s::%s\n", command, strings.Join(properties, ","), inMessage.Replace(f.String()))
}

// onDisk reports whether a place is in a file, and not in standard input, a cluster or a URL, or unknown.
func onDisk(file string) bool {
	return file != "" && file != manifests.StdinName && file != manifests.ClusterName && !manifests.IsURL(file)
}

// placed matches an error that begins with its place.
var placed = regexp.MustCompile(`(?s)^(.+?):(\d+)(?::(\d+))?: (.*)$`)

// unreadFinding finds the place of an error about an input, in a file that is there.
func unreadFinding(err error) *finding {
	f := &finding{rule: findingUnread, message: err.Error()}
	m := placed.FindStringSubmatch(f.message)
	if m == nil {
		return f
	}
	if _, missing := os.Stat(m[1]); missing != nil {
		return f
	}
	f.at.File, f.message = m[1], m[4]
	f.at.Line, _ = strconv.Atoi(m[2])
	f.at.Col, _ = strconv.Atoi(m[3]) // 0 without one
	return f
}

// The elements of JUnit's XML that readers of reports agree on.
type junitSuites struct {
	XMLName  xml.Name     `xml:"testsuites"`
	Tests    int          `xml:"tests,attr"`
	Failures int          `xml:"failures,attr"`
	Suites   []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name     string      `xml:"name,attr"`
	File     string      `xml:"file,attr,omitempty"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Class   string        `xml:"classname,attr"`
	Name    string        `xml:"name,attr"`
	Failure *junitFailure `xml:"failure,omitempty"`
	Out     string        `xml:"system-out,omitempty"`
}

type junitFailure struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// junit prints a test case for each check, and for what could not be read. Warnings are its output.
func (r *report) junit(p *page) {
	var all junitSuites
	for _, c := range r.all() {
		file := ""
		if onDisk(c.file) {
			file = relative(c.file)
		}
		if last := len(all.Suites) - 1; last < 0 || all.Suites[last].Name != c.suite || all.Suites[last].File != file {
			all.Suites = append(all.Suites, junitSuite{Name: c.suite, File: file})
		}
		suite := &all.Suites[len(all.Suites)-1]
		testCase := junitCase{Class: c.suite, Name: c.name}
		var faults, warnings []string
		for _, f := range c.findings {
			if text := fmt.Sprintf("%s%s (%s)\n", f.place(), f.String(), f.rule); f.warning {
				warnings = append(warnings, text)
			} else {
				faults = append(faults, text)
			}
		}
		testCase.Out = strings.Join(warnings, "")
		if len(faults) > 0 {
			testCase.Failure = &junitFailure{Message: simulate.Counted(len(faults), "fault"), Text: strings.Join(faults, "")}
			suite.Failures++
			all.Failures++
		}
		suite.Cases = append(suite.Cases, testCase)
		suite.Tests++
		all.Tests++
	}
	data, err := xml.MarshalIndent(all, "", "  ")
	p.fail(err)
	p.printf("%s%s\n", xml.Header, data)
}
