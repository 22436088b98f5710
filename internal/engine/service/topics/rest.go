package topics

import (
	"time"

	"github.com/carillonhq/carillon/internal/engine/plumbing/digests"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/topic"
)

// tellRest makes the occasions that send at once what people had not got yet, who had digests of a topic and now get each item of it (R22).
func (w *Writer) tellRest(tx *store.Tx, ws store.Workspace, topics map[string]store.TopicRow, changes []topic.Change, now time.Time) error {
	var writes store.OccasionWrites
	for _, c := range changes {
		if c.Ended == nil || c.Started == nil || c.Started.Frequency != topic.Immediate || c.Ended.Contact != c.Started.Contact {
			continue
		}
		found, err := tx.Matches(ws.ID, []store.MatchesAfter{{Topic: c.Started.Topic, Seq: c.Started.Covered}})
		if err != nil {
			return err
		}
		if len(found[c.Started.Topic]) == 0 {
			continue
		}
		number, err := tx.DefinitionsNumber(ws.ID)
		if err != nil {
			return err
		}
		set, err := w.catalog.Loaded(ws.ID, number)
		if err != nil {
			return err
		}
		name := ""
		for _, row := range topics {
			if row.ID == c.Started.Topic {
				name = row.Name
			}
		}
		row, ev, ok, err := digests.RestOccasion(set, ws.ID, name, *c.Ended, *c.Started, func() int64 { return w.store.NewID(now) }, now)
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
	return tx.WriteOccasions(ws.ID, writes)
}
