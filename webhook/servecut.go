package webhook

import "bytes"

// cut takes out of an AdmissionReview what is large and is not looked at here, so that the thorough reader reads only what is
// small: in the result there are nulls in the place of request.object, request.oldObject, request.userInfo and request.options.
// The two objects are parts of the body. What is cut out has its brackets in pairs and is otherwise not looked at: whoever reads
// an object finds out. It is not ok where anything is out of the ordinary, and all is for the thorough reader then.
func cut(body []byte) (rest, object, oldObject []byte, ok bool) {
	c := cutter{body: body, rest: make([]byte, 0, min(len(body), 1024))}
	seen := false
	end, ok := c.members(c.blank(0), func(key []byte, i int) (int, bool) {
		if string(key) != "request" || body[i] != '{' {
			return c.value(i)
		}
		if seen {
			return 0, false // a second request
		}
		seen = true
		return c.members(i, c.requestMember)
	})
	if !ok || c.blank(end) != len(body) {
		return nil, nil, nil, false
	}
	return append(c.rest, body[c.kept:]...), c.object, c.oldObject, true
}

type cutter struct {
	body, rest        []byte
	kept              int // up to here the body is in the rest
	object, oldObject []byte
}

func (c *cutter) requestMember(key []byte, i int) (int, bool) {
	end, ok := c.value(i)
	if !ok || c.body[i] == 'n' { // null
		return end, ok
	}
	switch string(key) {
	case "object":
		ok = c.object == nil
		c.object = c.body[i:end:end]
	case "oldObject":
		ok = c.oldObject == nil
		c.oldObject = c.body[i:end:end]
	case "userInfo", "options":
	default:
		return end, true
	}
	c.rest = append(append(c.rest, c.body[c.kept:i]...), "null"...)
	c.kept = end
	return end, ok
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
