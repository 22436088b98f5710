package condition

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
)

// States are the states of all triggers for one record, by "workflow/trigger". The state of a trigger stays when the trigger is
// removed from the definitions (R10).
type States map[string]State

// Name is the name of a trigger's state.
func Name(workflow, trigger string) string { return workflow + "/" + trigger }

// stored is a state as JSON: instants are µs since 1970 UTC.
type stored struct {
	Episodes    int                    `json:"n,omitempty"`
	Open        bool                   `json:"o,omitempty"`
	Since       map[string]int64       `json:"s,omitempty"`
	Fired       map[string]storedFired `json:"f,omitempty"`
	Context     string                 `json:"c,omitempty"`
	Latest      int64                  `json:"l,omitempty"`
	Blocked     map[string]storedBlock `json:"b,omitempty"`
	Fingerprint string                 `json:"p,omitempty"`
	By          string                 `json:"xb,omitempty"`
	Level       *float64               `json:"xl,omitempty"`
	Crossed     map[string]int         `json:"xn,omitempty"`
	Over        map[string]int         `json:"xs,omitempty"`
	Failed      bool                   `json:"e,omitempty"`
	Course      *storedCourse          `json:"k,omitempty"`
}

type storedCourse struct {
	Date     string `json:"d,omitempty"`
	Moment   int64  `json:"m,omitempty"`
	Resets   int    `json:"n,omitempty"`
	Value    string `json:"v,omitempty"`
	Crossing int    `json:"x,omitempty"`
}

type storedBlock struct {
	At    int64 `json:"a"`
	Times int   `json:"n"`
}

type storedFired struct {
	At     int64    `json:"a"`
	Issues []string `json:"i,omitempty"`
}

// Parse reads what String wrote; an empty text holds no states.
func Parse(text string) (States, error) {
	states := States{}
	if text == "" {
		return states, nil
	}
	var all map[string]stored
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		return nil, fmt.Errorf("state of a record: %w", err)
	}
	for name, j := range all {
		s := State{
			Episodes: j.Episodes, Open: j.Open, Failed: j.Failed, Since: each(j.Since, instant),
			Blocked: each(j.Blocked, func(b storedBlock) Blocked { return Blocked{At: instant(b.At), Times: b.Times} }),
			Fired:   each(j.Fired, func(f storedFired) Firing { return Firing{At: instant(f.At), Issues: f.Issues} }),
			Ahead:   Ahead{Fingerprint: j.Fingerprint, By: j.By, Level: j.Level, Crossed: j.Crossed, Over: j.Over, Course: j.Course.course()},
		}
		if j.Latest != 0 {
			s.Latest = Latest{Context: j.Context, At: instant(j.Latest)}
		}
		states[name] = s
	}
	return states, nil
}

// String writes the states, in one form; empty when there are none.
func (states States) String() string {
	all := make(map[string]stored, len(states))
	for name, s := range states {
		j := stored{
			Episodes: s.Episodes, Open: s.Open, Failed: s.Failed, Since: each(s.Since, time.Time.UnixMicro),
			Blocked: each(s.Blocked, func(b Blocked) storedBlock { return storedBlock{At: b.At.UnixMicro(), Times: b.Times} }),
			Fired:   each(s.Fired, func(f Firing) storedFired { return storedFired{At: f.At.UnixMicro(), Issues: f.Issues} }), Context: s.Latest.Context,
			Fingerprint: s.Ahead.Fingerprint, By: s.Ahead.By, Level: s.Ahead.Level, Crossed: s.Ahead.Crossed, Over: s.Ahead.Over, Course: s.Ahead.Course.stored(),
		}
		if !s.Latest.At.IsZero() {
			j.Latest = s.Latest.At.UnixMicro()
		}
		if j.Episodes != 0 || j.Failed || len(j.Since)+len(j.Fired)+len(j.Blocked)+len(j.Crossed)+len(j.Over) > 0 || j.Fingerprint != "" || j.By != "" || j.Course != nil {
			all[name] = j
		}
	}
	if len(all) == 0 {
		return ""
	}
	text, err := json.Marshal(all)
	if err != nil { // numbers and texts always have a JSON form
		panic(err)
	}
	return string(text)
}

// Names are the names of the states, sorted.
func (states States) Names() []string { return slices.Sorted(maps.Keys(states)) }

// Clone returns a copy that can be changed.
func (states States) Clone() States { return maps.Clone(states) }

func instant(µs int64) time.Time { return time.UnixMicro(µs).UTC() }

func each[V, W any](of map[string]V, to func(V) W) map[string]W {
	if len(of) == 0 {
		return nil
	}
	out := make(map[string]W, len(of))
	for name, v := range of {
		out[name] = to(v)
	}
	return out
}
