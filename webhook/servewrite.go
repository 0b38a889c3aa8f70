package webhook

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// operation is a jsonpatch.Operation without its method MarshalJSON, which encodes and parses each operation once more.
type operation struct {
	Operation string `json:"op"`
	Path      string `json:"path"`
	Value     any    `json:"value,omitempty"`
}

// answer is the text of an AdmissionReview that answers a request. Its buffers are used again.
type answer struct{ body, patch bytes.Buffer }

var written = sync.Pool{New: func() any { return new(answer) }}

// encode makes the answer to the request with a UID. Only a refusal or a message gets a status. The caller puts the answer back
// after use.
func encode(uid types.UID, resp *admission.Response) (*answer, error) {
	out := written.Get().(*answer)
	review := &admissionv1.AdmissionResponse{UID: uid, Allowed: resp.Allowed, Warnings: resp.Warnings, AuditAnnotations: resp.AuditAnnotations}
	if resp.Result != nil && (!resp.Allowed || resp.Result.Message != "") {
		review.Result = resp.Result
	}
	if resp.Allowed && len(resp.Patches) > 0 {
		operations := make([]*operation, len(resp.Patches))
		for i := range resp.Patches {
			o := (*operation)(&resp.Patches[i])
			if o.Value == nil && o.Operation != "remove" {
				o.Value = json.RawMessage("null")
			}
			operations[i] = o
		}
		if err := write(&out.patch, operations); err != nil {
			return nil, fmt.Errorf("writing the patch: %w", err)
		}
		review.Patch, review.PatchType = out.patch.Bytes(), ptr.To(admissionv1.PatchTypeJSONPatch)
	}
	if err := write(&out.body, admissionv1.AdmissionReview{TypeMeta: reviewType, Response: review}); err != nil {
		return nil, fmt.Errorf("writing the answer: %w", err)
	}
	return out, nil
}

// write fills a buffer with a value as json.Marshal writes it.
func write(into *bytes.Buffer, value any) error {
	into.Reset()
	if err := json.NewEncoder(into).Encode(value); err != nil {
		return err
	}
	into.Truncate(into.Len() - 1) // a line break
	return nil
}

// workerIdle is how long a worker waits for its next review.
const workerIdle = 10 * time.Second

// workers are goroutines that run one review after another. A review needs a deep stack, which a
// new goroutine would grow step by step, at a twentieth of the CPU that a review takes.
type workers chan func()

// run runs a function in a worker that is idle, or in a new one.
func (w workers) run(review func()) {
	select {
	case w <- review:
	default:
		go w.work(review)
	}
}

func (w workers) work(review func()) {
	idle := time.NewTimer(workerIdle)
	defer idle.Stop()
	for {
		review()
		idle.Reset(workerIdle)
		select {
		case review = <-w:
		case <-idle.C:
			return
		}
	}
}
