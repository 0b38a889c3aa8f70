package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/celvpa/celvpa/conformance/harness"
	"github.com/celvpa/celvpa/controllers/recommender"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

const aboutWrites = "status and checkpoint writes per second that an API server with etcd sustains, by number of writers, unthrottled (5 minutes)"

// writeBench measures the writes of recommenders: the same requests, by the same client, but as fast as
// the API server answers.
type writeBench struct {
	*lab
	send            recommender.Writer
	writers         []int
	apiserver, etcd int // process IDs
	etcdURL         string
	status          *vpav1.VerticalPodAutoscalerStatus
	checkpoint      vpav1.VerticalPodAutoscalerCheckpointStatus
}

func runWrites(ctx context.Context, args []string) (err error) {
	o, writers := options{vpas: 2000}, list{"1", "2", "4", "8", "16", "32"}
	flags := flag.NewFlagSet("bench writes", flag.ContinueOnError)
	flags.StringVar(&o.lab, "lab", "bench-writes", "name of the lab")
	flags.IntVar(&o.vpas, "vpas", o.vpas, "VerticalPodAutoscalers, each with a status and two checkpoints")
	flags.Var(&writers, "writers", "writes in flight; several numbers are measured one after the other")
	flags.BoolVar(&o.keep, "keep-lab", false, "leave the lab running, and reuse what a lab that already runs holds")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("bench writes takes flags only, not %q", flags.Arg(0))
	}
	if o.vpas < 1 {
		return fmt.Errorf("-vpas is %d; it must be at least 1", o.vpas)
	}
	w := &writeBench{}
	for _, text := range writers {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return fmt.Errorf("-writers: %q is no number of writers", text)
		}
		w.writers = append(w.writers, n)
	}
	up, err := harness.Up(ctx, o.lab, os.Stderr, "-metrics-server=false", "-nodes=1")
	if err != nil {
		return err
	}
	if !o.keep {
		defer func() { err = errors.Join(err, up.Down(context.WithoutCancel(ctx), os.Stderr)) }()
	}
	if err := w.prepare(ctx, up, o); err != nil {
		return err
	}
	rows, err := w.measure(ctx)
	if err != nil {
		return err
	}
	return tabulate(os.Stdout, fmt.Sprintf("writes: %d VPAs with a status of %d containers and %d checkpoints; no limit of the rate", w.vpas, containersWritten, containersWritten), rows)
}

// containersWritten is how many containers a status has, and a VPA checkpoints.
const containersWritten = 2

// prepare fills the lab with VPAs, and writes all statuses and checkpoints once.
func (w *writeBench) prepare(ctx context.Context, up *harness.Lab, o options) (err error) {
	if w.lab, err = (benchmark{name: "writes"}).connect(up, o); err != nil {
		return err
	}
	w.send = recommender.Writer{Live: w.lab.Client}
	if w.apiserver, err = up.Pid(ctx, "kube-apiserver"); err != nil {
		return err
	}
	if w.etcd, err = up.Pid(ctx, "etcd"); err != nil {
		return err
	}
	if w.etcdURL, err = up.EtcdURL(ctx); err != nil {
		return err
	}
	if w.status, err = exampleStatus(time.Now()); err != nil {
		return err
	}
	w.checkpoint = harness.Days(8, 100, 256<<20)
	if err := w.InstallCRDs(ctx, false); err != nil {
		return err
	}
	if err := w.createNamespaces(ctx); err != nil {
		return err
	}
	if err := w.renewVPAs(ctx, func(i int) *vpav1.VerticalPodAutoscaler { return policyVPA(i, vpav1.UpdateModeInPlaceOrRecreate) }); err != nil {
		return err
	}
	for _, of := range w.kinds() {
		progress("creating %d %s", of.count, of.name)
		if err := each(ctx, fillers, of.count, of.name, func(ctx context.Context, i int) error { return of.write(ctx, i, 0) }); err != nil {
			return fmt.Errorf("writing %s: %w", of.name, err)
		}
	}
	return nil
}

// written is a kind of writes. No two writes of an object are the same, in whatever round: the API
// server does not store what is there already.
type written struct {
	name  string
	count int // in a round
	write func(ctx context.Context, i, round int) error
}

func (w *writeBench) kinds() []written {
	return []written{
		{"statuses", w.vpas, func(ctx context.Context, i, round int) error {
			return w.send.Status(ctx, key(i), drifted(w.status, i, round))
		}},
		{"checkpoints", w.vpas * containersWritten, func(ctx context.Context, i, round int) error {
			next := w.checkpoint
			next.TotalSamplesCount += i + round
			next.LastUpdateTime.Time = next.LastUpdateTime.Add(time.Duration(round) * time.Minute)
			return w.send.Checkpoint(ctx, key(i/containersWritten), containerName(i%containersWritten), next)
		}},
	}
}

// measure writes everything again with each number of writers.
func (w *writeBench) measure(ctx context.Context) (rows []writeRow, err error) {
	for _, of := range w.kinds() {
		for round, writers := range w.writers {
			progress("%d %s with %d writers", of.count, of.name, writers)
			row := writeRow{of: of.name, writers: writers, took: make([]time.Duration, of.count)}
			if row.before, err = w.taken(ctx); err != nil {
				return nil, err
			}
			begin := time.Now()
			err = each(ctx, writers, of.count, of.name, func(ctx context.Context, i int) error {
				sent := time.Now()
				err := of.write(ctx, i, round+1)
				row.took[i] = time.Since(sent)
				return err
			})
			row.within = time.Since(begin)
			if err != nil {
				return nil, fmt.Errorf("writing %s with %d writers: %w", of.name, writers, err)
			}
			if row.after, err = w.taken(ctx); err != nil {
				return nil, err
			}
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// taken reads what the control plane has taken so far. Reading the API server's metrics costs it CPU
// time, some hundredths of a second, which counts.
func (w *writeBench) taken(ctx context.Context) (t taken, err error) {
	own, err := scrape(ctx, http.DefaultClient, w.etcdURL)
	if err != nil {
		return t, err
	}
	for name, into := range map[string]*float64{"etcd_disk_wal_write_bytes_total": &t.logged, "etcd_mvcc_db_total_size_in_bytes": &t.database} {
		found := own[name].GetMetric()
		if len(found) != 1 {
			return t, fmt.Errorf("etcd has no metric %s", name)
		}
		*into = found[0].GetGauge().GetValue()
	}
	server, err := scrape(ctx, w.api, w.Config.Host)
	if err != nil {
		return t, err
	}
	for _, m := range server["etcd_request_duration_seconds"].GetMetric() {
		if label(m, "operation") == "update" && aboutVPAs(m) {
			t.updates += float64(m.GetHistogram().GetSampleCount())
			t.updating += m.GetHistogram().GetSampleSum()
		}
	}
	for pid, into := range map[int]*float64{w.apiserver: &t.apiserver, w.etcd: &t.etcd} {
		now, err := harness.FootprintOf(pid)
		if err != nil {
			return t, err
		}
		*into = now.CPU
	}
	return t, nil
}

// aboutVPAs reports whether a metric is of VPAs or checkpoints: releases of Kubernetes name the label
// differently.
func aboutVPAs(m *dto.Metric) bool {
	for _, l := range m.GetLabel() {
		if strings.HasPrefix(l.GetValue(), "verticalpodautoscaler") {
			return true
		}
	}
	return false
}
