package recommender

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

const (
	// checkpointPage is how many checkpoints are read with a request.
	checkpointPage = 500
	// checkpointsAhead is how many are read while one is used.
	checkpointsAhead = 100
	// maxCheckpoint is more than twice what the largest valid checkpoint takes as JSON, in bytes. Anybody
	// who may write checkpoints may write some of 1.5 MB, which take 20 MB once they are decoded.
	maxCheckpoint = 256 << 10
)

// Pages reads a page of the checkpoints of a namespace, empty = of all, as JSON. Decoded by a client, a
// page would be in memory as a whole, however large its objects are.
type Pages func(ctx context.Context, namespace string, page metav1.ListOptions) (io.ReadCloser, error)

// NewPages returns the pages of an API server.
func NewPages(config *rest.Config) (Pages, error) {
	transport, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("preparing to list checkpoints: %w", err)
	}
	c, err := apiutil.RESTClientForGVK(vpav1.GroupVersion.WithKind("VerticalPodAutoscalerCheckpoint"), true, true, config, serializer.NewCodecFactory(runtime.NewScheme()), transport)
	if err != nil {
		return nil, fmt.Errorf("preparing to list checkpoints: %w", err)
	}
	return func(ctx context.Context, namespace string, page metav1.ListOptions) (io.ReadCloser, error) {
		return c.Get().NamespaceIfScoped(namespace, namespace != "").Resource("verticalpodautoscalercheckpoints").
			VersionedParams(&page, metav1.ParameterCodec).Stream(ctx)
	}, nil
}

// listedCheckpoint is a checkpoint in a list.
type listedCheckpoint struct {
	checkpointRef
	text []byte // JSON; nil if it is too large
	size int    // of the JSON, in bytes
}

// checkpointRef names a checkpoint, and whose history it holds.
type checkpointRef struct{ namespace, name, vpa, container string }

// maxName is how long names of VPAs and containers are at most. A checkpoint with a longer one is nobody's.
const maxName = 253

// newListed keeps no more of a checkpoint than a valid one may take. What has another type is left out.
func newListed(text []byte) (listed listedCheckpoint) {
	var head struct {
		Metadata struct{ Namespace, Name string }          `json:"metadata"`
		Spec     vpav1.VerticalPodAutoscalerCheckpointSpec `json:"spec"`
	}
	_ = json.Unmarshal(text, &head)
	listed.checkpointRef = checkpointRef{namespace: head.Metadata.Namespace, name: head.Metadata.Name}
	if len(head.Spec.VPAObjectName) <= maxName && len(head.Spec.ContainerName) <= maxName {
		listed.vpa, listed.container = head.Spec.VPAObjectName, head.Spec.ContainerName
	}
	if listed.size = len(text); listed.size <= maxCheckpoint {
		listed.text = text
	}
	return listed
}

// eachCheckpoint calls f with all checkpoints of the namespaces served, and reads some more meanwhile.
func (r *Recommender) eachCheckpoint(ctx context.Context, f func(listedCheckpoint)) (err error) {
	read := make(chan listedCheckpoint, checkpointsAhead)
	go func() {
		defer close(read)
		for next, more := "", true; more && err == nil; more = next != "" {
			next, err = r.checkpointsFrom(ctx, next, func(listed listedCheckpoint) { read <- listed })
		}
	}()
	for page := range read {
		f(page)
	}
	return err
}

// checkpointsFrom calls f with a page of the checkpoints of the namespaces served, and returns where
// the next one begins; empty = it is the last.
func (r *Recommender) checkpointsFrom(ctx context.Context, begin string, f func(listedCheckpoint)) (next string, err error) {
	body, err := r.Pages(ctx, r.Namespaces.Only, metav1.ListOptions{Limit: checkpointPage, Continue: begin})
	if err != nil {
		return "", fmt.Errorf("listing checkpoints: %w", err)
	}
	defer func() { _ = body.Close() }()
	if next, err = readPage(body, f); err != nil {
		return "", fmt.Errorf("listing checkpoints: reading the answer: %w", err)
	}
	return next, nil
}

// readPage decodes a list one item after the other.
func readPage(from io.Reader, f func(listedCheckpoint)) (next string, err error) {
	in := json.NewDecoder(from)
	if err := delimiter(in, '{'); err != nil {
		return "", err
	}
	for in.More() {
		field, err := in.Token()
		if err != nil {
			return "", err
		}
		switch field {
		case "metadata":
			var list metav1.ListMeta
			err = in.Decode(&list)
			next = list.Continue
		case "items":
			err = readItems(in, f)
		default:
			err = in.Decode(&json.RawMessage{})
		}
		if err != nil {
			return "", err
		}
	}
	return next, delimiter(in, '}')
}

func readItems(in *json.Decoder, f func(listedCheckpoint)) error {
	if err := delimiter(in, '['); err != nil {
		return err
	}
	for in.More() {
		var item json.RawMessage
		if err := in.Decode(&item); err != nil {
			return err
		}
		f(newListed(item))
	}
	return delimiter(in, ']')
}

func delimiter(in *json.Decoder, want json.Delim) error {
	switch token, err := in.Token(); {
	case err != nil:
		return err
	case token != want:
		return fmt.Errorf("%v at %d instead of %v", token, in.InputOffset(), want)
	}
	return nil
}
