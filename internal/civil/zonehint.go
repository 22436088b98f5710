package civil

import (
	"strings"
	"time"
	"unicode"
)

// ZoneHint returns a hint for a text that LoadZone refuses: the zone of a city, or the zone of a place for an abbreviation or an offset. It
// is slow, so it should be used for error messages only.
func ZoneHint(name string) string {
	if city := cityZone(name); city != "" {
		return "did you mean " + city + "?"
	}
	bare := strings.TrimLeft(strings.ToUpper(name), "UTCGMZ")
	if bare == "" && name != "" {
		return "did you mean UTC?"
	}
	if zone := AbbreviatedZone(name); zone != "" {
		return "an abbreviation does not say when clocks change: write the zone of a place, such as " + zone
	}
	if bare != "" && strings.IndexByte("+-0123456789", bare[0]) >= 0 {
		return "an offset does not say when clocks change: write the zone of a place, such as Europe/Berlin"
	}
	return "use a name of the tz database, such as Europe/Berlin, or UTC"
}

// AbbreviatedZone returns the zone of a place that has the time of an abbreviation; empty if none is known. Some abbreviations are names of
// the tz database too; several of these zones never change their clocks.
func AbbreviatedZone(name string) string {
	switch strings.ToUpper(name) {
	case "CET", "CEST", "MET", "MEZ", "MESZ":
		return "Europe/Berlin"
	case "EET", "EEST":
		return "Europe/Athens"
	case "WET", "WEST":
		return "Europe/Lisbon"
	case "BST":
		return "Europe/London"
	case "MSK":
		return "Europe/Moscow"
	case "EST", "EDT", "ET", "EST5EDT":
		return "America/New_York"
	case "CST", "CDT", "CT", "CST6CDT":
		return "America/Chicago"
	case "MST", "MDT", "MT", "MST7MDT":
		return "America/Denver"
	case "PST", "PDT", "PT", "PST8PDT":
		return "America/Los_Angeles"
	case "HST":
		return "Pacific/Honolulu"
	case "IST":
		return "Asia/Kolkata"
	case "JST":
		return "Asia/Tokyo"
	case "SGT":
		return "Asia/Singapore"
	case "EAT":
		return "Africa/Nairobi"
	case "WAT":
		return "Africa/Lagos"
	case "CAT":
		return "Africa/Maputo"
	case "SAST":
		return "Africa/Johannesburg"
	case "AEST", "AEDT":
		return "Australia/Sydney"
	case "NZST", "NZDT":
		return "Pacific/Auckland"
	}
	return ""
}

// longestCity bounds a text that is searched as a city, in bytes. All names of the database are shorter.
const longestCity = 40

// cityZone returns the zone of a city, in any area and with letters of any case.
func cityZone(name string) string {
	if len(name) > longestCity {
		return ""
	}
	city := name
	if _, below, ok := strings.Cut(name, "/"); ok {
		city = below
	}
	city = capitals(strings.TrimSpace(city))
	for _, area := range []string{
		"Europe", "America", "Asia", "Africa", "Australia", "Pacific", "Atlantic", "Indian", "Antarctica", "Arctic",
		"America/Argentina", "America/Indiana", "America/Kentucky", "America/North_Dakota",
	} {
		zone := area + "/" + city
		if _, err := time.LoadLocation(zone); err == nil && city != "" {
			return zone
		}
	}
	return ""
}

// capitals writes a name in the capitalization of the tz database: New_York, Port_of_Spain, Port-au-Prince.
func capitals(name string) string {
	var b strings.Builder
	start := true
	for word := range strings.FieldsFuncSeq(strings.ReplaceAll(name, "-", " - "), func(c rune) bool { return c == ' ' || c == '_' }) {
		if word == "-" {
			b.WriteByte('-')
			start = true
			continue
		}
		if !start {
			b.WriteByte('_')
		}
		start = false
		switch lower := strings.ToLower(word); lower {
		case "of", "au", "es":
			b.WriteString(lower)
		default:
			runes := []rune(lower)
			runes[0] = unicode.ToUpper(runes[0])
			b.WriteString(string(runes))
		}
	}
	return b.String()
}
