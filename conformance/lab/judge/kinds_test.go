package judge

import (
	"regexp"
	"slices"
	"strings"
)

var (
	rangeBound = regexp.MustCompile(`^(minimum|maximum) (\S+) usage per (\w+) is [^,]*?(?:, but (request|limit) is|\.  No (request|limit) is)`)
	rangeRatio = regexp.MustCompile(`^(\S+) max limit to request ratio per (\w+) is [^,]*, but (no request|no limit|provided ratio)`)
	index      = regexp.MustCompile(`\[[^\]]*\]`)
	amount     = regexp.MustCompile(`"?\d[\w.+]*"?`)
)

// kind is a refusal without names and amounts, so that refusals of one fault are counted together.
func (r *Refusal) kind() string {
	var all []string
	for _, err := range r.Ranges {
		text := err.Error()
		switch bound, ratio := rangeBound.FindStringSubmatch(text), rangeRatio.FindStringSubmatch(text); {
		case bound != nil && bound[4] != "":
			all = append(all, bound[3]+" "+bound[1]+", "+bound[4])
		case bound != nil:
			all = append(all, bound[3]+" "+bound[1]+", no "+bound[5])
		case ratio != nil:
			all = append(all, ratio[2]+" maxLimitRequestRatio, "+ratio[3])
		default:
			all = append(all, text)
		}
	}
	for _, err := range r.Invalid {
		field := strings.NewReplacer(".cpu", "", ".memory", "", "[cpu]", "", "[memory]", "").Replace(err.Field)
		all = append(all, "API: "+index.ReplaceAllString(field, "[]")+": "+amount.ReplaceAllString(err.Detail, "…"))
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), " + ")
}
