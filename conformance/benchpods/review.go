package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/utils/ptr"
)

// review is what an API server asks about one new pod.
type review struct {
	pod     []byte // as JSON
	body    []byte // the AdmissionReview
	http    []byte // the whole request of HTTP/1.1
	headers []byte // of HTTP/2
}

// path is what API servers ask for with a webhook's default timeout.
const path = "/?timeout=30s"

// makeReviews writes one review for each Deployment.
func (b *bench) makeReviews(ctx context.Context) ([]review, error) {
	owners, err := b.replicaSets(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]review, b.vpas)
	for i := range out {
		r := &out[i]
		if r.pod, err = json.Marshal(newPod(owners[name(i)])); err != nil {
			return nil, fmt.Errorf("writing a pod: %w", err)
		}
		if r.body, err = json.Marshal(reviewOf(b.namespace(i), r.pod)); err != nil {
			return nil, fmt.Errorf("writing an AdmissionReview: %w", err)
		}
		var all bytes.Buffer
		fmt.Fprintf(&all, "POST %s HTTP/1.1\r\nHost: vpa-webhook.kube-system.svc:443\r\nUser-Agent: kube-apiserver-admission\r\nContent-Length: %d\r\n"+
			"Accept: application/json, */*\r\nContent-Type: application/json\r\nAccept-Encoding: gzip\r\n\r\n", path, len(r.body))
		all.Write(r.body)
		r.http, r.headers = all.Bytes(), headersOf(r)
	}
	return out, nil
}

func (b *bench) meanSize() int {
	total := 0
	for i := range b.reviews {
		total += len(b.reviews[i].body)
	}
	return total / max(len(b.reviews), 1)
}

func reviewOf(namespace string, pod []byte) *admissionv1.AdmissionReview {
	options, _ := json.Marshal(&metav1.CreateOptions{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "CreateOptions"}}) // has nothing that could fail
	kind := metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}
	pods := metav1.GroupVersionResource{Version: "v1", Resource: "pods"}
	return &admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: uuid.NewUUID(), Kind: kind, Resource: pods, RequestKind: &kind, RequestResource: &pods, Namespace: namespace, Operation: admissionv1.Create,
			UserInfo: authenticationv1.UserInfo{Username: "system:serviceaccount:kube-system:replicaset-controller", UID: string(uuid.NewUUID()),
				Groups: []string{"system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"},
				Extra:  map[string]authenticationv1.ExtraValue{"authentication.kubernetes.io/credential-id": {"JTI=" + string(uuid.NewUUID())}}},
			Object: runtime.RawExtension{Raw: pod}, DryRun: ptr.To(false), Options: runtime.RawExtension{Raw: options},
		},
	}
}

// newPod is a pod as webhooks see it: what its ReplicaSet's template says, with all that API servers add before they ask.
func newPod(owner *appsv1.ReplicaSet) *corev1.Pod {
	deployment := metav1.GetControllerOf(owner).Name
	pod := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: owner.Name + "-", Namespace: owner.Namespace, UID: types.UID(uuid.NewUUID()), CreationTimestamp: metav1.Now(),
			Labels:          map[string]string{"app": deployment, "pod-template-hash": owner.Labels["pod-template-hash"]},
			Annotations:     map[string]string{"prometheus.io/scrape": "true", "prometheus.io/port": "8080"},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kube-controller-manager", Operation: metav1.ManagedFieldsOperationUpdate,
				APIVersion: "v1", FieldsType: "FieldsV1", Time: ptr.To(metav1.NewTime(time.Now())), FieldsV1: metav1.NewFieldsV1(managed(string(owner.UID)))}},
		},
		Spec: corev1.PodSpec{
			Volumes:    []corev1.Volume{configVolume(deployment), tokenVolume()},
			Containers: containers(deployment), RestartPolicy: corev1.RestartPolicyAlways, TerminationGracePeriodSeconds: ptr.To[int64](30),
			DNSPolicy: corev1.DNSClusterFirst, ServiceAccountName: "default", DeprecatedServiceAccount: "default", SecurityContext: &corev1.PodSecurityContext{},
			SchedulerName: "default-scheduler", Priority: ptr.To[int32](0), EnableServiceLinks: ptr.To(true), PreemptionPolicy: ptr.To(corev1.PreemptLowerPriority),
			Tolerations: []corev1.Toleration{
				{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: ptr.To[int64](300)},
				{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: ptr.To[int64](300)},
			},
		},
	}
	token := corev1.VolumeMount{Name: tokenVolume().Name, ReadOnly: true, MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"}
	for i := range pod.Spec.Containers {
		pod.Spec.Containers[i].VolumeMounts = append(pod.Spec.Containers[i].VolumeMounts, token)
	}
	return pod
}

