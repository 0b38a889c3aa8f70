package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// pushIndex writes an image to a registry, to which it logs in as docker does.
func pushIndex(ctx context.Context, reference string, index v1.ImageIndex, insecure bool) error {
	options := []name.Option{name.StrictValidation}
	if insecure {
		options = append(options, name.Insecure)
	}
	to, err := name.ParseReference(reference, options...)
	if err != nil {
		return fmt.Errorf("%w; give the repository as registry.example/team", err)
	}
	err = remote.WriteIndex(to, index, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain), remote.WithUserAgent("celvpa-release"))
	var refused *transport.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused) && (refused.StatusCode == http.StatusUnauthorized || refused.StatusCode == http.StatusForbidden):
		return fmt.Errorf("pushing %s: %w; log in to %s with docker login", reference, err, to.Context().RegistryStr())
	default:
		return fmt.Errorf("pushing %s: %w", reference, err)
	}
}
