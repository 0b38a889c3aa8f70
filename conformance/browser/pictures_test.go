package browser

import (
	"cmp"
	"flag"
	"image"
	"image/color"
	"image/png"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

var pictures = flag.String("pictures", "", "folder to keep the pictures of the documentation in; make pictures")

const (
	pictureWidth  = 1000
	heaviest      = 150 << 10 // bytes of a picture
	paletteColors = 256
)

// TestPictures takes the pictures of the documentation: the tops of the pages of two examples, in light.
func TestPictures(t *testing.T) {
	folder := cmp.Or(*pictures, t.TempDir())
	for name, of := range map[string]struct {
		args   string
		height int64
	}{
		"explain":  {"explain -f examples/backtest --usage examples/backtest/usage.csv.gz vpa/web", 1366},
		"backtest": {"backtest -f examples/backtest/workloads.yaml --history examples/backtest/usage.csv.gz", 1540},
	} {
		program := exec.Command("go", append([]string{"run", "./cmd/celvpa"}, append(strings.Fields(of.args), "-o", "html")...)...)
		program.Dir = "../.."
		page, err := program.Output()
		require.NoError(t, err)
		b := openPage(t, func(out io.Writer) error { _, err := out.Write(page); return err }, pictureWidth, chromedp.EmulateViewport(pictureWidth, of.height))
		ask[bool](b, "new Promise(painted => requestAnimationFrame(() => requestAnimationFrame(() => painted(true))))")
		shot, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
		require.NoError(t, err)
		file := filepath.Join(folder, name+".png")
		writePicture(t, file, string(shot))
		info, err := os.Stat(file)
		require.NoError(t, err)
		require.Less(t, info.Size(), int64(heaviest))
	}
}

// writePicture writes a picture with its most frequent colours only: a third of the bytes, and no difference to see.
func writePicture(t *testing.T, file, shot string) {
	from, err := png.Decode(strings.NewReader(shot))
	require.NoError(t, err)
	counts := map[color.Color]int{}
	bounds := from.Bounds()
	for y := range bounds.Dy() {
		for x := range bounds.Dx() {
			counts[from.At(x, y)]++
		}
	}
	colors := slices.SortedFunc(maps.Keys(counts), func(a, b color.Color) int {
		hex := func(c color.Color) (out []uint32) { r, g, b, _ := c.RGBA(); return []uint32{r, g, b} }
		return cmp.Or(counts[b]-counts[a], slices.Compare(hex(a), hex(b)))
	})
	to := image.NewPaletted(bounds, colors[:min(len(colors), paletteColors)])
	for y := range bounds.Dy() {
		for x := range bounds.Dx() {
			to.Set(x, y, from.At(x, y))
		}
	}
	out, err := os.Create(file)
	require.NoError(t, err)
	require.NoError(t, (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(out, to))
	require.NoError(t, out.Close())
}
