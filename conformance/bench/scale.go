package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
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
	sizes      list
	components list
	minutes    int
	check      bool
	doc        string
	note       string
	pipeline   string
	folder     string
	program    program
}

func runScale(ctx context.Context, args []string) error {
	s := &scaling{sizes: list{"50000"}, components: list{"recommender", "updater"}}
	flags := flag.NewFlagSet("bench scale", flag.ContinueOnError)
	flags.Var(&s.sizes, "vpas", "VerticalPodAutoscalers, each with a Deployment of three pods of two containers; several sizes are measured one after the other")
	flags.Var(&s.components, "components", "what to measure: recommender, updater")
	flags.IntVar(&s.minutes, "minutes", 60, "minutes that pass in the cluster")
	flags.StringVar(&s.pipeline, "pipeline", "", aboutPipeline)
	flags.BoolVar(&s.check, "check", false, "exit with 1 if a target is missed")
	flags.StringVar(&s.doc, "doc", "", "page whose tables are replaced by what was measured, such as docs/sizing.md")
	flags.StringVar(&s.note, "note", "", "what the tables of the page are to say of the machine")
	if err := parseFlags(flags, args, "-components", &s.components, "recommender", "updater"); err != nil {
		return err
	}
	if s.minutes < 2 {
		return fmt.Errorf("-minutes is %d; it must be at least 2", s.minutes)
	}
	return s.run(ctx)
}

func (s *scaling) run(ctx context.Context) error {
	root, err := harness.Root()
	if err != nil {
		return err
	}
	s.folder = filepath.Join(root, "bin", "bench-scale")
	programs, err := build(ctx, []string{celvpa}, "recommender", s.pipeline)
	if err != nil {
		return err
	}
	s.program = programs[0]
	var page sizes
	var report report
	for _, text := range s.sizes {
		vpas, err := strconv.Atoi(text)
		if err != nil || vpas < 1 {
			return fmt.Errorf("-vpas: %q is not a number of VPAs", text)
		}
		measured := size{vpas: vpas}
		for _, component := range s.components {
			values, err := s.measure(ctx, component, vpas)
			if err != nil {
				return fmt.Errorf("%s, %d VPAs: %w", component, vpas, err)
			}
			if component == "updater" {
				measured.updater = values
			} else {
				measured.recommender = values
			}
			title := fmt.Sprintf("scale/%s: %d VPAs, %d pods, %d containers, of which 1%% change in a minute",
				component, vpas, vpas*crowd.PodsOfWorkload, vpas*crowd.PodsOfWorkload*crowd.ContainersOfPod)
			t := newTable(title, programs, [][][]value{{values}})
			if err := report.add(t, fmt.Sprintf("scale/%s/%d", component, vpas)); err != nil {
				return err
			}
		}
		page = append(page, measured)
	}
	if len(s.components) == 2 {
		fmt.Print("\n" + page.markdown(s.note))
	}
	if s.doc != "" {
		if err := page.replaceIn(filepath.Join(root, s.doc), s.note); err != nil {
			return err
		}
	}
	return report.result(s.check)
}

// pace is how long a minute of the cluster takes, and how many requests a component may send in a second
// of the cluster's time.
func pace(vpas int) (minute time.Duration, qps float64) {
	return time.Second + time.Duration(vpas)*20*time.Second/50_000, max(50, float64(vpas)/100)
}

func (s *scaling) measure(ctx context.Context, component string, vpas int) ([]value, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	progress("making a cluster with %d VPAs", vpas)
	if component == "updater" {
		return s.updater(ctx, vpas)
	}
	return s.recommender(ctx, vpas)
}

// recommender measures one that starts from checkpoints of upstream's, and runs through all minutes.
func (s *scaling) recommender(ctx context.Context, vpas int) ([]value, error) {
	made, err := crowd.Make(vpas, time.Now().Add(-time.Duration(s.minutes)*time.Minute), true)
	if err != nil {
		return nil, err
	}
	c := &clockwork{Crowd: made}
	c.prepare()
	minute, _ := pace(vpas)
	running, err := s.start(ctx, "recommender", &standin.Server{Store: made.Store, Checkpoints: made.Checkpoints, Usage: c.usage}, vpas,
		fmt.Sprintf("--recommender-interval=%s", minute), fmt.Sprintf("--unused-history-grace=%s", 10*minute))
	if err != nil {
		return nil, err
	}
	defer running.end()
	ends, seen, err := running.watchCycles(ctx, recommenderCycles, time.Second, s.minutes-1, nil)
	if err != nil {
		return nil, err
	}
	return scaleRecommenderValues(vpas, s.minutes, ends, seen), nil
}

