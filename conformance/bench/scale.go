package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/celvpa/celvpa/conformance/bench/crowd"
	"github.com/celvpa/celvpa/conformance/bench/standin"
	"github.com/celvpa/celvpa/conformance/harness"
)

const aboutScale = "recommender and updater in clusters up to Kubernetes' limits, beside a stand-in of the API server (40 minutes)"

// scaling measures celvpa's components as they are, in processes of their own, at several sizes of a
// cluster that package standin serves. Time in the cluster runs as fast as the recommender asks for
// usage: each answer is a minute later than the one before. The last of them is about now, because
// no recommender accepts samples of the future.
type scaling struct {
	sizes   list
	only    list // components
	minutes int
	minute  time.Duration // real; 0 = by size
	qps     float64       // 0 = by size
	cycles  int           // of the updater
	check   bool
	profile bool
	doc     string
	note    string
	folder  string
	program program
}

func runScale(ctx context.Context, args []string) error {
	s := &scaling{sizes: list{"50000"}, only: list{"recommender", "updater"}}
	flags := flag.NewFlagSet("bench scale", flag.ContinueOnError)
	flags.Var(&s.sizes, "vpas", "VerticalPodAutoscalers, each with a Deployment of three pods of two containers; several sizes are measured one after the other")
	flags.Var(&s.only, "components", "what to measure: recommender, updater, and cold, the recommender's first statuses in a new cluster with default flags")
	flags.IntVar(&s.minutes, "minutes", 60, "minutes that pass in the cluster")
	flags.DurationVar(&s.minute, "minute", 0, "time that one of them takes at least; 0 = 1s, and 20s more for each 50000 VPAs")
	flags.Float64Var(&s.qps, "kube-api-qps", 0, "requests a second of the cluster's time; 0 = 50, and from 5000 VPAs on one for each 100")
	flags.IntVar(&s.cycles, "cycles", 10, "cycles of the updater")
	flags.BoolVar(&s.check, "check", false, "exit with 1 if a target is missed")
	flags.BoolVar(&s.profile, "profile", false, "save CPU and heap profiles in bin/bench-scale")
	flags.StringVar(&s.doc, "doc", "", "page whose tables are replaced by what was measured, such as docs/sizing.md")
	flags.StringVar(&s.note, "note", "", "what the tables of the page are to say of the machine")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("bench scale takes flags only, not %q", flags.Arg(0))
	}
	if s.minutes < 4 {
		return fmt.Errorf("-minutes is %d; growth shows in 4 or more", s.minutes)
	}
	if err := oneOf("-components", s.only, []string{"recommender", "updater", "cold"}); err != nil {
		return err
	}
	return s.run(ctx)
}

func (s *scaling) run(ctx context.Context) error {
	targets, err := loadTargets()
	if err != nil {
		return err
	}
	root, err := harness.Root()
	if err != nil {
		return err
	}
	s.folder = filepath.Join(root, "bin", "bench-scale")
	programs, err := build(ctx, []string{celvpa}, "recommender")
	if err != nil {
		return err
	}
	s.program = programs[0]
	var page sizes
	missed := 0
	for _, text := range s.sizes {
		count, err := strconv.Atoi(text)
		if err != nil || count < 1 {
			return fmt.Errorf("-vpas: %q is no number of VPAs", text)
		}
		measured := size{vpas: count}
		for _, one := range []struct {
			name    string
			measure func(context.Context, int) ([]value, error)
			into    *[]value
		}{{"recommender", s.recommender, &measured.recommender}, {"updater", s.updater, &measured.updater}, {"cold", s.cold, new([]value)}} {
			if !slices.Contains(s.only, one.name) {
				continue
			}
			values, err := one.measure(ctx, count)
			if err != nil {
				return fmt.Errorf("%s, %d VPAs: %w", one.name, count, err)
			}
			*one.into = values
			title := fmt.Sprintf("scale/%s: %d VPAs, %d pods, %d containers, of which 1%% change in a minute", one.name, count, count*crowd.PodsOfWorkload, count*crowd.PodsOfWorkload*crowd.ContainersOfPod)
			t := newTable(title, programs, [][][]value{{values}})
			if err := t.judge(targets["scale/"+one.name]); err != nil {
				return fmt.Errorf("targets.yaml: scale/%s: %w", one.name, err)
			}
			if err := t.write(os.Stdout); err != nil {
				return err
			}
			missed += t.missed()
		}
		page = append(page, measured)
	}
	if slices.Contains(s.only, "recommender") && slices.Contains(s.only, "updater") {
		fmt.Print("\n" + page.markdown(s.note))
	}
	if s.doc != "" {
		if err := page.replaceIn(filepath.Join(root, s.doc), s.note); err != nil {
			return err
		}
	}
	if missed > 0 && s.check {
		return fmt.Errorf("%d targets missed", missed)
	}
	return nil
}

