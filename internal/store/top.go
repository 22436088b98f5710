package store

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/carillonhq/carillon/internal/subject"
)

// maxTopRead is how many of the newest deliveries Top reads.
const maxTopRead = 200_000

// TopContact is a contact with the number of its messages.
type TopContact struct {
	Contact  subject.Contact
	N        int64
	Channels map[string]int64
}

const topContacts = `
SELECT a.contact_id, COUNT(*)
FROM (
  SELECT d.contact_id, d.created_at, d.last_sent_at FROM delivery AS d
  WHERE d.ws = $1 AND d.id >= $2 ORDER BY d.id DESC LIMIT $3) AS a
WHERE a.created_at >= $4 AND a.last_sent_at > 0
GROUP BY a.contact_id
ORDER BY COUNT(*) DESC, a.contact_id
LIMIT $5`

const channelsOfTop = `
SELECT d.contact_id, d.channel, COUNT(*)
FROM /*ROWS $4 (id bigint)*/ AS r CROSS JOIN delivery AS d
WHERE d.ws = $1 AND d.contact_id = r.id AND d.id >= $2 AND d.created_at >= $3 AND d.last_sent_at > 0
GROUP BY d.contact_id, d.channel`

// Top returns the contacts with the most sent deliveries, of those that were made at since or later. It reads the newest
// maxTopRead deliveries.
func (s *Store) Top(ctx context.Context, ws subject.WorkspaceID, since time.Time, limit int) ([]TopContact, error) {
	var out []TopContact
	place := map[subject.ContactID]int{}
	var wanted rowset
	first, err := all(ctx, s, "count messages of contacts", func(rows *sql.Rows) (t TopContact, err error) {
		return t, rows.Scan(&t.Contact.ID, &t.N)
	}, topContacts, int64(ws), floorID(since), int64(maxTopRead), micros(since), int64(limit))
	if err != nil || len(first) == 0 {
		return nil, err
	}
	ids := make([]subject.ContactID, len(first))
	for i, t := range first {
		ids[i] = t.Contact.ID
		wanted.row().int(int64(t.Contact.ID))
	}
	known, err := s.contactsByID(ctx, ws, ids)
	if err != nil {
		return nil, fmt.Errorf("read those who got most: %w", err)
	}
	for _, t := range first {
		if c, ok := known[t.Contact.ID]; ok {
			place[c.ID] = len(out)
			out = append(out, TopContact{Contact: c, N: t.N, Channels: map[string]int64{}})
		}
	}
	_, err = all(ctx, s, "count messages of contacts by channel", func(rows *sql.Rows) (struct{}, error) {
		var id subject.ContactID
		var channel string
		var n int64
		err := rows.Scan(&id, &channel, &n)
		if i, ok := place[id]; ok {
			out[i].Channels[channel] += n
		}
		return struct{}{}, err
	}, channelsOfTop, int64(ws), floorID(since), micros(since), &wanted)
	return out, err
}
