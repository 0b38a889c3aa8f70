package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/celvpa/celvpa/conformance/harness"
)

// turn is one process, under load over both protocols.
type turn struct {
	harness.Program
	overHTTP1, overHTTP2 shot
	peak                 uint64 // memory, in bytes
}

// answer is what a webhook says about a pod: a patch.
type answer []byte

// measure starts a program, waits until it patches all pods, and loads it.
func (b *bench) measure(ctx context.Context, p harness.Program, number int) (t turn, answers []answer, err error) {
	t.Program = p
	one, err := b.start(p, number)
	if err != nil {
		return t, nil, err
	}
	defer one.Stop()
	if answers, err = b.askAll(ctx, one); err != nil {
		return t, nil, err
	}
	if t.overHTTP1, err = b.loadHTTP1(ctx, one); err != nil {
		return t, nil, fmt.Errorf("over HTTP/1.1: %w", errors.Join(err, one.Alive()))
	}
	if t.overHTTP2, err = b.loadHTTP2(ctx, one); err != nil {
		return t, nil, fmt.Errorf("over HTTP/2: %w", errors.Join(err, one.Alive()))
	}
	last, err := one.Footprint()
	if err != nil {
		return t, nil, err
	}
	t.peak = last.Peak
	for _, s := range []struct {
		name string
		shot
	}{{"HTTP/1.1", t.overHTTP1}, {"HTTP/2", t.overHTTP2}} {
		harness.Say("%s over %s: %.0f a second, p50 %s, p99 %s; the server had %.0f%% of a core, what loads it %.0f%%", p.Name, s.name,
			s.perSecond, milliseconds(s.p50), milliseconds(s.p99), s.server*100, s.own*100)
	}
	return t, answers, nil
}

func (b *bench) loadHTTP1(ctx context.Context, p *process) (s shot, err error) {
	var askers []asker
	for range b.connections {
		a, err := b.dialHTTP1(p.address)
		if err != nil {
			return s, err
		}
		defer a.Close()
		askers = append(askers, a)
	}
	defer b.saveProfiles(p, "http1")()
	return b.load(ctx, p, askers)
}

func (b *bench) loadHTTP2(ctx context.Context, p *process) (s shot, err error) {
	var connections []*http2Conn
	for range b.multiplexed {
		c, err := b.dialHTTP2(p.address)
		if err != nil {
			return s, err
		}
		defer c.Close()
		connections = append(connections, c)
	}
	askers := make([]asker, b.connections)
	for i := range askers {
		askers[i] = connections[i%len(connections)].stream()
	}
	defer b.saveProfiles(p, "http2")()
	return b.load(ctx, p, askers)
}

// askAll asks everything once, as soon as the process answers and knows the VPA of each pod.
func (b *bench) askAll(ctx context.Context, p *process) (out []answer, err error) {
	last := errors.New("no answer yet")
	err = wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		if err := p.Alive(); err != nil {
			return false, err
		}
		out, last = b.tryAll(p)
		return last == nil, nil
	})
	if err != nil {
		return nil, fmt.Errorf("waiting until it patches pods: %w (%w); see %s", err, last, p.LogFile)
	}
	return out, nil
}

func (b *bench) tryAll(p *process) ([]answer, error) {
	a, err := b.dialHTTP1(p.address)
	if err != nil {
		return nil, err
	}
	defer a.Close()
	out := make([]answer, len(b.reviews))
	for i := range out {
		body, err := a.ask(&b.reviews[i])
		if err != nil {
			return nil, err
		}
		var got admissionv1.AdmissionReview
		if err := json.Unmarshal(body, &got); err != nil {
			return nil, fmt.Errorf("reading the answer: %w", err)
		}
		if got.Response == nil || !got.Response.Allowed {
			return nil, fmt.Errorf("a pod of %s is not allowed: %s", name(i), body)
		}
		out[i] = got.Response.Patch
		if pod, err := patched(b.reviews[i].pod, out[i]); err != nil || pod.Annotations["vpaUpdates"] == "" {
			return nil, errors.Join(fmt.Errorf("a pod of %s does not get its resources", name(i)), err)
		}
	}
	return out, nil
}

// saveProfiles begins to profile, with -profile. The result waits for the end.
func (b *bench) saveProfiles(p *process, name string) func() {
	if !b.profile {
		return func() {}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for file, path := range map[string]string{"cpu": fmt.Sprintf("profile?seconds=%.0f", (b.warm + b.window).Seconds()), "allocs": "allocs"} {
			if err := harness.SaveProfile(context.Background(), p.metrics, path, filepath.Join(b.folder, name+"."+file)); err != nil {
				harness.Say("no profile: %s", err)
			}
		}
	}()
	return func() { <-done }
}