// pace is how long a minute of the cluster takes, and how many requests a component may send in each
// real second of it.
func (s *scaling) pace(vpas int) (minute time.Duration, qps float64) {
	minute, qps = s.minute, s.qps
	if minute == 0 {
		minute = time.Second + time.Duration(vpas)*20*time.Second/50_000
	}
	if qps == 0 {
		qps = max(50, float64(vpas)/100)
	}
	return minute, qps * time.Minute.Seconds() / minute.Seconds()
}

// serve serves a cluster until the context ends, and returns what starts components that use it.
func (s *scaling) serve(ctx context.Context, handler http.Handler) (*lab, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("serving the cluster: %w", err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := os.MkdirAll(s.folder, 0o755); err != nil {
		return nil, err
	}
	l := &lab{kubeconfig: filepath.Join(s.folder, "kubeconfig"), folder: s.folder, options: options{profile: true}}
	return l, os.WriteFile(l.kubeconfig, fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters: [{name: standin, cluster: {server: "http://%s"}}]
contexts: [{name: standin, context: {cluster: standin}}]
current-context: standin
`, listener.Addr()), 0o600)
}

// component starts one of celvpa's components, which may send so many requests a second; 0 = as many as
// by default.
func (s *scaling) component(l *lab, name string, qps float64, flags ...string) (*process, error) {
	p := s.program
	p.args = []string{name}
	if qps > 0 {
		flags = append(flags, fmt.Sprintf("--kube-api-qps=%g", qps), fmt.Sprintf("--kube-api-burst=%.0f", 2*qps))
	}
	return l.start(p, name, nil, flags)
}

var heapAlloc = regexp.MustCompile(`(?m)^# HeapAlloc = (\d+)$`)

// liveHeap is what is left after a garbage collection, in bytes.
func (p *process) liveHeap(ctx context.Context) (float64, error) {
	text, err := get(ctx, http.DefaultClient, "http://"+p.address+"/debug/pprof/heap?gc=1&debug=1")
	if err != nil {
		return 0, fmt.Errorf("reading the heap profile: %w", err)
	}
	found := heapAlloc.FindSubmatch(text)
	if found == nil {
		return 0, errors.New("the heap profile does not say how much is allocated")
	}
	return strconv.ParseFloat(string(found[1]), 64)
}

// cpuProfile saves what a process does in the next seconds, with -profile. It does not wait.
func (s *scaling) cpuProfile(ctx context.Context, p *process, name string, span time.Duration) {
	if !s.profile {
		return
	}
	go func() {
		text, err := get(ctx, http.DefaultClient, fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%.0f", p.address, span.Seconds()))
		if err == nil {
			err = os.WriteFile(filepath.Join(s.folder, name+".cpu"), text, 0o644)
		}
		if err != nil {
			progress("no CPU profile: %v", err)
		}
	}()
}

// heapProfile saves what a process has in memory, with -profile.
func (s *scaling) heapProfile(ctx context.Context, p *process, name string) error {
	if !s.profile {
		return nil
	}
	text, err := get(ctx, http.DefaultClient, "http://"+p.address+"/debug/pprof/heap?gc=1")
	if err != nil {
		return fmt.Errorf("reading the heap profile: %w", err)
	}
	return os.WriteFile(filepath.Join(s.folder, name+".heap"), text, 0o644)
}

// seconds that a step took in the mean of some cycles.
func meanSteps(from, to cycleEnd) map[string]float64 {
	out := map[string]float64{}
	for step := range to.steps {
		out[step] = to.mean(from, step)
	}
	return out
}

// server is a stand-in for the API server of a crowd.
func serverOf(c *crowd.Crowd) *standin.Server {
	return &standin.Server{Store: c.Store, Checkpoints: c.Checkpoints}
}
