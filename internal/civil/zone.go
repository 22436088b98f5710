package civil

import (
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // a system without zone files knows every zone too
)

// LoadZone returns the zone of a name of the tz database, such as Europe/Berlin or UTC. The machine's own zone
// ("Local") and the empty name are refused: a rule means the same on every machine. It reads files; the caller keeps
// what it has loaded. The error is an *Error.
func LoadZone(name string) (*time.Location, error) {
	refused := &Error{
		Message: strconv.Quote(name) + " is not a zone",
		Hint:    "use a name of the tz database, such as Europe/Berlin, or UTC",
	}
	switch area, _, _ := strings.Cut(name, "/"); area {
	case "", "Local":
		return nil, refused
	case "posix", "right", "posixrules", "localtime", "Factory":
		// Files beside the zones on many systems: copies, copies that count leap seconds, and the machine's own zone.
		return nil, refused
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		return nil, refused
	}
	return loc, nil
}

// Zones caches loaded zones, so that code that handles many contacts does not read a file for each. The zero value is empty and ready
// for use; it is safe for concurrent use and must not be copied.
type Zones struct{ loaded sync.Map } // name → *time.Location

// Load is LoadZone, once for each name.
func (z *Zones) Load(name string) (*time.Location, error) {
	if loc, ok := z.loaded.Load(name); ok {
		return loc.(*time.Location), nil
	}
	loc, err := LoadZone(name)
	if err == nil {
		z.loaded.Store(name, loc)
	}
	return loc, err
}

// Use assigns rules to a name from now on, whatever the zone files say.
func (z *Zones) Use(name string, loc *time.Location) { z.loaded.Store(name, loc) }

// Rules returns a text for the rules of every loaded zone, by name. Two texts are equal when the zones have the same offsets from 2020 to
// 2060.
func (z *Zones) Rules() map[string]string {
	all := map[string]string{}
	z.loaded.Range(func(name, loc any) bool {
		all[name.(string)] = rulesOf(loc.(*time.Location))
		return true
	})
	return all
}

func rulesOf(loc *time.Location) string {
	h := fnv.New128a()
	until := time.Date(2060, 1, 1, 0, 0, 0, 0, time.UTC)
	for t := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC); ; {
		ahead, end := OffsetAt(t, loc)
		fmt.Fprintf(h, "%d %d\n", t.Unix(), ahead)
		if end.IsZero() || !end.Before(until) {
			return hex.EncodeToString(h.Sum(nil))
		}
		t = end
	}
}
