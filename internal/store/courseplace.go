package store

import (
	"fmt"
	"slices"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/instance"
)

const instancesOfDeliveries = `
SELECT /*NAMES i (` + instanceSpec + `)*/
FROM /*ROWS $1 (ws bigint, id bigint)*/ AS r CROSS JOIN instance AS i
WHERE i.ws = r.ws AND i.id = r.id`

// InstancesOf reads the instances of deliveries, without locks.
func (t *Tx) InstancesOf(deliveries []delivery.Row) (map[instance.ID]instance.Row, error) {
	if len(deliveries) == 0 {
		return nil, nil
	}
	refs := make([]instanceRef, len(deliveries))
	for i, d := range deliveries {
		refs[i] = instanceRef{d.Workspace, d.Instance}
	}
	slices.SortFunc(refs, compareInstanceRef)
	var rows rowset
	for _, ref := range slices.Compact(refs) {
		rows.row().int(int64(ref.ws)).int(int64(ref.id))
	}
	found, err := query(t, scanInstance, instancesOfDeliveries, &rows)
	if err != nil {
		return nil, fmt.Errorf("read the instances of deliveries: %w", err)
	}
	of := make(map[instance.ID]instance.Row, len(found))
	for _, row := range found {
		of[row.ID] = row
	}
	return of, nil
}
