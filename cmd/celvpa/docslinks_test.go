package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const repository = "../.."

// pages are the Markdown files that users and contributors read, relative to the repository.
func pages(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(repository + "/*.md")
	require.NoError(t, err)
	require.NoError(t, filepath.WalkDir(repository+"/docs", func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".md") {
			found = append(found, path)
		}
		return err
	}))
	return found
}

// TestLinksOfTheDocsLeadSomewhere follows each relative link: the file exists, and so does the heading.
func TestLinksOfTheDocsLeadSomewhere(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s]*)\)`)
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			file, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(file, "://") {
				continue
			}
			target := page
			if file != "" {
				target = filepath.Join(filepath.Dir(page), file)
			}
			require.FileExists(t, dirsToo(target), "%s links to %s", page, m[1])
			if anchor != "" {
				require.Contains(t, anchors(t, target), anchor, "%s links to %s", page, m[1])
			}
		}
	}
}

// dirsToo lets a link lead to a folder: any file in it stands for it.
func dirsToo(path string) string {
	if found, _ := filepath.Glob(path + "/*.*"); len(found) > 0 {
		return found[0]
	}
	return path
}

// anchors lists the headings of a page as GitHub names them in links.
func anchors(t *testing.T, page string) []string {
	t.Helper()
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	var out []string
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(string(text), -1) {
		name := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(m[1]), "")
		out = append(out, strings.ReplaceAll(name, " ", "-"))
	}
	return out
}

// TestTheIndexOfTheDocsNamesEachPage: a page that nobody can find may as well not be there.
func TestTheIndexOfTheDocsNamesEachPage(t *testing.T) {
	index, err := os.ReadFile(repository + "/docs/README.md")
	require.NoError(t, err)
	for _, page := range pages(t) {
		name, inDocs := strings.CutPrefix(page, repository+"/docs/")
		if inDocs && filepath.Base(name) != "README.md" && !strings.HasPrefix(name, "design/") {
			require.Contains(t, string(index), "]("+name, "docs/README.md")
		}
	}
}

// TestTheDocsNameTestsThatExist checks the tests that security.md and other pages rely on.
func TestTheDocsNameTestsThatExist(t *testing.T) {
	declared := map[string]bool{}
	require.NoError(t, filepath.WalkDir(repository, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w+)\(`).FindAllStringSubmatch(string(text), -1) {
			declared[m[1]] = true
		}
		return err
	}))
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, m := range regexp.MustCompile("`((?:Test|Fuzz|Benchmark)[A-Z]\\w*)`").FindAllStringSubmatch(string(text), -1) {
			require.True(t, declared[m[1]], "%s names %s", page, m[1])
		}
	}
}

// TestEachFaultOfTheDocsHasAPromiseAndATest checks the table of reliability.md.
func TestEachFaultOfTheDocsHasAPromiseAndATest(t *testing.T) {
	page, err := os.ReadFile(repository + "/docs/reliability.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(page), "| fault | what users see | what is promised | test |\n|---|---|---|---|\n")
	require.True(t, found)
	table, _, _ = strings.Cut(table, "\n\n")
	rows := strings.Split(strings.TrimSpace(table), "\n")
	require.Greater(t, len(rows), 5)
	for _, row := range rows {
		cells := strings.Split(strings.Trim(row, "|"), " | ")
		require.Len(t, cells, 4, row)
		for _, cell := range cells {
			require.NotEmpty(t, strings.TrimSpace(cell), row)
		}
		require.Regexp(t, "`Test[A-Z]\\w+`", cells[3], row)
	}
}

// TestTheReadmeHasTheFiguresOfTheDocs: it repeats what admission.md says was measured.
func TestTheReadmeHasTheFiguresOfTheDocs(t *testing.T) {
	readme, err := os.ReadFile(repository + "/README.md")
	require.NoError(t, err)
	page, err := os.ReadFile(repository + "/docs/admission.md")
	require.NoError(t, err)
	reviews := regexp.MustCompile(`\| reviews a second \| (\d+) \| (\d+) \|`).FindSubmatch(page)
	memory := regexp.MustCompile(`\| memory under that load \| (\d+ MiB) \| (\d+ MiB) \|`).FindSubmatch(page)
	require.NotNil(t, reviews)
	require.NotNil(t, memory)
	require.Contains(t, string(readme), fmt.Sprintf("| %s with %s | %s with %s |", reviews[1], memory[1], reviews[2], memory[2]))
}
