package plan

import (
	"hash/fnv"
	"io"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/key"
)

// clock is a time of day, or a span from which each occasion gets its own minute.
type clock struct {
	time   civil.TimeOfDay
	random civil.Span
}

func (v *view) clock() (clock, error) { return v.clockOf(v.plan.Dates.At) }

func (v *view) clockOf(at definition.At) (clock, error) { return clockOf(at, v.in) }

func clockOf(at definition.At, in expr.Input) (clock, error) {
	switch {
	case !at.Given:
		return clock{time: morning}, nil
	case at.From == nil:
		return clock{time: at.Time, random: at.Random}, nil
	}
	value, err := at.From.Eval(in)
	if err != nil {
		return clock{}, err
	}
	text, err := textOr(value, "a time of day")
	if err != nil || text == "" {
		return clock{time: morning}, err
	}
	c, err := civil.ParseTimeOfDay(text)
	return clock{time: c}, err
}

// of returns the time of day of one occasion. It is derived from the key, so that planning the occasion again gives the same minute.
func (c clock) of(k key.Instance) civil.TimeOfDay {
	if c.random.IsZero() {
		return c.time
	}
	const day, minute = 24 * 60 * 60, 60
	minutes := (int(c.random.To) - int(c.random.From) + day) % day / minute
	if minutes == 0 {
		return c.random.From
	}
	return civil.TimeOfDay((int(c.random.From) + drawn(k, minutes)*minute) % day)
}

// drawn returns the random minute of an occasion: a number below minutes that follows from its key.
func drawn(k key.Instance, minutes int) int {
	h := fnv.New64a()
	_, _ = io.WriteString(h, string(k)) // a hash never fails
	return int(h.Sum64() % uint64(minutes))
}
