package civil

import (
	"strings"
	"testing"
)

func TestZoneHint(t *testing.T) {
	t.Parallel()
	const (
		place  = "write the zone of a place, such as "
		abbrev = "an abbreviation does not say when clocks change: " + place
		offset = "an offset does not say when clocks change: " + place + "Europe/Berlin"
		other  = "use a name of the tz database, such as Europe/Berlin, or UTC"
	)
	for name, want := range map[string]string{
		"Berlin": "did you mean Europe/Berlin?", "new york": "did you mean America/New_York?", "NAIROBI": "did you mean Africa/Nairobi?",
		"port au prince": other, "Port-Au-Prince": "did you mean America/Port-au-Prince?", "Port of Spain": "did you mean America/Port_of_Spain?",
		"Buenos Aires": "did you mean America/Buenos_Aires?", "europe/berlin": "did you mean Europe/Berlin?", "Europe/New York": "did you mean America/New_York?",
		"Germany/Berlin": "did you mean Europe/Berlin?",
		"CET":            abbrev + "Europe/Berlin", "pst": abbrev + "America/Los_Angeles",
		"utc": "did you mean UTC?", "Z": "did you mean UTC?", "UTC+2": offset, "GMT-05:00": offset, "+02:00": offset,
		"Europe/Berln": other, "": other, "/": other, "../../etc": other, strings.Repeat("x", 10_000): other,
	} {
		if got := ZoneHint(name); got != want {
			t.Errorf("%.40q: %s, want %s", name, got, want)
		}
	}
}

// Every suggested zone exists.
func TestAbbreviatedZones(t *testing.T) {
	t.Parallel()
	for _, name := range strings.Fields("CET CEST MET EET WET BST MSK EST CST MST PST HST IST JST SGT EAT WAT CAT SAST AEST NZST") {
		if _, err := LoadZone(AbbreviatedZone(name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
