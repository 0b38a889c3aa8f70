package facts

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func window(t *testing.T, text string) timeWindow {
	t.Helper()
	w, err := parseWindow(text)
	require.NoError(t, err)
	return w
}

func at(t *testing.T, text string) int64 {
	t.Helper()
	seconds, err := timeUnit.Parse(text)
	require.NoError(t, err)
	return seconds
}

// TestWindows: 26 December 2026 is a Saturday. In Berlin, clocks are put forward from 02:00 to 03:00 on Sunday, 29 March 2026, and
// back from 03:00 to 02:00 on Sunday, 25 October.
func TestWindows(t *testing.T) {
	for _, tt := range []struct {
		window, at string
		in         bool
		opens      string // if it is not open
	}{
		{"Sat-Sun", "2026-12-26T00:00:00Z", true, ""},
		{"Sat-Sun", "2026-12-25T23:59:59Z", false, "2026-12-26T00:00:00Z"},
		{"Sat-Sun", "2026-12-28T00:00:00Z", false, "2027-01-02T00:00:00Z"},
		{"Sun-Mon,Wed", "2026-12-30T12:00:00Z", true, ""},
		{"Sat-Mon", "2026-12-28T12:00:00Z", true, ""},
		{"22:00-06:00", "2026-12-26T21:59:59Z", false, "2026-12-26T22:00:00Z"},
		{"22:00-06:00", "2026-12-26T22:00:00Z", true, ""},
		{"22:00-06:00", "2026-12-26T05:59:59Z", true, ""},
		{"22:00-06:00", "2026-12-26T06:00:00Z", false, "2026-12-26T22:00:00Z"},
		{"Sat 22:00-06:00", "2026-12-26T05:00:00Z", false, "2026-12-26T22:00:00Z"}, // of Friday
		{"Sat 22:00-06:00", "2026-12-27T05:00:00Z", true, ""},
		{"18:00-24:00", "2026-12-26T23:59:59Z", true, ""},
		{"18:00-24:00", "2026-12-27T00:00:00Z", false, "2026-12-27T18:00:00Z"},
		{"Sat 00:00-06:00 Europe/Berlin", "2026-12-25T22:59:59Z", false, "2026-12-26T00:00:00+01:00"},
		{"Sat 00:00-06:00 Europe/Berlin", "2026-12-25T23:00:00Z", true, ""},
		{"Sat Asia/Kathmandu", "2026-12-25T18:15:00Z", true, ""}, // 05:45 ahead

		{"Sat-Sun; 22:00-06:00 Europe/Berlin", "2026-12-27T12:00:00Z", true, ""},
		{"Sat-Sun; 22:00-06:00 Europe/Berlin", "2026-12-28T04:59:59Z", true, ""},
		{"Sat-Sun; 22:00-06:00 Europe/Berlin", "2026-12-28T05:00:00Z", false, "2026-12-28T22:00:00+01:00"},
		{"Sat-Sun;Wed 12:00-13:00", "2026-12-28T05:00:00Z", false, "2026-12-30T12:00:00Z"},
		{"Wed 12:00-13:00; Sat-Sun", "2026-12-30T13:00:00Z", false, "2027-01-02T00:00:00Z"},

		// Forward: 02:30 does not exist.
		{"02:30-03:30 Europe/Berlin", "2026-03-29T00:59:59Z", false, "2026-03-29T03:00:00+02:00"},
		{"02:30-03:30 Europe/Berlin", "2026-03-29T01:00:00Z", true, ""},
		{"02:30-03:30 Europe/Berlin", "2026-03-29T01:30:00Z", false, "2026-03-30T02:30:00+02:00"},
		{"Sun 02:15-02:45 Europe/Berlin", "2026-03-28T12:00:00Z", false, "2026-04-05T02:15:00+02:00"}, // left out for a week
		{"22:00-06:00 Europe/Berlin", "2026-03-29T03:59:59Z", true, ""},
		{"22:00-06:00 Europe/Berlin", "2026-03-29T04:00:00Z", false, "2026-03-29T22:00:00+02:00"},
		// Back: 02:30 comes twice.
		{"Sun 02:15-02:45 Europe/Berlin", "2026-10-25T00:15:00Z", true, ""},
		{"Sun 02:15-02:45 Europe/Berlin", "2026-10-25T00:45:00Z", false, "2026-10-25T02:15:00+01:00"},
		{"Sun 02:15-02:45 Europe/Berlin", "2026-10-25T01:15:00Z", true, ""},
		{"Sun 02:15-02:45 Europe/Berlin", "2026-10-25T01:45:00Z", false, "2026-11-01T02:15:00+01:00"},
		{"22:00-06:00 Europe/Berlin", "2026-10-25T04:59:59Z", true, ""},
		// Here midnight is left out: from Thursday, 24 April 2026, 23:59 to Friday, 01:00.
		{"Fri Africa/Cairo", "2026-04-23T21:59:59Z", false, "2026-04-24T01:00:00+03:00"},
	} {
		t.Run(tt.window+" at "+tt.at, func(t *testing.T) {
			w, seconds := window(t, tt.window), at(t, tt.at)
			require.Equal(t, tt.in, w.has(w.zone.at(seconds)))
			opens := w.opens(w.zone.at(seconds))
			if tt.in {
				require.Equal(t, seconds, opens.Unix())
			} else {
				require.Equal(t, tt.opens, opens.Format(time.RFC3339))
			}
		})
	}
}

