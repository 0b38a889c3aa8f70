package webhook

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	kjson "sigs.k8s.io/json"
)

func TestOfAPodOnlyWhatIsReadIsKept(t *testing.T) {
	for name, c := range map[string]struct{ pod, want string }{
		"all else is left out": {
			`{"kind":"Pod","metadata":{"name":"p","managedFields":[{"f":{"name":"x"}}],"labels":{"a":"b"}},"spec":{"containers":[{"image":"i","name":"app","resources":{"requests":{"cpu":"1"}}},{"name":"b"}],"nodeName":"n"},"status":{}}`,
			`{"metadata":{"name":"p","labels":{"a":"b"}},"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"1"}}},{"name":"b"}]}}`},
		"blanks do not count":             {" {\n \"spec\" : { \"containers\" : [ { \"name\" : \"a\" } , {} ] } }\n", `{"spec":{"containers":[{"name":"a"},{}]}}`},
		"lists without anything":          {`{"spec":{"containers":[],"initContainers":[ ]}}`, `{"spec":{"containers":[],"initContainers":[]}}`},
		"nulls stay":                      {`{"metadata":null,"spec":{"containers":null,"resources":null}}`, `{"metadata":null,"spec":{"containers":null,"resources":null}}`},
		"values of other types stay":      {`{"metadata":7,"spec":{"containers":"x"}}`, `{"metadata":7,"spec":{"containers":"x"}}`},
		"what is said twice is so kept":   {`{"spec":{"containers":[{"name":"a","name":"b"}]}}`, `{"spec":{"containers":[{"name":"a","name":"b"}]}}`},
		"names are not taken for others":  {`{"Metadata":{"name":"p"},"spec":{"Containers":[1]}}`, `{"spec":{}}`},
		"quotes and brackets inside text": {`{"status":"}\"{","metadata":{"annotations":{"a\"]":"[\\"}}}`, `{"metadata":{"annotations":{"a\"]":"[\\"}}}`},
	} {
		small, ok := prune([]byte(c.pod))
		require.True(t, ok, name)
		require.Equal(t, c.want, string(small), name)
	}
	for _, odd := range []string{``, `null`, `[]`, `{`, `{}x`, `{"spec":}`, `{"spec":{"containers":[`, `{"spec":{"containers":[,]}}`, `{"spec":{"containers":[{}`, `{"m\u0065tadata":{}}`} {
		_, ok := prune([]byte(odd))
		require.False(t, ok, odd)
	}
}

// FuzzPods: what is read of a pod is the same with the short cut.
func FuzzPods(f *testing.F) {
	for _, seed := range []string{`{"metadata":{"name":"p"},"spec":{"containers":[{"name":"a","resources":{"limits":{"cpu":"1e3"}}}]}}`, `{"spec":{"containers":[1,{}],"initContainers":[null,{"restartPolicy":"Always"}]}}`,
		`{"metadata":{"labels":{"a":1}}}`, ` { } `, `{"spec":{"containers":{"name":"x"}}}`, `{"spec":[{"resources":{}}],"metadata":[]}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, pod []byte) {
		small, ok := prune(pod)
		if !ok || !json.Valid(pod) {
			return // invalid ones come from no API server
		}
		var whole, pruned slimPod
		wholeErr := kjson.UnmarshalCaseSensitivePreserveInts(pod, &whole)
		prunedErr := kjson.UnmarshalCaseSensitivePreserveInts(small, &pruned)
		require.Equal(t, wholeErr == nil, prunedErr == nil)
		require.Equal(t, whole, pruned)
	})
}
