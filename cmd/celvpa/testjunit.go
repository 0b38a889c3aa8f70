package main

import (
	"encoding/xml"
	"fmt"
	"os"
	"strings"
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
	File     string      `xml:"file,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Class   string        `xml:"classname,attr"`
	Name    string        `xml:"name,attr"`
	Failure *junitFailure `xml:"failure,omitempty"`
}

type junitFailure struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

func (r *testReport) writeJUnit(path string) error {
	all := junitSuites{Tests: r.Rows, Failures: r.Failed}
	for _, t := range r.Tables {
		suite := junitSuite{Name: t.Table, File: t.File, Tests: len(t.Rows), Failures: t.failed}
		for _, row := range t.Rows {
			one := junitCase{Class: t.Table, Name: row.Row}
			if !row.Passed {
				var text strings.Builder
				p := newPage(&text)
				row.print(p, "")
				if err := p.Flush(); err != nil {
					return fmt.Errorf("writing the JUnit report: %w", err)
				}
				one.Failure = &junitFailure{Message: "failed at " + row.At, Text: text.String()}
			}
			suite.Cases = append(suite.Cases, one)
		}
		all.Suites = append(all.Suites, suite)
	}
	data, err := xml.MarshalIndent(all, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the JUnit report: %w", err)
	}
	if err := os.WriteFile(path, []byte(xml.Header+string(data)+"\n"), 0o644); err != nil {
		return fmt.Errorf("writing the JUnit report: %w", err)
	}
	return nil
}
