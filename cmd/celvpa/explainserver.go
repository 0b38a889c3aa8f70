package main

import (
	"errors"
	"fmt"
	"os"

	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/celvpa/celvpa/controllers/inspect"
)

// explain serves what the components of this process know on --explain-address. All of them have joined.
func (p *process) explain(o *options) error {
	if o.explainAddress == "" {
		return nil
	}
	log := ctrl.Log.WithName("explain")
	certificate, get, err := selfSigned("--explain-address", log)
	if err != nil {
		return err
	}
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("finding this host's name for --explain-address: %w", err)
	}
	return errors.Join(p.manager.Add(certificate), p.manager.Add(&inspect.Server{
		Sources: p.explains, Address: o.explainAddress, Certificate: get, Client: p.manager.GetClient(), Namespaces: o.namespaces(),
		Elected: p.manager.Elected(), Instance: host, Version: newBuildInfo().Version, Clock: clock.RealClock{}, Log: log,
	}))
}
