package faults

import (
	"cmp"
	"slices"
	"strings"
	"unicode"

	"github.com/prometheus/prometheus/util/strutil"
)

const (
	fewNames  = 12   // as many are all listed
	alikeFrom = 0.93 // Jaro-Winkler similarity, up to 1
	mostAlike = 3
	longName  = 200 // bytes; to compare more takes time, and no known name is as long
)

// Has ends a message about an unknown name with the known ones. If they are many, it names those alike, or
// else those with the same part before the first dot, or else those with most words in common. also are
// other names of the known ones, such as flags, in the same order; empty = there is none.
func Has(unknown string, known []string, also ...string) string {
	if len(known) <= fewNames {
		return "it has " + strings.Join(known, ", ")
	}
	other := map[string]string{}
	for i, name := range also {
		other[known[i]] = name
	}
	if near := didYouMean(alike(unknown, known, other)); near != "" {
		return near
	}
	if owner, of := siblings(unknown, known); len(of) > 0 {
		return "of " + owner + " it has " + strings.Join(of, ", ")
	}
	if near := didYouMean(akin(unknown, known, other)); near != "" {
		return near
	}
	return "it has " + strings.Join(known, ", ")
}

// DidYouMean ends a message about an unknown name with the known ones that are alike; empty without any.
func DidYouMean(unknown string, known []string) string { return didYouMean(alike(unknown, known, nil)) }

// Near is DidYouMean with a space behind it, to begin what a message says of the known names.
func Near(unknown string, known []string) string {
	if text := DidYouMean(unknown, known); text != "" {
		return text + " "
	}
	return ""
}

func didYouMean(near []string) string {
	if len(near) == 0 {
		return ""
	}
	return "did you mean " + strings.Join(near, " or ") + "?"
}

// alike returns the names that an unknown one may be a misspelling of, the likeliest first. The part
// before the first dot may be missing, or it may be another name.
func alike(unknown string, known []string, other map[string]string) []string {
	if unknown == "" || len(unknown) > longName {
		return nil
	}
	matcher := strutil.NewJaroWinklerMatcher(unknown)
	likeness := map[string]float64{}
	for _, name := range known {
		_, last, _ := strings.Cut(name, ".")
		likeness[name] = max(matcher.Score(name), matcher.Score(last))
		if other[name] != "" {
			likeness[name] = max(likeness[name], matcher.Score(other[name]))
		}
		if oneLetter(unknown, name) {
			likeness[name] = max(likeness[name], alikeFrom)
		}
	}
	near := slices.DeleteFunc(slices.Clone(known), func(name string) bool { return likeness[name] < alikeFrom })
	slices.SortStableFunc(near, func(a, b string) int { return cmp.Compare(likeness[b], likeness[a]) })
	return near[:min(len(near), mostAlike)]
}

// oneLetter reports whether names of at least four letters differ in one that is added, dropped or replaced,
// which similarities find only towards the end of a short name.
func oneLetter(a, b string) bool {
	if min(len(a), len(b)) < 4 {
		return false
	}
	for a != "" && b != "" && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for a != "" && b != "" && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	return max(len(a), len(b)) == 1
}

// akin returns the names that have most words in common with an unknown one.
func akin(unknown string, known []string, other map[string]string) []string {
	if len(unknown) > longName {
		return nil
	}
	asked, most := words(unknown), 0
	var near []string
	for _, name := range known {
		has, shared := words(name+"."+other[name]), 0
		for word := range asked {
			if has[word] {
				shared++
			}
		}
		if shared > most {
			near, most = nil, shared
		}
		if shared == most && most > 0 {
			near = append(near, name)
		}
	}
	return near[:min(len(near), mostAlike)]
}

// words are those of a name in any spelling, in lower case.
func words(name string) map[string]bool {
	var spaced strings.Builder
	wasLower := false
	for _, r := range name {
		if unicode.IsUpper(r) && wasLower || !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			spaced.WriteByte(' ')
		}
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			spaced.WriteRune(unicode.ToLower(r))
		}
		wasLower = unicode.IsLower(r)
	}
	out := map[string]bool{}
	for _, word := range strings.Fields(spaced.String()) {
		out[word] = true
	}
	return out
}

func siblings(unknown string, known []string) (owner string, of []string) {
	owner, _, dotted := strings.Cut(unknown, ".")
	return owner, slices.DeleteFunc(slices.Clone(known), func(name string) bool {
		return !dotted || !strings.HasPrefix(name, owner+".")
	})
}
