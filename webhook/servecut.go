package webhook

import "bytes"

// cutter finds its way through JSON without reading it: what it goes over has its brackets in pairs, and is otherwise not looked at.
// Whatever is out of the ordinary is not ok.
type cutter struct {
	body []byte
	rest []byte // what is copied of it
}

// members goes through an object that begins at a place, and returns where it ends. Each is given the place of its value, and
// returns where that ends.
func (c *cutter) members(i int, each func(key []byte, i int) (int, bool)) (end int, ok bool) {
	if i >= len(c.body) || c.body[i] != '{' {
		return 0, false
	}
	if i = c.blank(i + 1); i < len(c.body) && c.body[i] == '}' {
		return i + 1, true
	}
	for {
		if i >= len(c.body) || c.body[i] != '"' {
			return 0, false
		}
		after, ok := c.text(i)
		if !ok {
			return 0, false
		}
		key := c.body[i+1 : after-1]
		if bytes.IndexByte(key, '\\') >= 0 {
			return 0, false
		}
		if i = c.blank(after); i >= len(c.body) || c.body[i] != ':' {
			return 0, false
		}
		if i = c.blank(i + 1); i >= len(c.body) {
			return 0, false
		}
		if i, ok = each(key, i); !ok {
			return 0, false
		}
		if i = c.blank(i); i >= len(c.body) {
			return 0, false
		}
		switch c.body[i] {
		case '}':
			return i + 1, true
		case ',':
			i = c.blank(i + 1)
		default:
			return 0, false
		}
	}
}

// value returns where the value ends that begins at a place.
func (c *cutter) value(i int) (end int, ok bool) {
	switch c.body[i] {
	case '"':
		return c.text(i)
	case '{', '[':
		return c.nested(i)
	}
	for end = i; end < len(c.body); end++ { // a number, true, false or null
		switch c.body[end] {
		case ',', '}', ']', ' ', '\t', '\n', '\r':
			return end, end > i
		case '"', '{', '[', ':':
			return 0, false
		}
	}
	return 0, false
}

// nested returns where an object or a list ends.
func (c *cutter) nested(i int) (end int, ok bool) {
	for depth := 0; i < len(c.body); i++ {
		switch c.body[i] {
		case '"':
			if i, ok = c.text(i); !ok {
				return 0, false
			}
			i--
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1, true
			}
		}
	}
	return 0, false
}

// text returns where a text in quotes ends.
func (c *cutter) text(i int) (end int, ok bool) {
	for i++; ; i++ {
		n := bytes.IndexByte(c.body[i:], '"')
		if n < 0 {
			return 0, false
		}
		i += n
		escapes := 0
		for c.body[i-1-escapes] == '\\' { // the quote before the text ends it
			escapes++
		}
		if escapes%2 == 0 {
			return i + 1, true
		}
	}
}

// blank returns where something stands again.
func (c *cutter) blank(i int) int {
	for i < len(c.body) && (c.body[i] == ' ' || c.body[i] == '\n' || c.body[i] == '\t' || c.body[i] == '\r') {
		i++
	}
	return i
}
