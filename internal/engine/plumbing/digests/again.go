package digests

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/carillonhq/carillon/internal/digest"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// A run of a digest that is retried reaches those who have not got its items. One that is retried for all tells everybody its window again. The event of its
// occasion says so.

// WindowsTx is what Windows needs of a store.Tx.
type WindowsTx interface {
	FirstWindows(triggers []store.RunTrigger) (map[store.RunTrigger]time.Time, error)
	LastWindows(asked []store.RunBefore) (map[store.RunBefore]time.Time, error)
}

// Asked asks for the window of a run.
type Asked struct {
	store.RunTrigger
	Period digest.Window
	ForAll bool
	Rules  digest.Rules
}

// Windows returns the items of which each run tells. One that is for all goes back to the last run before it that was made: it has the windows that were missed
// in between, as the first time.
func Windows(tx WindowsTx, asked []Asked) ([]digest.Window, error) {
	triggers, again := make([]store.RunTrigger, len(asked)), []store.RunBefore(nil)
	for i, a := range asked {
		triggers[i] = a.RunTrigger
		if a.ForAll {
			again = append(again, store.RunBefore{RunTrigger: a.RunTrigger, Start: a.Period.From})
		}
	}
	first, err := tx.FirstWindows(triggers)
	if err != nil {
		return nil, err
	}
	last, err := tx.LastWindows(again)
	if err != nil {
		return nil, err
	}
	windows := make([]digest.Window, len(asked))
	for i, a := range asked {
		from := first[a.RunTrigger]
		if end, ok := last[store.RunBefore{RunTrigger: a.RunTrigger, Start: a.Period.From}]; ok && a.ForAll {
			from = end
		}
		windows[i] = windowOf(a.Period, from, a.Rules)
	}
	return windows, nil
}

const (
	fieldScope = "scope"
	scopeAll   = "all"
)

// ForAll reports whether a run tells its window again, also to those who have got it. ev is the event of its occasion.
func ForAll(ev subject.Event) bool {
	return ev.Kind == subject.CalendarDue && ev.Payload[fieldScope] == scopeAll
}

// Scoped returns the payload of an occasion, a JSON object, for a run that tells its window to all again, or for one that does not.
func Scoped(payload string, all bool) (string, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal([]byte(payload), &fields); err != nil {
		return "", fmt.Errorf("read what was due: %w", err)
	}
	if all {
		fields[fieldScope] = json.RawMessage(`"` + scopeAll + `"`)
	} else {
		delete(fields, fieldScope)
	}
	text, err := json.Marshal(fields)
	if err != nil {
		return "", fmt.Errorf("write what is due: %w", err)
	}
	return string(text), nil
}
