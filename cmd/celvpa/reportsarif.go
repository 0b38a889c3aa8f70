package main

import (
	"net/url"
	"path"

	"github.com/celvpa/celvpa/simulate/manifests"
)

// The objects of SARIF 2.1.0 (OASIS) that are used here, with its names.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool struct {
			Driver sarifDriver `json:"driver"`
		} `json:"tool"`
		Invocations []sarifInvocation `json:"invocations"`
		ColumnKind  string            `json:"columnKind"`
		Results     []sarifResult     `json:"results"`
	}
	sarifDriver struct {
		Name           string      `json:"name"`
		Version        string      `json:"version"`
		InformationURI string      `json:"informationUri"`
		Rules          []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID               string    `json:"id"`
		ShortDescription sarifText `json:"shortDescription"`
	}
	sarifInvocation struct {
		Successful bool `json:"executionSuccessful"`
	}
	sarifResult struct {
		RuleID    string          `json:"ruleId"`
		RuleIndex int             `json:"ruleIndex"`
		Level     string          `json:"level"`
		Message   sarifText       `json:"message"`
		Locations []sarifLocation `json:"locations"`
	}
	sarifText struct {
		Text string `json:"text"`
	}
	sarifLocation struct {
		Physical *sarifPhysical `json:"physicalLocation,omitempty"`
		Logical  []sarifLogical `json:"logicalLocations,omitempty"`
	}
	sarifPhysical struct {
		Artifact sarifArtifact `json:"artifactLocation"`
		Region   *sarifRegion  `json:"region,omitempty"`
	}
	sarifArtifact struct {
		URI string `json:"uri"`
	}
	sarifRegion struct {
		StartLine   int `json:"startLine"`
		StartColumn int `json:"startColumn,omitempty"`
	}
	sarifLogical struct {
		Name string `json:"fullyQualifiedName"`
	}
)

// The findings that no rule makes.
const (
	findingLint     = "rules-lint"
	findingRow      = "test-row"
	findingCoverage = "test-coverage"
	findingSchema   = "schema"
)

var findingTexts = map[string]string{
	findingLint:     "A rule file has an error or a likely mistake.",
	findingRow:      "A row of a test table fails.",
	findingCoverage: "No row of a test table reaches an outcome.",
	findingSchema:   "The object does not fit the schema of the CRD.",
	findingUnread:   "An input cannot be read, or is no manifest.",
}

// sarif prints a log of one run. Paths are relative to the folder that the program runs in, in CI the root of the repository.
func (r *report) sarif(p *page) {
	run := sarifRun{ColumnKind: "unicodeCodePoints", Results: []sarifResult{}, Invocations: []sarifInvocation{{Successful: len(r.unread) == 0}}}
	run.Tool.Driver = sarifDriver{Name: "celvpa", Version: newBuildInfo().Version, InformationURI: "https://github.com/celvpa/celvpa", Rules: []sarifRule{}}
	index := map[string]int{}
	for _, c := range r.all() {
		for _, f := range c.findings {
			at, known := index[f.rule]
			if !known {
				text := findingTexts[f.rule]
				if text == "" {
					text = "Check " + f.rule + " of the rules refuses the object, or warns."
				}
				at = len(run.Tool.Driver.Rules)
				index[f.rule] = at
				run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, sarifRule{ID: f.rule, ShortDescription: sarifText{text}})
			}
			level := "error"
			if f.warning {
				level = "warning"
			}
			run.Results = append(run.Results, sarifResult{RuleID: f.rule, RuleIndex: at, Level: level, Message: sarifText{f.String()}, Locations: []sarifLocation{f.sarifLocation()}})
		}
	}
	text, err := asJSON(sarifLog{Schema: "https://json.schemastore.org/sarif-2.1.0.json", Version: "2.1.0", Runs: []sarifRun{run}}, "  ")
	p.fail(err)
	p.printf("%s", text)
}

func (f *finding) sarifLocation() (out sarifLocation) {
	if f.about != "" {
		out.Logical = []sarifLogical{{f.about}}
	}
	if !onDisk(f.at.File) {
		return out
	}
	file := relative(f.at.File)
	uri := url.URL{Path: file}
	if path.IsAbs(file) {
		uri.Scheme = "file"
	}
	out.Physical = &sarifPhysical{Artifact: sarifArtifact{uri.String()}}
	if f.at.Line > 0 {
		out.Physical.Region = &sarifRegion{StartLine: f.at.Line, StartColumn: f.at.Col}
	}
	return out
}

// onDisk reports whether a place is in a file, and not in standard input, a cluster or unknown.
func onDisk(file string) bool {
	return file != "" && file != manifests.StdinName && file != manifests.ClusterName
}
