package main

import (
	"encoding/xml"
	"fmt"
	"strings"

	"github.com/celvpa/celvpa/simulate"
)

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
		one := junitCase{Class: c.suite, Name: c.name}
		var faults, warnings []string
		for _, f := range c.findings {
			if text := fmt.Sprintf("%s%s (%s)\n", f.place(), f.String(), f.rule); f.warning {
				warnings = append(warnings, text)
			} else {
				faults = append(faults, text)
			}
		}
		one.Out = strings.Join(warnings, "")
		if len(faults) > 0 {
			one.Failure = &junitFailure{Message: simulate.Counted(len(faults), "fault"), Text: strings.Join(faults, "")}
			suite.Failures++
			all.Failures++
		}
		suite.Cases = append(suite.Cases, one)
		suite.Tests++
		all.Tests++
	}
	data, err := xml.MarshalIndent(all, "", "  ")
	p.fail(err)
	p.printf("%s%s\n", xml.Header, data)
}
