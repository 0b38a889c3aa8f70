package harness

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"
)

// Program is a component that can be started to be measured.
type Program struct {
	Name string // for people
	Ours bool   // it is celvpa's
	Path string
	Args []string // before the flags
}

// Programs compiles a component of celvpa, of upstream, or of both, by a list such as "upstream,celvpa", into bin/. A component
// has the name of celvpa's command, which is that of upstream's package, too. Upstream's is kept from the last time.
func Programs(ctx context.Context, names, component string) (out []Program, err error) {
	for name := range strings.SplitSeq(names, ",") {
		p := Program{Name: name}
		switch name {
		case "celvpa":
			p.Ours, p.Args = true, []string{component}
			p.Path, err = Build(ctx)
		case "upstream":
			p.Name = "upstream " + UpstreamRelease
			p.Path, err = buildUpstream(ctx, component, os.Stderr)
		default:
			err = fmt.Errorf("-programs: no program %q; known: upstream, celvpa", name)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

// Say tells on stderr how far a measurement is.
func Say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s  %s\n", time.Now().Format("15:04:05"), fmt.Sprintf(format, args...))
}
