package sim

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// load puts the events of a file on the agenda: each at its occurred_at, those of the past at once.
func (w *world) load(a *Action) error {
	path := w.scenario.path(a.Load.file)
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	read := readNDJSON
	if strings.HasSuffix(path, ".csv") {
		read = readCSV
	}
	events, err := read(text)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for i, raw := range events {
		var e struct {
			Kind       string    `json:"kind"`
			OccurredAt time.Time `json:"occurred_at"`
		}
		if err := json.Unmarshal(raw, &e); err != nil {
			return fmt.Errorf("%s: event %d: %w", path, i+1, err)
		}
		at := w.clock.Now()
		if e.OccurredAt.After(at) {
			at = e.OccurredAt
		}
		w.later(at, func(ctx context.Context) error {
			return w.ingest(ctx, &Action{Event: &eventAction{}, pos: a.pos, node: a.node}, fmt.Sprintf("event %d of %s", i+1, a.Load.file), raw)
		})
	}
	return nil
}

// readNDJSON reads one event a line.
func readNDJSON(text []byte) ([][]byte, error) {
	var events [][]byte
	number := 0
	for line := range bytes.Lines(text) {
		number++
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if !json.Valid(line) {
			return nil, fmt.Errorf("line %d is not JSON", number)
		}
		events = append(events, line)
	}
	return events, nil
}

// readCSV reads one event a row. The head names the fields: kind, id, occurred_at, and payload.NAME and recipient.NAME
// for what lies inside; all values are texts, and an empty cell is left out.
func readCSV(text []byte) ([][]byte, error) {
	rows, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	head := rows[0]
	for _, name := range head {
		group, inner, nested := strings.Cut(name, ".")
		if nested && (inner == "" || group != "payload" && group != "recipient") || !nested && !slices.Contains([]string{"kind", "id", "occurred_at"}, name) {
			return nil, fmt.Errorf("line 1: unknown column %q: one of kind, id, occurred_at, payload.NAME, recipient.NAME", name)
		}
	}
	var events [][]byte
	for _, cells := range rows[1:] {
		event := map[string]any{}
		for i, value := range cells {
			group, inner, nested := strings.Cut(head[i], ".")
			switch {
			case value == "":
			case !nested:
				event[group] = value
			default:
				object, ok := event[group].(map[string]any)
				if !ok {
					object = map[string]any{}
					event[group] = object
				}
				object[inner] = value
			}
		}
		raw, err := json.Marshal(event)
		if err != nil {
			return nil, err
		}
		events = append(events, raw)
	}
	return events, nil
}
