package upstream

import (
	"maps"
	"slices"
)

// shorten removes from a story whatever is not needed to keep a property.
func shorten(s story, shows func(story) bool) story {
	if !shows(s) {
		return s
	}
	tries := 1500 // a story that is not the shortest is better than none
	try := func(change func(*story)) bool {
		if tries--; tries < 0 {
			return false
		}
		candidate := s
		candidate.Events, candidate.Flags = slices.Clone(s.Events), maps.Clone(s.Flags)
		change(&candidate)
		if !shows(candidate) {
			return false
		}
		s = candidate
		return true
	}
	for size := len(s.Events) / 2; size > 0 && tries > 0; {
		smaller := false
		for i := 0; i < len(s.Events); {
			end := min(i+size, len(s.Events))
			if try(func(x *story) { x.Events = slices.Delete(x.Events, i, end) }) {
				smaller = true
			} else {
				i = end
			}
		}
		if size > 1 || !smaller {
			size /= 2
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Flags)) {
		try(func(x *story) { delete(x.Flags, name) })
	}
	for i := range s.Events {
		try(func(x *story) { x.Events[i].Policies = nil })
		try(func(x *story) { x.Events[i].Whole = nil })
		try(func(x *story) { x.Events[i].Later = 0 })
		try(func(x *story) { x.Events[i].Init = nil })
	}
	return s
}
