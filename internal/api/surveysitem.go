package api

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/engine/service/ingest"
)

// surveysKeys are the keys of an item, and of its recipient, in the words of ADP Surveys, with ours. That system reads them
// whatever their case.
func surveysKeys() (item, recipient map[string]string) {
	return map[string]string{"payload": "payload", "occurredAt": "occurred_at", "recipient": "recipient"},
		map[string]string{"address": "address", "locale": "locale", "customerRef": "customer_ref"}
}

// surveysParse writes an item as an event of ours and has it read as strictly as any other. Keys that are not known are
// passed over, as that system does; the note names them.
func surveysParse(kind string, raw json.RawMessage, now time.Time) (item ingest.Item, note string) {
	var given map[string]json.RawMessage
	if json.Unmarshal(raw, &given) != nil || given == nil {
		return surveysErrors(ingest.Parse(raw, now)), ""
	}
	itemKeys, recipientKeys := surveysKeys()
	event, unknown := rename(given, itemKeys, "")
	var person map[string]json.RawMessage
	if json.Unmarshal(event["recipient"], &person) == nil && person != nil {
		renamed, more := rename(person, recipientKeys, "recipient.")
		unknown = append(unknown, more...)
		text, err := json.Marshal(renamed)
		if err != nil {
			return surveysErrors(ingest.Parse(raw, now)), ""
		}
		event["recipient"] = text
	}
	text, err := json.Marshal(kind)
	if err != nil {
		return surveysErrors(ingest.Parse(raw, now)), ""
	}
	event["kind"] = text
	if text, err = json.Marshal(event); err != nil {
		return surveysErrors(ingest.Parse(raw, now)), ""
	}
	return surveysErrors(ingest.Parse(text, now)), unknownNote(unknown)
}

// rename gives the fields that are known their names of ours, and lists those that are not.
func rename(given map[string]json.RawMessage, keys map[string]string, prefix string) (out map[string]json.RawMessage, unknown []string) {
	out = map[string]json.RawMessage{}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		known, value := false, given[name]
		for theirs, ours := range keys {
			if !strings.EqualFold(name, theirs) {
				continue
			}
			known = true
			if _, twice := out[ours]; !twice || name == theirs {
				out[ours] = value
			}
		}
		if !known {
			unknown = append(unknown, prefix+name)
		}
	}
	return out, unknown
}

const (
	maxUnknown = 10 // how many unknown keys a warning names
	maxKeyName = 60 // how much of a caller's key an error or a warning repeats, in bytes
)

// unknownNote is the warning about keys that were passed over; none: empty.
func unknownNote(unknown []string) string {
	if len(unknown) == 0 {
		return ""
	}
	more := ""
	if n := len(unknown) - maxUnknown; n > 0 {
		unknown, more = unknown[:maxUnknown], fmt.Sprintf(" and %d more", n)
	}
	for i, name := range unknown {
		unknown[i] = shortened(name)
	}
	return "unknown keys, passed over: " + strings.Join(unknown, ", ") + more +
		"; an item has payload, occurredAt and recipient, a recipient address, locale and customerRef"
}

// shortened is a caller's key as errors repeat it.
func shortened(name string) string {
	if len(name) <= maxKeyName {
		return name
	}
	return strings.ToValidUTF8(name[:maxKeyName], "") + "…"
}

// surveysErrors names fields as that system does.
func surveysErrors(item ingest.Item) ingest.Item {
	if item.Err == nil {
		return item
	}
	theirs := strings.NewReplacer("occurred_at", "occurredAt", "customer_ref", "customerRef")
	named := *item.Err
	named.Message, named.Hint = theirs.Replace(named.Message), theirs.Replace(named.Hint)
	if !strings.HasPrefix(named.Field, "payload") {
		named.Field = theirs.Replace(named.Field)
	}
	item.Err = &named
	return item
}
