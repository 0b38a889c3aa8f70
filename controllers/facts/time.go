package facts

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // the same zones on every machine that has none of its own

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/registry"
)

var timeUnit = lang.Unit{
	Name: Time, Func: "time", Doc: "seconds since 1970",
	Parse: func(s string) (int64, error) {
		t, err := time.Parse(time.RFC3339, s)
		if err != nil {
			return 0, fmt.Errorf("%q is not a time such as 2026-12-24T18:00:00Z or 2026-12-24T18:00:00+01:00", s)
		}
		return t.Unix(), nil
	},
	Format: func(n int64) string { return time.Unix(n, 0).UTC().Format(time.RFC3339) },
}

func addTimeFunctions(r *registry.Registry) {
	registry.AddText(r, "timeZone", "a zone of the IANA database by its name, such as Europe/Berlin or UTC", parseZone)
	registry.AddText(r, "timeWindow", "days of the week, hours or both, and the time zone at the end, UTC if it is missing, such as Sat-Sun; 22:00-06:00 Europe/Berlin for weekends and all nights, or Mon,Wed-Fri 22:00-06:00. Hours that pass midnight belong to the day on which they begin", parseWindow)
	r.AddFunction("hour", registry.NoUnit, "the hour of a time in a zone, 0 to 23",
		registry.Func2(func(at int64, z timeZone) int64 { return int64(z.at(at).Hour()) }))
	r.AddFunction("weekday", registry.NoUnit, "the day of the week of a time in a zone: Mon, Tue, Wed, Thu, Fri, Sat or Sun",
		registry.Func2(func(at int64, z timeZone) string { return z.at(at).Format("Mon") }))
	r.AddFunction("date", registry.NoUnit, "the date of a time in a zone, such as 2026-12-24; earlier dates are less",
		registry.Func2(func(at int64, z timeZone) string { return z.at(at).Format(time.DateOnly) }))
	r.AddFunction("inWindow", registry.NoUnit, "whether a time is in a window, by the clocks of its zone",
		registry.Func2(func(at int64, w timeWindow) bool { return w.has(w.zone.at(at)) }))
	r.AddFunction("windowOpens", registry.NoUnit, "when a window opens next after a time, such as 2026-12-26T22:00:00+01:00, for use in reasons; the time itself in the window",
		registry.Func2(func(at int64, w timeWindow) string { return w.opens(w.zone.at(at)).Format(time.RFC3339) }))
}

var (
	zoneType   = cel.OpaqueType("TimeZone")
	windowType = cel.OpaqueType("TimeWindow")
)

// written is a value that rule files write as text.
type written struct {
	as string
	of *cel.Type
}

// ConvertToNative implements ref.Val.
func (w written) ConvertToNative(t reflect.Type) (any, error) {
	return nil, fmt.Errorf("a %s cannot be converted to %v", w.of, t)
}

// ConvertToType implements ref.Val.
func (w written) ConvertToType(t ref.Type) ref.Val {
	if t == types.TypeType {
		return w.of
	}
	return types.NewErr("a %s cannot be converted to %s", w.of, t.TypeName())
}

// Equal implements ref.Val.
func (w written) Equal(other ref.Val) ref.Val {
	return types.Bool(other.Type() == ref.Type(w.of) && other.Value() == w.Value())
}

// Value implements ref.Val.
func (w written) Value() any { return w.as }

// timeZone is a zone of the IANA database.
type timeZone struct {
	written
	location *time.Location
}

// Type implements ref.Val.
func (timeZone) Type() ref.Type { return zoneType }

// at is a time, in seconds since 1970, by the clocks of the zone.
func (z timeZone) at(seconds int64) time.Time { return time.Unix(seconds, 0).In(z.location) }

func parseZone(name string) (timeZone, error) {
	location, err := time.LoadLocation(name)
	if err != nil || name == "" || name == "Local" { // Local depends on the machine
		return timeZone{}, fmt.Errorf("%q is not a time zone of the IANA database, such as Europe/Berlin or UTC", name)
	}
	return timeZone{written{name, zoneType}, location}, nil
}

// timeWindow is made of parts of the week, by the clocks of a zone.
type timeWindow struct {
	written
	zone  timeZone
	parts []weekPart
}

// Type implements ref.Val.
func (timeWindow) Type() ref.Type { return windowType }

// weekPart is from minute from to minute to of some days. With to at or before from it ends on the next day.
type weekPart struct {
	days     [7]bool // from Sunday
	from, to int     // minutes of the day, 0 to 1440
}

// maxParts bounds the time that a rule takes.
const maxParts = 20

