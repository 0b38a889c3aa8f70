// Package sarif checks the SARIF that celvpa prints against the schema of OASIS. It is a module of
// its own because the schema comes with a library that the product does not need.
package sarif

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	_ "github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif" // its source holds the schema
	"github.com/stretchr/testify/require"
	"github.com/xeipuuv/gojsonschema"
)

// schema is a constant that the library does not export. Its Validate checks a copy with fields that the log does not have.
func schema(t *testing.T) *gojsonschema.Schema {
	t.Helper()
	dir, err := exec.Command("go", "list", "-f", "{{.Dir}}", "github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif").Output()
	require.NoError(t, err)
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(strings.TrimSpace(string(dir)), "schema.go"), nil, 0)
	require.NoError(t, err)
	text := ""
	ast.Inspect(file, func(n ast.Node) bool {
		if literal, ok := n.(*ast.BasicLit); ok && text == "" {
			text, _ = strconv.Unquote(literal.Value)
		}
		return true
	})
	out, err := gojsonschema.NewSchema(gojsonschema.NewStringLoader(text))
	require.NoError(t, err)
	return out
}

func TestReportsFitTheSchemaOfSARIF(t *testing.T) {
	schema, program := schema(t), filepath.Join(t.TempDir(), "celvpa")
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	build := exec.Command("go", "build", "-o", program, "./cmd/celvpa")
	build.Dir = root
	said, err := build.CombinedOutput()
	require.NoError(t, err, "%s", said)
	for command, results := range map[string]int{
		"validate -f cmd/celvpa/testdata/validate/mistakes.yaml": 7,
		"validate -f missing.yaml":                               0,
		"rules lint cmd/celvpa/testdata/validate/mistakes.yaml":  1,
		"test --run ^vpa-gates/ --coverage":                      1,
		"test --run ^vpa-gates/":                                 0,
	} {
		t.Run(command, func(t *testing.T) {
			run := exec.Command(program, append(strings.Fields(command), "-o", "sarif")...)
			run.Dir = root
			text, _ := run.Output() // the exit code says that there are findings
			result, err := schema.Validate(gojsonschema.NewBytesLoader(text))
			require.NoError(t, err)
			require.Empty(t, result.Errors())
			var log struct{ Runs []struct{ Results []any } }
			require.NoError(t, json.Unmarshal(text, &log))
			require.GreaterOrEqual(t, len(log.Runs[0].Results), results)
		})
	}
	result, err := schema.Validate(gojsonschema.NewStringLoader(`{"version": "2.1.0", "runs": [{"tool": {"driver": {"name": "a"}}, "results": [{"level": "bogus", "message": {"text": "a"}}]}]}`))
	require.NoError(t, err)
	require.Len(t, result.Errors(), 1, "the schema is the right one")
}
