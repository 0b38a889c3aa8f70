package vpareview

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celvpa/celvpa/crds/quantity"
)

// decode reads an object as rules expect it: whole numbers are int64, others float64.
func decode(data []byte) (map[string]any, error) {
	from := jsontext.NewDecoder(bytes.NewBuffer(data), quantity.Lenient)
	value, err := next(from)
	if err != nil {
		return nil, err
	}
	if _, err := from.ReadToken(); err != io.EOF {
		return nil, fmt.Errorf("something follows it: %w", cmp.Or(err, errors.New("a second value")))
	}
	switch object := value.(type) {
	case map[string]any:
		return object, nil
	case nil:
		return nil, errors.New("it is empty")
	}
	return nil, errors.New("it is not a JSON object")
}

// next reads the next value. The decoder of encoding/json/v2 would read whole numbers as float64.
func next(from *jsontext.Decoder) (any, error) {
	token, err := from.ReadToken()
	if err != nil {
		return nil, err
	}
	switch token.Kind() {
	case jsontext.KindNull:
		return nil, nil
	case jsontext.KindTrue, jsontext.KindFalse:
		return token.Bool(), nil
	case jsontext.KindString:
		return token.String(), nil
	case jsontext.KindNumber:
		text := token.String()
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n, nil
		}
		return strconv.ParseFloat(text, 64)
	case jsontext.KindBeginArray:
		list := []any{}
		for from.PeekKind() != jsontext.KindEndArray {
			value, err := next(from)
			if err != nil {
				return nil, err
			}
			list = append(list, value)
		}
		_, err = from.ReadToken()
		return list, err
	}
	object := map[string]any{}
	for from.PeekKind() != jsontext.KindEndObject {
		name, err := from.ReadToken()
		if err != nil {
			return nil, err
		}
		key := name.String()
		if object[key], err = next(from); err != nil {
			return nil, err
		}
	}
	_, err = from.ReadToken()
	return object, err
}

// metadata reads the metadata of an object. It is empty if it cannot be decoded; the schema says why.
func metadata(object []byte) metav1.ObjectMeta {
	var out metav1.PartialObjectMetadata
	if len(object) == 0 || json.Unmarshal(object, &out, quantity.Lenient) != nil {
		return metav1.ObjectMeta{}
	}
	return out.ObjectMeta
}
