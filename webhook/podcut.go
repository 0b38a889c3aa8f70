package webhook

// wanted is what is kept of a JSON object, by the names of its members; nil keeps a value whole. What is said of an object is
// said of each in a list, too.
type wanted map[string]wanted

var (
	wantedContainer = wanted{"name": nil, "resources": nil, "restartPolicy": nil}
	// wantedPod is what slimPod reads.
	wantedPod = wanted{
		"metadata": {"name": nil, "generateName": nil, "namespace": nil, "labels": nil, "annotations": nil, "ownerReferences": nil},
		"spec":     {"resources": nil, "containers": wantedContainer, "initContainers": wantedContainer},
	}
)

// prune copies of a pod what is read of it, a small part: reading the rest thoroughly, only to drop it, would be most of what a
// review costs. What is left out has its brackets in pairs and is otherwise not looked at. It is not ok where anything is out of the
// ordinary, and all is for the thorough reader then.
func prune(pod []byte) (small []byte, ok bool) {
	c := cutter{body: pod, rest: make([]byte, 0, min(len(pod), 1024))}
	start := c.blank(0)
	if start >= len(pod) || pod[start] != '{' {
		return nil, false
	}
	end, ok := c.keep(start, wantedPod)
	if !ok || c.blank(end) != len(pod) {
		return nil, false
	}
	return c.rest, true
}

// keep copies what is wanted of the value that begins at a place into the rest, and returns where it ends.
func (c *cutter) keep(i int, w wanted) (end int, ok bool) {
	switch {
	case w != nil && c.body[i] == '{':
		c.rest = append(c.rest, '{')
		first := true
		end, ok = c.members(i, func(key []byte, i int) (int, bool) {
			inner, is := w[string(key)]
			if !is {
				return c.value(i)
			}
			if !first {
				c.rest = append(c.rest, ',')
			}
			first = false
			c.rest = append(append(append(c.rest, '"'), key...), '"', ':')
			return c.keep(i, inner)
		})
		c.rest = append(c.rest, '}')
		return end, ok
	case w != nil && c.body[i] == '[':
		return c.keepEach(i, w)
	}
	end, ok = c.value(i)
	if ok {
		c.rest = append(c.rest, c.body[i:end]...)
	}
	return end, ok
}

func (c *cutter) keepEach(i int, w wanted) (end int, ok bool) {
	c.rest = append(c.rest, '[')
	if i = c.blank(i + 1); i < len(c.body) && c.body[i] == ']' {
		c.rest = append(c.rest, ']')
		return i + 1, true
	}
	for i < len(c.body) {
		if i, ok = c.keep(i, w); !ok {
			return 0, false
		}
		if i = c.blank(i); i >= len(c.body) {
			return 0, false
		}
		c.rest = append(c.rest, c.body[i])
		switch c.body[i] {
		case ']':
			return i + 1, true
		case ',':
			i = c.blank(i + 1)
		default:
			return 0, false
		}
	}
	return 0, false
}
