package civil

import (
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

// Zones are the zones that were loaded once, so that a path over many people reads no file for each. The zero
// value is empty and ready for use; it is safe for concurrent use and must not be copied. It never holds more than
// there are zones.
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
