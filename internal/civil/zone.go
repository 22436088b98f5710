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

// LoadZone returns the zone of that name in the tz database, such as Europe/Berlin or UTC. It refuses the machine's own zone ("Local") and
// the empty name, so that a rule means the same on every machine. It reads files, so callers should keep the result. The error is an
// *Error.
func LoadZone(name string) (*time.Location, error) {
	refused := &Error{
		Message: strconv.Quote(name) + " is not a zone",
		Hint:    "use a name of the tz database, such as Europe/Berlin, or UTC",
	}
	switch area, _, _ := strings.Cut(name, "/"); area {
	case "", "Local":
		return nil, refused
	case "posix", "right", "posixrules", "localtime", "Factory":
		// Many systems have further files among the zones: copies, copies that count leap seconds, and the machine's own zone.
		return nil, refused
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		return nil, refused
	}
	return loc, nil
}

// Zones caches loaded zones, so that code that handles many contacts does not read a file for each of them. The zero value is ready for
// use. A Zones is safe for concurrent use and must not be copied.
type Zones struct{ loaded sync.Map } // name → *time.Location

// Load is LoadZone with the cache.
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

// Use replaces the rules of a name, in place of those of the zone files.
func (z *Zones) Use(name string, loc *time.Location) { z.loaded.Store(name, loc) }

// Rules returns a text for the rules of every loaded zone, by name. Two texts are equal if the zones have the same offsets from 2020 to
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
