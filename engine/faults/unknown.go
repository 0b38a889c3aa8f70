package faults

import (
	"cmp"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/util/strutil"
)

const (
	fewNames  = 12   // as many are all listed
	alikeFrom = 0.93 // Jaro-Winkler similarity, up to 1
	mostAlike = 3
	longName  = 200 // bytes; to compare more takes time, and no known name is as long
)

// Has ends a message about an unknown name with the known ones. If they are many, it names those alike, or
// else those with the same part before the first dot.
func Has(unknown string, known []string) string {
	if len(known) > fewNames {
		if near := DidYouMean(unknown, known); near != "" {
			return near
		}
		if owner, of := siblings(unknown, known); len(of) > 0 {
			return "of " + owner + " it has " + strings.Join(of, ", ")
		}
	}
	return "it has " + strings.Join(known, ", ")
}

// DidYouMean ends a message about an unknown name with the known ones that are alike; empty without any.
func DidYouMean(unknown string, known []string) string {
	near := alike(unknown, known)
	if len(near) == 0 {
		return ""
	}
	return "did you mean " + strings.Join(near, " or ") + "?"
}

// alike returns the names that an unknown one may be a misspelling of, the likeliest first. The part
// before the first dot may be missing.
func alike(unknown string, known []string) []string {
	if len(unknown) > longName {
		return nil
	}
	matcher := strutil.NewJaroWinklerMatcher(unknown)
	likeness := map[string]float64{}
	for _, name := range known {
		_, last, _ := strings.Cut(name, ".")
		likeness[name] = max(matcher.Score(name), matcher.Score(last))
	}
	near := slices.DeleteFunc(slices.Clone(known), func(name string) bool { return likeness[name] < alikeFrom })
	slices.SortStableFunc(near, func(a, b string) int { return cmp.Compare(likeness[b], likeness[a]) })
	return near[:min(len(near), mostAlike)]
}

func siblings(unknown string, known []string) (owner string, of []string) {
	owner, _, dotted := strings.Cut(unknown, ".")
	return owner, slices.DeleteFunc(slices.Clone(known), func(name string) bool {
		return !dotted || !strings.HasPrefix(name, owner+".")
	})
}
