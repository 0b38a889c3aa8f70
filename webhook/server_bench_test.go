package webhook

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"gomodules.xyz/jsonpatch/v2"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// podBody is a review of a pod as API servers send it: some 6 KB, of two containers and what is filled in.
func podBody() string {
	container := func(name string) string {
		return fmt.Sprintf(`{"name":%q,"image":"registry.example.com/team/%s:v1.2.3","ports":[{"containerPort":8080,"protocol":"TCP"}],"env":[%s],
  "resources":{"limits":{"cpu":"200m","memory":"256Mi"},"requests":{"cpu":"100m","memory":"128Mi"}},"volumeMounts":[{"name":"token","readOnly":true,"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}],
  "livenessProbe":{"httpGet":{"path":"/healthz","port":8080,"scheme":"HTTP"},"timeoutSeconds":1,"periodSeconds":10,"successThreshold":1,"failureThreshold":3},
  "terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent"}`, name, name,
			strings.TrimSuffix(strings.Repeat(`{"name":"A_VARIABLE_OF_SOME_LENGTH","value":"and a value that is somewhat longer"},`, 15), ","))
	}
	return strings.Replace(podReview, `{"metadata":{"name":"p"}}`, `{"kind":"Pod","apiVersion":"v1","metadata":{"generateName":"web-5d4f8c7b9-","namespace":"a","labels":{"app":"web","pod-template-hash":"5d4f8c7b9"},
  "ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web-5d4f8c7b9","uid":"6b1f9ee8-53c1-4d0c-8d19-1b7b3f7a1c11","controller":true,"blockOwnerDeletion":true}],
  "managedFields":[{"manager":"kube-controller-manager","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:generateName":{},"f:labels":{".":{},"f:app":{}}}}}]},
  "spec":{"containers":[`+container("app")+`,`+container("sidecar")+`],"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","schedulerName":"default-scheduler"},"status":{}}`, 1)
}

// BenchmarkReview is what a review costs without the handler: reading, its turn, counting and writing.
func BenchmarkReview(b *testing.B) {
	body := podBody()
	if _, err := decode([]byte(body)); err != nil {
		b.Fatal(err)
	}
	s := NewServer(ServerOptions{Timeout: 30 * time.Second, Clock: clock.RealClock{}, Log: logr.Discard(), Handler: admission.HandlerFunc(func(context.Context, admission.Request) admission.Response {
		return admission.Patched("", jsonpatch.NewOperation("add", "/metadata/annotations", map[string]string{}),
			jsonpatch.NewOperation("add", "/spec/containers/0/resources/requests/cpu", "300m"), jsonpatch.NewOperation("add", "/spec/containers/0/resources/requests/memory", "300Mi"),
			jsonpatch.NewOperation("add", "/metadata/annotations/vpaUpdates", "Pod resources updated by web: container 0: cpu request, memory request"))
	})})
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		r := httptest.NewRequest(http.MethodPost, "/?timeout=30s", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		s.ServeHTTP(httptest.NewRecorder(), r)
	}
}

// BenchmarkDecode is the part of it that reads.
func BenchmarkDecode(b *testing.B) {
	body := []byte(podBody())
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := decode(body); err != nil {
			b.Fatal(err)
		}
	}
}
