package digests

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/digest"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/topic"
)

// Rest is what one person has not got of one topic, when they begin to get each item of it at once (R22). A digest of it leaves at once.
type Rest struct {
	Contact subject.ContactID `json:"contact"`
	Topic   subject.TopicID   `json:"topic"`
}

// RestOf returns the rest that the event of an occasion is about; ok is false if it is about none.
func RestOf(ev subject.Event) (r Rest, ok bool) {
	fields, ok := ev.Payload["rest"].(map[string]any)
	if !ok || ev.Kind != subject.CalendarDue {
		return r, false
	}
	contact, wrong := strconv.ParseInt(fmt.Sprint(fields["contact"]), 10, 64)
	of, alsoWrong := strconv.ParseInt(fmt.Sprint(fields["topic"]), 10, 64)
	return Rest{subject.ContactID(contact), subject.TopicID(of)}, wrong == nil && alsoWrong == nil
}

// RestTx is what TellRest needs of a store.Tx.
type RestTx interface {
	Matches(ws subject.WorkspaceID, of []store.MatchesAfter) (map[subject.TopicID][]digest.Match, error)
	DefinitionsNumber(ws subject.WorkspaceID) (int64, error)
	TopicsByID(ws subject.WorkspaceID, ids []subject.TopicID) (map[subject.TopicID]store.TopicRow, error)
	WriteOccasions(ws subject.WorkspaceID, w store.OccasionWrites) error
}

// TellRest makes the occasions that send at once what people had not got yet, who had digests of a topic and now get each item of it (R22).
func TellRest(
	tx RestTx, loaded func(subject.WorkspaceID, int64) (*definition.Set, error), ws subject.WorkspaceID, changes []topic.Change, newID func() int64, now time.Time,
) error {
	var writes store.OccasionWrites
	for _, c := range changes {
		if c.Rest.IsZero() {
			continue
		}
		found, err := tx.Matches(ws, []store.MatchesAfter{{Topic: c.Started.Topic, Seq: c.Started.Covered}})
		if err != nil {
			return err
		}
		if len(found[c.Started.Topic]) == 0 {
			continue
		}
		number, err := tx.DefinitionsNumber(ws)
		if err != nil {
			return err
		}
		set, err := loaded(ws, number)
		if err != nil {
			return err
		}
		of, err := tx.TopicsByID(ws, []subject.TopicID{c.Started.Topic})
		if err != nil {
			return err
		}
		row, ev, ok, err := restOccasion(set, ws, of[c.Started.Topic].Name, c, newID, now)
		if err != nil {
			return err
		}
		if ok {
			writes.Events, writes.Instances = append(writes.Events, ev), append(writes.Instances, row)
		}
	}
	if len(writes.Instances) == 0 {
		return nil
	}
	return tx.WriteOccasions(ws, writes)
}

// restOccasion returns the occasion of the digest that tells a person the rest, by the trigger that served the digests that it waited for; ok is false if no
// trigger does.
func restOccasion(
	set *definition.Set, ws subject.WorkspaceID, name string, c topic.Change, newID func() int64, now time.Time,
) (row instance.Row, ev store.EventRow, ok bool, err error) {
	w, t := serving(set, name, c.Waited)
	if t == nil {
		return row, ev, false, nil
	}
	period := t.OnSchedule().Calendar.Period.Length
	window := digest.Window{From: c.Rest.AddDate(0, -period.Months, -period.Days).Add(-period.Clock), End: c.Rest}
	payload := map[string]any{
		"trigger": t.ID, "timezone": set.Workspace.Timezone, "date": now.Format(time.DateOnly),
		"period": map[string]any{"start": window.From.Format(time.RFC3339Nano), "end": window.End.Format(time.RFC3339Nano)},
		"rest":   Rest{Contact: c.Started.Contact, Topic: c.Started.Topic},
	}
	text, err := json.Marshal(payload)
	if err != nil {
		return row, ev, false, fmt.Errorf("write what is due: %w", err)
	}
	ev = store.EventRow{PayloadJSON: string(text), Trace: "[]", Event: subject.Event{
		ID: subject.EventID(newID()), Kind: subject.CalendarDue, OccurredAt: now, ReceivedAt: now,
	}}
	row = instance.Row{
		Workspace: ws, ID: instance.ID(newID()), Key: string(key.RestOf(w.Type, w.Name, t.ID, int64(c.Started.ID))), Workflow: w.Name,
		WorkflowVersion: w.Version, Definitions: set.Number, Type: w.Type, Trigger: t.ID, Source: instance.FromPerson, Status: instance.Pending, DueAt: now,
		InputHash: t.Inputs(), CreatedAt: now, Event: ev.ID,
	}
	return row, ev, true, nil
}

// serving returns the trigger whose digests serve the subscribers of a topic with a frequency, in the order of the names of workflows; nil: there is none.
func serving(set *definition.Set, name, frequency string) (*definition.Workflow, *definition.Trigger) {
	for _, w := range set.Workflows() {
		for _, t := range w.Trigger {
			if w.Enabled && t.Enabled && t.Digest != nil && slices.ContainsFunc(t.Audience, func(a definition.Audience) bool {
				return a.Frequency == frequency && (a.Topics == definition.TopicsAll || slices.Contains(a.TopicNames, name))
			}) {
				return w, t
			}
		}
	}
	return nil, nil
}
