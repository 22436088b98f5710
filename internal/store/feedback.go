package store

import (
	"cmp"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/subject"
)

const stopAddresses = `
INSERT INTO stopped_address (ws, hash, kind, reason, detail, at)
SELECT r.* FROM /*ROWS $1 (ws bigint, hash text, kind text, reason text, detail text, at bigint)*/ AS r
WHERE true
ON CONFLICT (ws, hash, kind) DO NOTHING
RETURNING hash, kind`

// HashOn is an address, by its hash, on a kind of channels; empty: on all kinds.
type HashOn struct {
	Hash string
	Kind string
}

// StoppedAddress is why and since when nothing is sent to an address.
type StoppedAddress struct {
	HashOn

	Reason string
	Detail string
	At     time.Time
}

// StopAddresses has nothing sent to addresses any more, the first of the list for one that is listed twice. It returns those that were not stopped before.
func (t *Tx) StopAddresses(ws subject.WorkspaceID, list []StoppedAddress) (stopped map[HashOn]bool, err error) {
	var rows rowset
	sorted := slices.Clone(list)
	slices.SortStableFunc(sorted, func(a, b StoppedAddress) int { // one order everywhere: no deadlock
		return cmp.Or(strings.Compare(a.Hash, b.Hash), strings.Compare(a.Kind, b.Kind))
	})
	for _, a := range slices.CompactFunc(sorted, func(a, b StoppedAddress) bool { return a.HashOn == b.HashOn }) {
		rows.row().int(int64(ws)).text(a.Hash).text(a.Kind).text(a.Reason).text(a.Detail).time(a.At)
	}
	noted, err := query(t, func(rows *sql.Rows) (at HashOn, err error) { return at, rows.Scan(&at.Hash, &at.Kind) }, stopAddresses, &rows)
	if err != nil {
		return nil, fmt.Errorf("stop addresses: %w", err)
	}
	stopped = make(map[HashOn]bool, len(noted))
	for _, at := range noted {
		stopped[at] = true
	}
	return stopped, nil
}

const allowAddress = `
DELETE FROM stopped_address WHERE ws = $1 AND hash = $2`

const allowKinds = `
DELETE FROM opt_out WHERE ws = $1 AND hash = $2`

// AllowAddress lets messages go to an address again, on all kinds of channels. changed is false if it was not stopped.
func (t *Tx) AllowAddress(ws subject.WorkspaceID, hash string) (changed bool, err error) {
	for _, statement := range []string{allowAddress, allowKinds} {
		n, err := t.exec(statement, int64(ws), hash)
		if err != nil {
			return false, fmt.Errorf("allow an address: %w", err)
		}
		changed = changed || n > 0
	}
	return changed, nil
}

const optOut = `
INSERT INTO opt_out (ws, hash, kind, at) VALUES ($1, $2, $3, $4)
ON CONFLICT (ws, hash, kind) DO NOTHING`

const optIn = `
DELETE FROM opt_out WHERE ws = $1 AND hash = $2 AND kind = $3`

// OptOut has nothing sent to an address on a kind of channel any more, or, if out is false, lets messages go there again. changed is false if it was so already.
// An address that takes no messages stays stopped.
func (t *Tx) OptOut(ws subject.WorkspaceID, hash, kind string, out bool, now time.Time) (changed bool, err error) {
	var n int64
	if out {
		n, err = t.exec(optOut, int64(ws), hash, kind, micros(now))
	} else {
		n, err = t.exec(optIn, int64(ws), hash, kind)
	}
	if err != nil {
		return false, fmt.Errorf("opt an address out or in: %w", err)
	}
	return n > 0, nil
}

const insertReplies = `
INSERT INTO reply (ws, hash, at)
SELECT r.* FROM /*ROWS $1 (ws bigint, hash text, at bigint)*/ AS r
WHERE true
ON CONFLICT (ws, hash) DO NOTHING
RETURNING hash`

// NewReplies notes that replies were taken in, by their hashes. It returns those that were not before.
func (t *Tx) NewReplies(ws subject.WorkspaceID, hashes []string, now time.Time) (fresh map[string]bool, err error) {
	var rows rowset
	sorted := slices.Sorted(slices.Values(hashes)) // one order everywhere: no deadlock
	for _, hash := range slices.Compact(sorted) {
		rows.row().int(int64(ws)).text(hash).time(now)
	}
	noted, err := query(t, func(rows *sql.Rows) (hash string, err error) { return hash, rows.Scan(&hash) }, insertReplies, &rows)
	if err != nil {
		return nil, fmt.Errorf("note replies: %w", err)
	}
	fresh = make(map[string]bool, len(noted))
	for _, hash := range noted {
		fresh[hash] = true
	}
	return fresh, nil
}

// AddressOn is an address on a kind of channel.
type AddressOn struct {
	delivery.AddressRef
	Kind string
}

// Stop is why, and since when, nothing is sent to an address.
type Stop struct {
	Reason reason.Reason // address_stopped or opted_out
	At     time.Time
}

// StoppedKind is a kind of channel on which nothing is sent to a contact.
type StoppedKind struct {
	Kind string
	Stop
}

const stoppedAddresses = `
SELECT r.ws, r.hash, r.kind, COALESCE(s.at, k.at, 0), COALESCE(o.at, 0)
FROM /*ROWS $1 (ws bigint, hash text, kind text)*/ AS r
LEFT JOIN stopped_address AS s ON s.ws = r.ws AND s.hash = r.hash AND s.kind = ''
LEFT JOIN stopped_address AS k ON k.ws = r.ws AND k.hash = r.hash AND k.kind = r.kind AND k.kind <> ''
LEFT JOIN opt_out AS o ON o.ws = r.ws AND o.hash = r.hash AND o.kind = r.kind
WHERE s.hash IS NOT NULL OR k.hash IS NOT NULL OR o.hash IS NOT NULL`

// StoppedAddresses returns those of some addresses to which nothing is sent, and why.
func (t *Tx) StoppedAddresses(of []AddressOn) (map[AddressOn]Stop, error) {
	var rows rowset
	of = slices.Clone(of)
	slices.SortFunc(of, func(a, b AddressOn) int {
		return cmp.Or(cmp.Compare(a.Workspace, b.Workspace), strings.Compare(a.Hash, b.Hash), strings.Compare(a.Kind, b.Kind))
	})
	for _, a := range slices.Compact(of) {
		rows.row().int(int64(a.Workspace)).text(a.Hash).text(a.Kind)
	}
	stopped := map[AddressOn]Stop{}
	_, err := query(t, func(rows *sql.Rows) (struct{}, error) {
		var at AddressOn
		var ws int64
		var dead, out time.Time
		err := rows.Scan(&ws, &at.Hash, &at.Kind, instant{&dead}, instant{&out})
		at.Workspace = subject.WorkspaceID(ws)
		if stopped[at] = (Stop{reason.OptedOut, out}); !dead.IsZero() {
			stopped[at] = Stop{reason.AddressStopped, dead}
		}
		return struct{}{}, err
	}, stoppedAddresses, &rows)
	if err != nil {
		return nil, fmt.Errorf("find stopped addresses: %w", err)
	}
	return stopped, nil
}
