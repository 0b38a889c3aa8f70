package upstream

// shrink removes from a case whatever is not needed to keep a property.
func shrink(c testCase, shows func(testCase) bool) testCase {
	if !shows(c) {
		return c
	}
	for smaller := true; smaller; {
		smaller = false
		try := func(change func(*testCase)) bool {
			candidate := c.copy()
			change(&candidate)
			if !shows(candidate) {
				return false
			}
			c, smaller = candidate, true
			return true
		}
		if c.Old != nil {
			try(func(x *testCase) { x.Old = nil })
		}
		for _, off := range []func(*testCase){
			func(x *testCase) { x.Gates.InPlace = false },
			func(x *testCase) { x.Gates.PerVPAConfig = false },
			func(x *testCase) { x.Gates.CPUStartupBoost = false },
		} {
			if with := c.Gates; func() bool { x := c; off(&x); return x.Gates != with }() {
				try(off)
			}
		}
		// An unchanged value is removed from both objects at once.
		for i := 0; c.Old != nil && i < len(places(c.Object)); {
			p := places(c.Object)[i]
			_, wasThere := at(c.Old, p)
			if !wasThere || !try(func(x *testCase) { without(x.Object, p); without(x.Old, p) }) {
				i++
			}
		}
		for _, object := range []func(*testCase) map[string]any{
			func(x *testCase) map[string]any { return x.Object },
			func(x *testCase) map[string]any { return x.Old },
		} {
			// After a removal the next value is at the same index.
			for i := 0; i < len(places(object(&c))); {
				p := places(object(&c))[i]
				if !try(func(x *testCase) { without(object(x), p) }) {
					i++
				}
			}
		}
	}
	return c
}
