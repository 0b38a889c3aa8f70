package snapshot

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"slices"
	"strings"

	"github.com/celvpa/celvpa/simulate/manifests"
	"github.com/celvpa/celvpa/simulate/usagefile"
)

// names gives names in place of others. The same name always gets the same one; without the salt,
// which is nowhere written, nobody can tell or guess from which.
type names struct {
	salt      []byte
	known     map[string]string
	pods      map[usagefile.Series]usagefile.Series
	workloads map[string][]manifests.Workload // by namespace, the longest name first
}

// letters are lower case, so that names stay valid, and have vowels, so that no name looks as if it
// were the random end of another.
var letters = base32.NewEncoding("0123456789abcdefghijklmnopqrstuv").WithPadding(base32.NoPadding)

const nameLength = 10

func newNames(salt []byte, set *manifests.Set) (*names, error) {
	n := &names{salt: salt, known: map[string]string{}, pods: map[usagefile.Series]usagefile.Series{}, workloads: map[string][]manifests.Workload{}}
	list, err := set.Workloads()
	for i := range set.Documents {
		d := &set.Documents[i]
		if of, ok := targetOf(d); ok { // which may be missing, or of a custom kind
			kind, _ := manifests.WellKnown(of.kind)
			kind.Kind = of.kind
			list = append(list, manifests.Workload{GroupKind: kind, Namespace: d.Namespace, Name: of.name})
		}
	}
	for _, w := range list {
		n.workloads[w.Namespace] = append(n.workloads[w.Namespace], w)
	}
	for _, in := range n.workloads {
		slices.SortStableFunc(in, func(a, b manifests.Workload) int {
			return cmp.Or(cmp.Compare(len(b.Name), len(a.Name)), strings.Compare(a.Name, b.Name))
		})
	}
	return n, err
}

// hash is a text of which nobody can tell what it is of.
func (n *names) hash(of string) string {
	mac := hmac.New(sha256.New, n.salt)
	mac.Write([]byte(of))
	return letters.EncodeToString(mac.Sum(nil))
}

// name is the name in place of another. It begins with a letter.
func (n *names) name(of string) string {
	if of == "" || of == "*" {
		return of
	}
	out, known := n.known[of]
	if !known {
		out = "n" + n.hash("name " + of)[:nameLength]
		n.known[of] = out
	}
	return out
}

// pod is a pod's name such as the workload that made the pod would give it under its other name:
// what follows the workload's name says nothing but the time of a CronJob and the number of a
// StatefulSet.
func (n *names) pod(namespace, pod string) string {
	for _, w := range n.workloads[namespace] {
		if !w.NamesLike(pod) {
			continue
		}
		if rest, ok := strings.CutPrefix(pod, w.Name+"-"); ok && strings.Count(rest, "-") < 3 {
			return n.name(w.Name) + "-" + rest
		}
		return n.name(w.Name) + "-" + random(n.hash("id "+pod), 10) + "-" + random(n.hash("rest "+pod), 5) // a long name that was cut
	}
	for _, w := range n.workloads[namespace] {
		if w.BeginsLike(pod) {
			return n.name(w.Name) + "-" + n.hash("pod " + pod)[:nameLength] + "-other" // no workload generates such a name
		}
	}
	return n.name(pod)
}

// random are letters that Kubernetes takes for random ends of names.
func random(hash string, length int) string {
	const all = "bcdfghjklmnpqrstvwxz2456789"
	out := make([]byte, length)
	for i := range out {
		out[i] = all[int(hash[i])%len(all)]
	}
	return string(out)
}

// series is a series under other names.
func (n *names) series(of usagefile.Series) usagefile.Series {
	out, known := n.pods[of]
	if !known {
		out = of
		out.Pod.Namespace, out.Pod.Name, out.Container = n.name(of.Pod.Namespace), n.pod(of.Pod.Namespace, of.Pod.Name), n.name(of.Container)
		n.pods[of] = out
	}
	return out
}