// clockwork lets a minute pass in a crowd whenever usage is asked for. The answer to the next
// question is made meanwhile.
type clockwork struct {
	*crowd.Crowd
	mu   sync.Mutex
	next []byte
}

func (c *clockwork) prepare() {
	body, err := c.Usage()
	if err != nil {
		progress("%v", err)
	}
	c.next = body
}

// usage returns the usage of a minute, and lets it pass.
func (c *clockwork) usage() []byte {
	c.mu.Lock()
	body := c.next
	go func() {
		defer c.mu.Unlock()
		c.Minute()
		c.prepare()
	}()
	return body
}

// scaleRecommenderValues are of all cycles but the first.
func scaleRecommenderValues(vpas, minutes int, ends []cycleEnd, seen samples) []value {
	first, last := ends[1], ends[len(ends)-1]
	own := func(from, to cycleEnd) float64 { // without what takes the API server's time, and waits for the limit of requests
		return to.mean(from, "total") - to.mean(from, "WriteStatuses") - to.mean(from, "MaintainCheckpoints")
	}
	longest := 0.0
	for i := 2; i < len(ends); i++ {
		longest = max(longest, own(ends[i-1], ends[i]))
	}
	out := []value{
		{"VPAs", count, float64(vpas)},
		{"minutes", count, float64(minutes)},
		{"cycle without writes, mean", seconds, own(first, last)},
		{"cycle without writes, longest", seconds, longest},
		{"cycle, mean", seconds, last.mean(first, "total")},
	}
	return append(append(out, stepValues(first, last)...), usedValues(first, last, seen)...)
}

// usedValues are what the cycles between two ends took.
func usedValues(first, last cycleEnd, seen samples) []value {
	measured := seen.between(first.at, last.at)
	return []value{
		{"CPU per minute", seconds, measured.cpu() / (last.cycles - first.cycles)},
		{"RSS, median", mebibytes, measured.rss()},
		{"RSS, peak", mebibytes, float64(seen.last().Peak)},
	}
}

// updaterMeasured are cycles of the updater after the first.
const updaterMeasured = 10

// updater measures one that decides about all pods in each cycle. All are within what is
// recommended for them, so that none is evicted.
func (s *scaling) updater(ctx context.Context, vpas int) ([]value, error) {
	c, err := crowd.Make(vpas, time.Now().Add(-time.Hour), false)
	if err != nil {
		return nil, err
	}
	minute, _ := pace(vpas)
	running, err := s.start(ctx, "updater", &standin.Server{Store: c.Store, Checkpoints: c.Checkpoints}, vpas,
		fmt.Sprintf("--updater-interval=%s", minute), "--use-admission-controller-status=false")
	if err != nil {
		return nil, err
	}
	defer running.end()
	decided := 0.0
	ends, seen, err := running.watchCycles(ctx, updaterCycles, max(time.Second, minute/5), updaterMeasured, func(m metrics) {
		decided = m.sum("celvpa_updater_pods")
		c.Minute()
	})
	if err != nil {
		return nil, err
	}
	return scaleUpdaterValues(vpas, c.Pods(), ends, decided, seen), nil
}

func scaleUpdaterValues(vpas, pods int, ends []cycleEnd, decided float64, seen samples) []value {
	first, last := ends[1], ends[len(ends)-1]
	cycle := last.mean(first, "total")
	out := []value{
		{"VPAs", count, float64(vpas)},
		{"pods decided about, of all", percent, decided / float64(pods)},
		{"pods per second", count, decided / cycle},
		{"cycle, mean", seconds, cycle},
	}
	return append(append(out, stepValues(first, last)...), usedValues(first, last, seen)...)
}

