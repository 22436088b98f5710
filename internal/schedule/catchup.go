package schedule

import (
	"strconv"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
)

// CatchUp is how late a message may still be sent (product decision 59). The zero CatchUp means DefaultCatchUp.
type CatchUp struct {
	Never   bool          // only on time: up to Punctual late
	Forever bool          // without a bound
	Within  time.Duration // up to this late, inclusive; if neither of the above
}

// ParseCatchUp reads a duration, never or forever. The error is a *civil.Error.
func ParseCatchUp(s string) (CatchUp, error) {
	switch s {
	case "never":
		return CatchUp{Never: true}, nil
	case "forever":
		return CatchUp{Forever: true}, nil
	}
	d, err := civil.ParseDuration(s)
	if err != nil {
		return CatchUp{}, &civil.Error{
			Message: strconv.Quote(s) + " does not say how late",
			Hint:    "write a duration such as 48h, or never, or forever",
		}
	}
	if d.IsZero() {
		return CatchUp{Never: true}, nil
	}
	return CatchUp{Within: d.Exact()}, nil
}

func (c CatchUp) misses(late time.Duration) bool {
	switch {
	case c.Forever:
		return false
	case c.Never:
		return late > Punctual
	case c.Within == 0:
		return late > DefaultCatchUp
	}
	return late > c.Within
}

// String returns the setting as it is written in a definition.
func (c CatchUp) String() string {
	switch {
	case c.Never:
		return "never"
	case c.Forever:
		return "forever"
	case c.Within == 0:
		return DefaultCatchUp.String()
	}
	return c.Within.String()
}
