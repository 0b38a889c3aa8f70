package manifests

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/json"

	"github.com/celvpa/celvpa/crds/quantity"
)

// notQuantities are fields whose strings below are not quantities.
var notQuantities = map[string]bool{
	"metadata": true, "selector": true, "matchLabels": true, "nodeSelector": true, "env": true, "args": true, "command": true, "data": true,
}

// amounts are fields whose strings below are all quantities.
var amounts = map[string]bool{
	"requests": true, "limits": true, "overhead": true, // of pods and containers
	"default": true, "defaultRequest": true, "min": true, "max": true, "maxLimitRequestRatio": true, // of LimitRanges
}

// unreadableQuantity names the first invalid quantity, which the decoder's error omits.
func unreadableQuantity(text []byte) error {
	var object any
	if err := json.Unmarshal(text, &object); err != nil {
		return nil
	}
	return amountsRead("", object, false)
}

func amountsRead(path string, value any, amount bool) error {
	switch v := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if notQuantities[key] {
				continue
			}
			if err := amountsRead(path+"."+key, v[key], amount || amounts[key]); err != nil {
				return err
			}
		}
	case []any:
		for i, one := range v {
			if err := amountsRead(fmt.Sprintf("%s[%d]", path, i), one, false); err != nil {
				return err
			}
		}
	case string:
		if _, err := quantity.Parse(v); amount && err != nil {
			return fmt.Errorf("%s is %q, which is not a quantity: write it like 500m, 2 or 1Gi", strings.TrimPrefix(path, "."), v)
		}
	case bool:
		if amount {
			return fmt.Errorf("%s is %t, which is not a quantity: write it like 500m, 2 or 1Gi", strings.TrimPrefix(path, "."), v)
		}
	}
	return nil
}
