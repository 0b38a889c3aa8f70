package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
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

// TestTheSectionsOfUpstreamThatAreCitedExist looks up what Go, YAML and Markdown cite of UPSTREAM.md: §2.4, Appendix B 10.
func TestTheSectionsOfUpstreamThatAreCitedExist(t *testing.T) {
	const reference = repository + "/docs/design/UPSTREAM.md"
	text, err := os.ReadFile(reference)
	require.NoError(t, err)
	heading := regexp.MustCompile(`^#+ (?:(Appendix [A-Z])|(\d+(?:\.\d+)?)\.?) `)
	item := regexp.MustCompile(`^(?:\| (\d+) \||(\d+)\. )`) // of an appendix
	sections, appendix := map[string]bool{}, ""
	for line := range strings.Lines(string(text)) {
		if m := heading.FindStringSubmatch(line); m != nil {
			appendix = m[1]
			sections[m[1]+m[2]] = true
		} else if m := item.FindStringSubmatch(line); m != nil && appendix != "" {
			sections[appendix+" "+m[1]+m[2]] = true
		}
	}
	const section = `(?:§(\d+(?:\.\d+)?)|(Appendix [A-Z](?: \d+)?))`
	one, list := regexp.MustCompile(section), regexp.MustCompile(`UPSTREAM\.md(?:(?:,| and| to)? `+section+`)+`)
	lineBreak := regexp.MustCompile(`\s*\n\s*(?://|#)?\s*`)
	cited := 0
	for _, file := range citing(t) {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, citation := range list.FindAllString(lineBreak.ReplaceAllString(string(text), " "), -1) {
			for _, m := range one.FindAllStringSubmatch(citation, -1) {
				cited++
				require.True(t, sections[m[1]+m[2]], "%s cites UPSTREAM.md %s, which %s does not have", file, m[0], reference)
			}
		}
	}
	require.Greater(t, cited, 150, "are citations still found?")
}

// citing lists the files that cite UPSTREAM.md: Go, YAML and Markdown, but for what builds leave behind.
func citing(t *testing.T) (out []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(repository, func(path string, entry fs.DirEntry, err error) error {
		switch name := entry.Name(); {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains([]string{".git", "bin", "dist"}, name):
			return fs.SkipDir
		case slices.Contains([]string{".go", ".yaml", ".md"}, filepath.Ext(name)):
			out = append(out, path)
		}
		return nil
	}))
	return out
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