// containers are what people write of a web server with a sidecar, with the defaults that API servers fill in.
func containers(deployment string) []corev1.Container {
	probe := func(path string, port int) *corev1.Probe {
		return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromInt(port), Scheme: corev1.URISchemeHTTP}},
			TimeoutSeconds: 1, PeriodSeconds: 10, SuccessThreshold: 1, FailureThreshold: 3}
	}
	field := func(name, path string) corev1.EnvVar {
		return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path}}}
	}
	common := corev1.Container{ImagePullPolicy: corev1.PullIfNotPresent, TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: corev1.TerminationMessageReadFile,
		SecurityContext: &corev1.SecurityContext{RunAsNonRoot: ptr.To(true), AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true),
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}}
	app, proxy := common, common
	app.Name, app.Image = "app", "registry.example/shop/"+deployment+":1.42.0"
	app.Args = []string{"--listen=:8080", "--config=/etc/app/config.yaml", "--log-format=json"}
	app.Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: corev1.ProtocolTCP}}
	app.Env = []corev1.EnvVar{field("POD_NAME", "metadata.name"), field("POD_NAMESPACE", "metadata.namespace"), {Name: "DATABASE_HOST", Value: "postgres.databases.svc"}}
	app.Resources = corev1.ResourceRequirements{Requests: amounts("200m", "256Mi"), Limits: amounts("400m", "512Mi")}
	app.VolumeMounts = []corev1.VolumeMount{{Name: "config", MountPath: "/etc/app", ReadOnly: true}}
	app.LivenessProbe, app.ReadinessProbe = probe("/healthz", 8080), probe("/readyz", 8080)
	proxy.Name, proxy.Image = "proxy", "registry.example/mesh/proxy:3.1"
	proxy.Ports = []corev1.ContainerPort{{Name: "proxy", ContainerPort: 15001, Protocol: corev1.ProtocolTCP}}
	proxy.Env = []corev1.EnvVar{field("POD_IP", "status.podIP")}
	proxy.Resources = corev1.ResourceRequirements{Requests: amounts("50m", "64Mi"), Limits: amounts("200m", "256Mi")}
	proxy.ReadinessProbe = probe("/ready", 15021)
	return []corev1.Container{app, proxy}
}

func configVolume(deployment string) corev1.Volume {
	return corev1.Volume{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: deployment}, DefaultMode: ptr.To[int32](420)}}}
}

func tokenVolume() corev1.Volume {
	return corev1.Volume{Name: "kube-api-access-7xk2p", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		DefaultMode: ptr.To[int32](420),
		Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{ExpirationSeconds: ptr.To[int64](3607), Path: "token"}},
			{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"}, Items: []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}}}},
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{Path: "namespace",
				FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"}}}}},
		},
	}}}
}

// managed are the fields that a ReplicaSet's controller owns of such a pod.
func managed(owner string) string {
	container := func(name string) string {
		return `"k:{\"name\":\"` + name + `\"}":{".":{},"f:args":{},"f:env":{".":{},"k:{\"name\":\"POD_NAME\"}":{".":{},"f:name":{},"f:valueFrom":{".":{},"f:fieldRef":{}}}},` +
			`"f:image":{},"f:imagePullPolicy":{},"f:name":{},"f:ports":{".":{},"k:{\"containerPort\":8080,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{},"f:name":{},"f:protocol":{}}},` +
			`"f:readinessProbe":{".":{},"f:failureThreshold":{},"f:httpGet":{".":{},"f:path":{},"f:port":{},"f:scheme":{}},"f:periodSeconds":{},"f:successThreshold":{},"f:timeoutSeconds":{}},` +
			`"f:resources":{".":{},"f:limits":{".":{},"f:cpu":{},"f:memory":{}},"f:requests":{".":{},"f:cpu":{},"f:memory":{}}},"f:securityContext":{".":{},"f:allowPrivilegeEscalation":{}},` +
			`"f:terminationMessagePath":{},"f:terminationMessagePolicy":{}}`
	}
	return `{"f:metadata":{"f:annotations":{".":{},"f:prometheus.io/port":{},"f:prometheus.io/scrape":{}},"f:generateName":{},"f:labels":{".":{},"f:app":{},"f:pod-template-hash":{}},` +
		`"f:ownerReferences":{".":{},"k:{\"uid\":\"` + owner + `\"}":{}}},"f:spec":{"f:containers":{` + container("app") + `,` + container("proxy") + `},` +
		`"f:dnsPolicy":{},"f:enableServiceLinks":{},"f:restartPolicy":{},"f:schedulerName":{},"f:securityContext":{},"f:terminationGracePeriodSeconds":{},` +
		`"f:volumes":{".":{},"k:{\"name\":\"config\"}":{".":{},"f:configMap":{".":{},"f:defaultMode":{},"f:name":{}},"f:name":{}}}}}`
}
