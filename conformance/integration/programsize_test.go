package integration

import (
	"debug/elf"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// A template calls methods by name, so once a template can be executed the linker keeps all of
// them: a single call of cobra's SetVersionTemplate made the program 18 MB larger, most of it in
// the memory of each component.
func TestTheProgramExecutesNoTemplates(t *testing.T) {
	file, err := elf.Open(program)
	require.NoError(t, err)
	defer file.Close()
	symbols, err := file.Symbols()
	require.NoError(t, err)
	has := func(name string) bool {
		return slices.ContainsFunc(symbols, func(s elf.Symbol) bool { return s.Name == name })
	}
	require.True(t, has("main.main"), "symbols cannot be read")
	require.False(t, has("text/template.(*Template).Execute"),
		"find the caller with `go build -ldflags=-dumpdep ./cmd/celvpa 2>&1 | grep -- '-> text/template'`")
}