// start serves a cluster until the context ends, and starts one of celvpa's components in it.
func (s *scaling) start(ctx context.Context, component string, handler http.Handler, vpas int, flags ...string) (*process, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("serving the cluster: %w", err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	context.AfterFunc(ctx, func() { _ = server.Close() })
	l := &lab{kubeconfig: filepath.Join(s.folder, "kubeconfig"), folder: s.folder}
	err = errors.Join(os.MkdirAll(s.folder, 0o755), os.WriteFile(l.kubeconfig, fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters: [{name: standin, cluster: {server: "http://%s"}}]
contexts: [{name: standin, context: {cluster: standin}}]
current-context: standin
`, listener.Addr()), 0o600))
	if err != nil {
		return nil, err
	}
	minute, qps := pace(vpas)
	qps *= time.Minute.Seconds() / minute.Seconds() // the cluster's time is faster
	p := s.program
	p.args = append([]string{component}, p.args[1:]...)
	return l.start(p, component, nil, append(flags, fmt.Sprintf("--kube-api-qps=%g", qps), fmt.Sprintf("--kube-api-burst=%.0f", 2*qps)))
}

// size is what was measured at one size of a cluster.
type size struct {
	vpas                 int
	recommender, updater []value
}

type sizes []size

func amountOf(values []value, name string) float64 {
	for _, v := range values {
		if v.name == name {
			return v.amount
		}
	}
	return math.NaN()
}

// The tables of the page stand between these lines.
const (
	tablesBegin = "<!-- measured: make sizing -->"
	tablesEnd   = "<!-- /measured -->"
)

// markdown are the tables of the page: what to give, what was measured, and what an object takes.
func (s sizes) markdown(note string) string {
	var out strings.Builder
	line := func(cells ...string) { fmt.Fprintf(&out, "| %s |\n", strings.Join(cells, " | ")) }
	rule := func(n int) { line(strings.Split(strings.TrimSuffix(strings.Repeat("---:,", n), ","), ",")...) }

	line("VPAs", "pods", "containers", "recommender: CPU", "memory", "`--kube-api-qps`", "updater: CPU", "memory")
	rule(8)
	for _, row := range s {
		_, qps := pace(row.vpas)
		line(thousands(row.vpas), thousands(row.vpas*crowd.PodsOfWorkload), thousands(row.vpas*crowd.PodsOfWorkload*crowd.ContainersOfPod),
			giveCPU(row.recommender), giveMemory(row.recommender), fmt.Sprintf("%.0f", qps), giveCPU(row.updater), giveMemory(row.updater))
	}
	if note != "" {
		note = ", " + note
	}
	fmt.Fprintf(&out, "\nMeasured on %d cores%s, for %.0f minutes of the cluster's time:\n\n", runtime.NumCPU(), note, amountOf(s[0].recommender, "minutes"))
	line("VPAs", "recommender: RSS, peak", "CPU a minute", "cycle without writes, mean", "longest", "updater: RSS, peak", "CPU a minute", "pods a second")
	rule(8)
	for _, row := range s {
		r, u := row.recommender, row.updater
		line(thousands(row.vpas), mebibytes(amountOf(r, "RSS, peak")), tenths(amountOf(r, "CPU per minute")), tenths(amountOf(r, "cycle without writes, mean")),
			tenths(amountOf(r, "cycle without writes, longest")), mebibytes(amountOf(u, "RSS, peak")), tenths(amountOf(u, "CPU per minute")), thousands(int(amountOf(u, "pods per second"))))
	}
	if len(s) > 1 {
		fmt.Fprintf(&out, "\nFrom the smallest to the largest of these clusters, each VPA with its %d pods and %d containers adds\n%s to the recommender, and %s to the updater.\n",
			crowd.PodsOfWorkload, crowd.PodsOfWorkload*crowd.ContainersOfPod,
			s.slope(func(z size) []value { return z.recommender }), s.slope(func(z size) []value { return z.updater }))
	}
	return out.String()
}

// slope is what one more VPA takes.
func (s sizes) slope(of func(size) []value) string {
	first, last := s[0], s[len(s)-1]
	per := func(name string) float64 {
		return (amountOf(of(last), name) - amountOf(of(first), name)) / float64(last.vpas-first.vpas)
	}
	return fmt.Sprintf("%.0f KiB and %.2f ms of CPU a minute", per("RSS, peak")/1024, per("CPU per minute")*1000)
}

// giveMemory is a limit: a quarter more than the peak, in steps of 64Mi below 1Gi and of 256Mi above.
func giveMemory(values []value) string {
	mib := amountOf(values, "RSS, peak") * 1.25 / (1 << 20)
	step := 64.0
	if mib > 1024 {
		step = 256
	}
	if mib = math.Ceil(mib/step) * step; math.Mod(mib, 1024) == 0 {
		return fmt.Sprintf("%.0fGi", mib/1024)
	}
	return fmt.Sprintf("%.0fMi", mib)
}

// giveCPU is a request: twice the mean, as all work is done in a part of the minute, in steps of 50m.
func giveCPU(values []value) string {
	return fmt.Sprintf("%.0fm", math.Ceil(amountOf(values, "CPU per minute")/60*2*1000/50)*50)
}

func tenths(v float64) string { return fmt.Sprintf("%.1f s", v) }

func thousands(n int) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// replaceIn writes the tables into a page.
func (s sizes) replaceIn(file, note string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	head, rest, begins := strings.Cut(string(text), tablesBegin+"\n")
	_, tail, ends := strings.Cut(rest, tablesEnd)
	if !begins || !ends {
		return fmt.Errorf("%s has no lines %q and %q between which the tables go", file, tablesBegin, tablesEnd)
	}
	return os.WriteFile(file, []byte(head+tablesBegin+"\n"+s.markdown(note)+tablesEnd+tail), 0o644)
}
