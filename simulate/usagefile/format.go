package usagefile

import (
	"bytes"
	"errors"
	"regexp"
)

var (
	topLine    = regexp.MustCompile(`^(.*CPU\(cores\)|\S+([ \t]+\S+){0,2}[ \t]+\d+m[ \t]+\d+[KMGT]i\b)`)
	scrapeLine = regexp.MustCompile(`^(# (HELP|TYPE|UNIT|EOF)\b|[a-zA-Z_:][a-zA-Z0-9_:]*(\{|[ \t]+[-+]?([0-9][0-9.eE+-]*|NaN|Inf)([ \t]+\d+)?\s*$))`)
)

// otherFormat is the error of a file that holds something else than usage over time, by its beginning;
// nil = it may be usage.
func otherFormat(beginning []byte) error {
	line, _, _ := bytes.Cut(bytes.TrimLeft(beginning, " \t\r\n"), []byte("\n"))
	const tarMark, tarMarkAt = "ustar", 257
	begins := func(text string) bool { return bytes.HasPrefix(line, []byte(text)) }
	switch {
	case bytes.HasPrefix(beginning[min(tarMarkAt, len(beginning)):], []byte(tarMark)):
		return errors.New("it is a tar archive: unpack it, and name the files of usage in it; manifests go to -f")
	case begins("<"):
		return errors.New("it is an HTML page, such as that of a login, and not usage: log in with what the server wants, " +
			"such as curl -H 'Authorization: Bearer TOKEN', and ask for /api/v1/query_range")
	case begins("\xff\xfe"), begins("\xfe\xff"), bytes.IndexByte(line[:min(4, len(line))], 0) >= 0:
		return errors.New("it is UTF-16, as PowerShell writes it: write UTF-8, with Out-File -Encoding utf8")
	case topLine.Match(line):
		return errors.New("it is the output of kubectl top, which is usage of one moment: ask a Prometheus for /api/v1/query_range, " +
			"or write CSV with the columns timestamp,namespace,pod,container,resource,value")
	case scrapeLine.Match(line):
		return errors.New("it is the text of one scrape (Prometheus exposition format), which has no history: ask the Prometheus that scrapes it for /api/v1/query_range")
	case begins("["):
		return errors.New("it is a JSON list: give the whole answer to /api/v1/query_range, with its status and data")
	case begins("apiVersion:"), begins("kind:"), begins("---"):
		return errors.New("it is a manifest: give it with -f")
	}
	return nil
}