// TestAWindowOpensWhereTheMinutesSay: a search minute by minute finds the same opening, whatever clocks do meanwhile.
func TestAWindowOpensWhereTheMinutesSay(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	zones := []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Cairo", "Asia/Kathmandu", "Pacific/Apia", "America/Santiago"}
	changes := []string{"2026-03-08T07:00:00Z", "2026-03-29T01:00:00Z", "2026-10-25T01:00:00Z", "2026-11-01T06:00:00Z", "2026-04-04T15:00:00Z",
		"2026-10-03T15:30:00Z", "2026-04-23T22:00:00Z", "2011-12-30T10:00:00Z", "2026-09-06T04:00:00Z"}
	for range 2000 {
		var parts []string
		for range 1 + random.IntN(2) {
			var days []string
			for _, day := range weekdays {
				if random.IntN(4) == 0 {
					days = append(days, day)
				}
			}
			from := random.IntN(minutesOfDay)
			to := (from + 1 + random.IntN(minutesOfDay-1)) % minutesOfDay
			parts = append(parts, fmt.Sprintf("%s %02d:%02d-%02d:%02d", strings.Join(days, ","), from/60, from%60, to/60, to%60))
		}
		text := strings.Join(parts, "; ") + " " + zones[random.IntN(len(zones))]
		w := window(t, text)
		begin := at(t, changes[random.IntN(len(changes))]) + int64(random.IntN(4*minutesOfDay)-2*minutesOfDay)*60
		want := w.zone.at(begin)
		for !w.has(want) {
			want = want.Add(time.Minute)
		}
		require.Equal(t, want, w.opens(w.zone.at(begin)), "%s after %s", text, w.zone.at(begin))
	}
}

func TestWindowsThatCannotBeRead(t *testing.T) {
	for text, says := range map[string]string{
		"":                          `"" names neither days nor hours`,
		"Europe/Berlin":             `"Europe/Berlin" names neither days nor hours`,
		"Mo-Fr":                     `"Mo-Fr" names neither days nor hours`,
		"Mon-":                      `"Mon-" names neither`,
		"Sat;":                      `"" names neither`,
		"Sat UTC; 22:00-06:00 UTC":  `"UTC" does not belong there`,
		"Sat 22:00-06:00 Berlin":    `"Berlin" is not a time zone of the IANA database, such as Europe/Berlin or UTC`,
		"Sat 22:00-06:00 Local":     `"Local" is not a time zone`,
		"22:00-22:00":               `"22:00-22:00" ends as it begins, so it never opens`,
		"22:00":                     `"22:00" is not from one time of day to another`,
		"22:00-24:01":               `"22:00-24:01" is not from`,
		"24:00-06:00":               `"24:00-06:00" is not from`,
		"9:00-17:00":                `"9:00-17:00" is not from`,
		"22:60-23:00":               `"22:60-23:00" is not from`,
		"Sat 22:00-06:00 UTC UTC":   `"UTC" does not belong there`,
		"22:00-06:00 Sat":           `"Sat" is not a time zone`,
		"Sat 22:00-06:00 ../../etc": `"../../etc" is not a time zone`,
	} {
		_, err := parseWindow(text)
		require.ErrorContains(t, err, says, text)
		require.ErrorContains(t, err, "write days of the week, hours or both, such as Sat-Sun; 22:00-06:00 Europe/Berlin, and the time zone at the end", text)
	}
	_, err := parseWindow(strings.Repeat("Sat;", 20) + "Sun")
	require.ErrorContains(t, err, "it has more than 20 parts")
	for _, name := range []string{"", "Local", "Mars/Olympus"} {
		_, err := parseZone(name)
		require.ErrorContains(t, err, "is not a time zone of the IANA database", name)
	}
	_, err = timeUnit.Parse("2026-12-24")
	require.ErrorContains(t, err, `"2026-12-24" is not a time such as 2026-12-24T18:00:00Z`)
}
