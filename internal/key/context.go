package key

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// Forms of instants in keys: the basic format in UTC, with the fraction of a second only if there is one.
const (
	basicSecond = "20060102T150405Z"
	basicMicro  = "20060102T150405.000000Z"
)

// Context returns the key for an alert of a condition on a record: it has the context that fired, as ContextText writes it, and the
// instant (A15). With resolved it is the key of the message that the condition has cleared, after the latest alert.
func Context(workflowType, workflow, recordType, recordID, trigger, context string, firedAt time.Time, resolved bool) Instance {
	k := name(kind(workflowType), workflow, recordType, recordID, trigger, "context") + Instance(":"+context+":"+basic(firedAt))
	if resolved {
		k += ":resolved"
	}
	return k
}

func basic(t time.Time) string {
	t = t.UTC().Truncate(time.Microsecond)
	if t.Nanosecond() == 0 {
		return t.Format(basicSecond)
	}
	return t.Format(basicMicro)
}

// ContextText writes the context by which a cooldown counts: the trigger and the values of its parts, a list with commas between its
// items (A15). Values with the same text are equal: 80 and 80.0, 1 and "1", null and an empty text. The items of lists keep their
// order; the engine sorts issues. The values are those of expressions.
func ContextText(trigger string, parts []any) (string, error) {
	b := []byte(escape(trigger, ":,"))
	for _, part := range parts {
		items := []any{part}
		switch part := part.(type) {
		case []any:
			items = part
		case []string:
			items = make([]any, len(part))
			for i, text := range part {
				items[i] = text
			}
		}
		for i, item := range items {
			text, err := partText(item)
			if err != nil {
				return "", err
			}
			b = append(b, ":,"[min(i, 1)])
			b = append(b, escape(text, ":,")...)
		}
		if len(items) == 0 {
			b = append(b, ':')
		}
	}
	return string(b), nil
}

// partText writes one value.
func partText(v any) (string, error) {
	switch v := v.(type) {
	case nil:
		return "", nil
	case string:
		return v, nil
	case bool:
		return strconv.FormatBool(v), nil
	case time.Time:
		return basic(v), nil
	case json.Number: // it is a Stringer too, but is written in the canonical form of numbers
	case fmt.Stringer: // a date, a length of time
		return v.String(), nil
	}
	canonical, err := CanonicalJSON(v)
	if err != nil {
		return "", fmt.Errorf("a part of a context: %w", err)
	}
	return string(canonical), nil
}