func parseWindow(text string) (timeWindow, error) {
	w := timeWindow{written: written{text, windowType}}
	all, err := strings.Split(text, ";"), error(nil)
	zone := "UTC"
	if len(all) > maxParts {
		all, err = nil, fmt.Errorf("it has more than %d parts", maxParts)
	}
	for i, part := range all {
		words := strings.Fields(part)
		var p weekPart
		if p, words, err = parsePart(words); err != nil {
			break
		}
		w.parts = append(w.parts, p)
		if i == len(all)-1 && len(words) > 0 {
			zone, words = words[0], words[1:]
		}
		if len(words) > 0 {
			err = fmt.Errorf("%q does not belong there", words[0])
			break
		}
	}
	if err == nil {
		w.zone, err = parseZone(zone)
	}
	if err != nil {
		return timeWindow{}, fmt.Errorf("%.100q is not a time window: %w; write days of the week, hours or both, such as Sat-Sun; 22:00-06:00 Europe/Berlin, and the time zone at the end", text, err)
	}
	return w, nil
}

// parsePart reads days, hours or both, and returns the words behind them.
func parsePart(words []string) (p weekPart, rest []string, err error) {
	p = weekPart{to: minutesOfDay, days: [7]bool{true, true, true, true, true, true, true}}
	rest = words
	if len(rest) > 0 {
		if days, ok := parseDays(rest[0]); ok {
			p.days, rest = days, rest[1:]
		}
	}
	if len(rest) > 0 && strings.Contains(rest[0], ":") {
		from, to, _ := strings.Cut(rest[0], "-")
		var okFrom, okTo bool
		p.from, okFrom = parseClock(from)
		p.to, okTo = parseClock(to)
		switch {
		case !okFrom || !okTo || p.from == minutesOfDay:
			return p, nil, fmt.Errorf("%q is not from one time of day to another, of 00:00 to 24:00", rest[0])
		case p.from == p.to:
			return p, nil, fmt.Errorf("%q ends as it begins, so it never opens", rest[0])
		}
		rest = rest[1:]
	}
	if len(rest) == len(words) {
		return p, nil, fmt.Errorf("%q names neither days nor hours", strings.Join(words, " "))
	}
	return p, rest, nil
}

const minutesOfDay = 24 * 60

var weekdays = []string{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"}

// parseDays reads days of the week and ranges of them, such as Mon-Fri,Sun.
func parseDays(text string) (days [7]bool, ok bool) {
	for _, part := range strings.Split(text, ",") {
		first, last, isRange := strings.Cut(part, "-")
		from, to := slices.Index(weekdays, first), slices.Index(weekdays, last)
		if !isRange {
			to = from
		}
		if from < 0 || to < 0 {
			return days, false
		}
		for day := from; ; day = (day + 1) % 7 {
			days[day] = true
			if day == to {
				break
			}
		}
	}
	return days, true
}

// parseClock reads the minutes of a time of day, 00:00 to 24:00.
func parseClock(text string) (minutes int, ok bool) {
	hour, minute, _ := strings.Cut(text, ":")
	h, errH := strconv.ParseUint(hour, 10, 8)
	m, errM := strconv.ParseUint(minute, 10, 8)
	minutes = int(h)*60 + int(m)
	return minutes, errH == nil && errM == nil && len(hour) == 2 && len(minute) == 2 && m < 60 && minutes <= minutesOfDay
}

// has reports whether a time in the window's zone is in the window.
func (w timeWindow) has(t time.Time) bool {
	minute, today := t.Hour()*60+t.Minute(), t.Weekday()
	yesterday := (today + 6) % 7
	return slices.ContainsFunc(w.parts, func(p weekPart) bool {
		if p.from < p.to {
			return p.days[today] && p.from <= minute && minute < p.to
		}
		return p.days[today] && p.from <= minute || p.days[yesterday] && minute < p.to
	})
}

// opens is the first time from t on that is in the window.
func (w timeWindow) opens(t time.Time) time.Time {
	if w.has(t) {
		return t
	}
	var first time.Time
	begins := func(at time.Time) bool {
		in := at.After(t) && w.has(at)
		if in && (first.IsZero() || at.Before(first)) {
			first = at
		}
		return in
	}
	if _, changed := t.ZoneBounds(); !changed.IsZero() { // clocks that are changed may lead into the window
		begins(changed)
	}
	for _, p := range w.parts {
		// Clocks that are put forward may leave out a week's only opening.
		for day, found := 0, false; day < 15 && !found; day++ {
			if !p.days[(int(t.Weekday())+day)%7] {
				continue
			}
			at := time.Date(t.Year(), t.Month(), t.Day()+day, 0, p.from, 0, 0, t.Location())
			found = begins(at)
			// The same time by the clocks of before and after a change nearby.
			since, until := at.ZoneBounds()
			for _, other := range []time.Time{since.Add(-time.Second), until} {
				if apart := at.Sub(other).Abs(); apart < 25*time.Hour {
					_, offset := at.Zone()
					_, otherOffset := other.In(t.Location()).Zone()
					found = begins(at.Add(time.Duration(offset-otherOffset)*time.Second)) || found
				}
			}
		}
	}
	return first
}
