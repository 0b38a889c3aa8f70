package manifests

import (
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// fetchTimeout bounds a request with its redirects and its answer.
const fetchTimeout = time.Minute

// IsURL reports whether a path is fetched from a server.
func IsURL(path string) bool {
	return strings.HasPrefix(path, "http://") || strings.HasPrefix(path, "https://")
}

// readURL reads what a server answers. Places name the address without its password.
func (s *Set) readURL(address string) []error {
	name := address
	if u, err := url.Parse(address); err == nil {
		name = u.Redacted()
	}
	client := http.Client{Timeout: fetchTimeout}
	answer, err := client.Get(address)
	if err != nil {
		var cause *url.Error
		if errors.As(err, &cause) { // it names the address, too
			err = cause.Err
		}
		return []error{fmt.Errorf("cannot read %s: %w", name, err)}
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return []error{fmt.Errorf("cannot read %s: the server answers %s", name, answer.Status)}
	}
	if kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type")); kind == "text/html" {
		return []error{fmt.Errorf("cannot read %s: it is a web page; use the address of the file itself, such as that behind Raw", name)}
	}
	return s.readFrom(answer.Body, name)
}
