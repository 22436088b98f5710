package store

import (
	"context"
	"fmt"

	"github.com/carillonhq/carillon/internal/subject"
)

const knownContacts = `
SELECT p.ext_id
FROM /*ROWS $1 (ws bigint, ext_id text)*/ AS r CROSS JOIN contact AS p
WHERE /*BY NAME*/p.ws = r.ws AND p.ext_id = r.ext_id`

// KnownContacts returns those of the ids that contacts have.
func (s *Store) KnownContacts(ctx context.Context, ws subject.WorkspaceID, ids []string) (known map[string]bool, err error) {
	err = s.Read(ctx, func(t *Tx) error {
		known, err = t.KnownContacts(ws, ids)
		return err
	})
	return known, err
}

// KnownContacts returns those of the ids that contacts have.
func (t *Tx) KnownContacts(ws subject.WorkspaceID, ids []string) (map[string]bool, error) {
	var wanted rowset
	for _, id := range ids {
		wanted.row().int(int64(ws)).text(id)
	}
	found, err := query(t, scanText, knownContacts, &wanted)
	if err != nil {
		return nil, fmt.Errorf("read which contacts exist: %w", err)
	}
	known := make(map[string]bool, len(found))
	for _, id := range found {
		known[id] = true
	}
	return known, nil
}
