package webhook

import (
	"crypto/tls"
	"fmt"
	"slices"
	"strings"

	"github.com/go-logr/logr"
)

// TLSConfig reads the flags --min-tls-version (tls1_2, the default, or tls1_3) and --tls-ciphers: names of Go's cipher suites,
// separated by commas or colons; those of TLS 1.3 cannot be chosen. It logs and ignores suites that Go does not know or calls
// insecure. If none is left, Go chooses (UPSTREAM.md §4.1).
func TLSConfig(minVersion, ciphers string, log logr.Logger) (*tls.Config, error) {
	config := &tls.Config{NextProtos: []string{"http/1.1"}}
	switch minVersion {
	case "", "tls1_2":
		config.MinVersion = tls.VersionTLS12
	case "tls1_3":
		config.MinVersion = tls.VersionTLS13
	default:
		return nil, fmt.Errorf("--min-tls-version is %q; use tls1_2 or tls1_3", minVersion)
	}
	known := map[string]*tls.CipherSuite{}
	for _, suite := range tls.CipherSuites() {
		known[suite.Name] = suite
	}
	var unknown []string
	for _, name := range strings.FieldsFunc(ciphers, func(r rune) bool { return r == ',' || r == ':' }) {
		name = strings.TrimSpace(name)
		switch suite := known[name]; {
		case name == "":
		case suite == nil:
			unknown = append(unknown, name)
		default:
			config.CipherSuites = append(config.CipherSuites, suite.ID)
		}
	}
	if len(unknown) > 0 {
		slices.Sort(unknown)
		log.Info("ignoring unknown or insecure cipher suites in --tls-ciphers; use the names of secure suites in Go's crypto/tls", "unknown", unknown)
	}
	return config, nil
}
