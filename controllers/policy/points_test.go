package policy

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/rules"
)

// loadAndTest loads rules as a Source does.
func loadAndTest(o Options) (*compile.Rulebook, error) {
	layer, _, err := own(o.Path)
	if err != nil {
		return nil, err
	}
	return loadTested(o, layer)
}

func TestAProcessRefusesFaultsInThePointsThatItRuns(t *testing.T) {
	estimates := []string{facts.ContainerSelect, facts.ContainerEstimate, facts.ContainerRecommend}
	validates := []string{facts.VPAValidate, facts.VPADefault}
	for name, tt := range map[string]struct {
		file, from, to string
		points         []string // of a process that refuses it
		others         []string // of one that does not
		want           string
	}{
		"a validation": {"vpa-bounds.yaml", "isQuantity(", "isQantity(", validates, estimates, "undeclared reference to 'isQantity'"},
		"an estimate":  {"estimate.yaml", "params.marginFraction", "params.marginFaction", estimates, validates, "undefined field 'marginFaction'"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.CopyFS(dir, rules.FS))
			edit(t, filepath.Join(dir, tt.file), tt.from, tt.to)
			for _, points := range [][]string{tt.points, nil} {
				_, err := loadAndTest(Options{Path: dir, Points: points})
				require.ErrorContains(t, err, tt.want)
			}
			book, err := loadAndTest(Options{Path: dir, Points: tt.others})
			require.NoError(t, err)
			require.NotNil(t, book.Default())
		})
	}
}

func TestAProcessRunsTheTablesOfThePointsThatItRuns(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, rules.FS))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "margin.yaml"), []byte(ownTable), 0o600))
	edit(t, filepath.Join(dir, "estimate.yaml"), "default: 0.15", "default: 0.25")
	_, err := loadAndTest(Options{Path: dir, Points: []string{facts.ContainerEstimate}})
	require.ErrorContains(t, err, "want 1150m, got 1250m")
	_, err = loadAndTest(Options{Path: dir, Points: []string{facts.VPAValidate}})
	require.NoError(t, err)

	edit(t, filepath.Join(dir, "margin.yaml"), "point: container.estimate", "point: container.estimat")
	_, err = loadAndTest(Options{Path: dir, Points: []string{facts.VPADefault}})
	require.ErrorContains(t, err, `no point "container.estimat"`, "every process reports a point that does not exist")
}
