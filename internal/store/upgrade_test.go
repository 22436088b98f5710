package store_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/job"
	"github.com/carillonhq/carillon/internal/pgtest"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// The rows of a database of the baseline, as the program of that version wrote them.
const baselineRows = `
INSERT INTO workspace (id, name, secret, definitions, created_at) VALUES (1, 'clinic', '736563726574', 0, 1);
INSERT INTO contact (ws, id, ext_id, address, locale, timezone, created_at) VALUES (1, 11, 'c-1', '+96477', 'ar', '', 1);
INSERT INTO cadence (ws, contact_id) VALUES (1, 11);
INSERT INTO event VALUES (1, 21, 'e-1', 'closed', 1, 0, 1, '{}', '', '[]');
INSERT INTO instance (ws, id, key, workflow, workflow_version, definitions, type, trigger, source, event_id, status, due_at, input_hash, created_at, completed_at)
  VALUES (1, 31, 'survey:visit:event:1', 'visit', 1, 0, 'survey', 'closed', 'event', 21, 'completed', 1, 'h', 1, 1);
INSERT INTO instance (ws, id, key, workflow, workflow_version, definitions, type, trigger, source, event_id, status, due_at, ready_at, input_hash, created_at)
  VALUES (1, 32, 'survey:visit:event:2', 'visit', 1, 0, 'survey', 'closed', 'event', 21, 'pending', 1, 1, 'h', 1);
INSERT INTO instance (ws, id, key, workflow, workflow_version, definitions, type, trigger, source, event_id, status, due_at, input_hash, created_at)
  VALUES (1, 33, 'broadcast:tips:daily:2026-05-14', 'tips', 1, 0, 'broadcast', 'daily', 'schedule', 21, 'pending', 1, 'h', 5);
INSERT INTO delivery (ws, id, key, instance_id, event_id, contact_id, workflow, workflow_version, definitions, type, trigger, channel, address, locale,
  customer_ref, status, not_before, send_at, slot, created_at)
  VALUES (1, 41, 'survey:visit:event:1|c-1|sms:twilio', 31, 21, 11, 'visit', 1, 0, 'survey', 'closed', 'sms:twilio', '+96477', 'ar', 'c-1', 'scheduled', 1, 1, 1, 1);
INSERT INTO delivery (ws, id, key, instance_id, event_id, contact_id, workflow, workflow_version, definitions, type, trigger, channel, address, locale,
  customer_ref, status, not_before, send_at, slot, created_at, completed_at)
  VALUES (1, 42, 'survey:visit:event:1|c-1|mail:x', 31, 21, 11, 'visit', 1, 0, 'survey', 'closed', 'mail:x', 'a@b.c', 'ar', 'c-1', 'sent', 1, 0, 1, 1, 1);
INSERT INTO delivery (ws, id, key, instance_id, event_id, contact_id, workflow, workflow_version, definitions, type, trigger, channel, address, locale,
  customer_ref, status, not_before, send_at, slot, stop_reason, created_at, completed_at)
  VALUES (1, 43, 'survey:visit:event:1|c-1|sms:b', 31, 21, 11, 'visit', 1, 0, 'survey', 'closed', 'sms:b', '+96477', 'ar', 'c-1', 'failed', 1, 0, 0, 'resent_by_operator', 1, 1);
INSERT INTO delivery (ws, id, key, instance_id, event_id, contact_id, workflow, workflow_version, definitions, type, trigger, channel, address, locale,
  customer_ref, status, not_before, send_at, slot, stop_reason, created_at, completed_at)
  VALUES (1, 44, 'survey:visit:event:1|c-1|sms:c', 31, 21, 11, 'visit', 1, 0, 'survey', 'closed', 'sms:c', '+96477', 'ar', 'c-1', 'cancelled', 1, 0, 0, 'cancelled_by_operator', 1, 1);
INSERT INTO job (ws, id, kind, subject, cause, since, definitions, status, version, cursor, done, total, changed, selection, actor, last_id, error, started_at, updated_at, finished_at)
  VALUES (1, 61, 'limits', 'Manager', '', 0, 1, 'failed', 3, 7, 2, 9, 0, '', 'ada', 0, 'broken', 1, 2, 3);
INSERT INTO attempt VALUES (1, 42, 1, 1, 'mail:x', 'k', 1, 1, 'delivered', 'delivered', 'p', '');
INSERT INTO content VALUES (1, 42, 1, 51, 1, 'mail:x', 'a@b.c', 'ar', 's', 't', 'h')`

// atBaseline makes a database of the baseline with its rows.
func atBaseline(t *testing.T, url string) *store.Store {
	t.Helper()
	s := storetest.Open(t, url)
	if err := s.MigrateTo(t.Context(), store.Baseline); err != nil {
		t.Fatal(err)
	}
	if _, err := raw(t, url).ExecContext(t.Context(), baselineRows); err != nil {
		t.Fatal(err)
	}
	return s
}

// resentOnly checks that of the baseline's rows a person has sent only this delivery again.
func (f fixture) resentOnly(want delivery.ID) {
	f.Helper()
	for id := delivery.ID(41); id <= 44; id++ {
		if row := f.row(id); row.Resent != (id == want) {
			f.Errorf("delivery %d: resent is %t, stop_reason %q", id, row.Resent, row.StopReason)
		}
	}
}

// A copy of the baseline is restored as it is, and upgraded when a program begins to work with it.
func TestUpgradeOfARestoredCopy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	url, copied := filepath.Join(dir, "old.db"), filepath.Join(dir, "copy.db")
	f := fixture{t, atBaseline(t, url), 1}
	f.must(store.Backup(t.Context(), url, copied))
	back := filepath.Join(dir, "back.db")
	done, err := store.Restore(t.Context(), copied, back, false, now)
	if err != nil || done.Schema != store.Baseline {
		t.Fatalf("restored with schema %d, %v", done.Schema, err)
	}
	f.s = storetest.Open(t, back)
	f.must(f.s.Migrate(t.Context()))
	f.resentOnly(43)
}

// A database of the baseline is upgraded with its rows, and they are processed as new ones are.
func TestUpgradeFromTheBaseline(t *testing.T) {
	t.Parallel()
	for _, database := range storetest.Databases(t) {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			url := filepath.Join(t.TempDir(), "old.db")
			if database == "postgres" {
				url = pgtest.New(t)
			}
			old := atBaseline(t, url)
			f := fixture{t, old, 1}
			pending, err := old.Pending(t.Context())
			if err != nil || len(pending) == 0 || pending[0].Version != store.Baseline+1 {
				t.Errorf("pending %d, %v", len(pending), err)
			}
			f.s = storetest.Open(t, url) // another process
			f.must(f.s.Migrate(t.Context()))
			if have, want, err := f.s.SchemaVersion(t.Context()); have != want || err != nil {
				t.Errorf("schema %d, want %d, %v", have, want, err)
			}
			f.resentOnly(43)
			if row, err := f.s.InstanceByID(t.Context(), 1, 32); row.Contact != 0 || row.Round != 0 || err != nil { // it is of everybody
				t.Errorf("row %+v, %v", row, err)
			}
			waits, err := f.s.InstanceByID(t.Context(), 1, 33) // of a schedule: in force since it was made, and it has begun
			if made := time.UnixMicro(5); err != nil || !waits.EffectiveAt.Equal(made) || !waits.OpenedAt.Equal(made) {
				t.Errorf("row %+v, %v", waits, err)
			}
			claims := f.claim(now)
			if len(claims) != 1 || claims[0].ID != 41 {
				t.Fatalf("claimed %+v", claims)
			}
			f.settle(accepted(claims[0]))
			if row := f.row(41); row.Status != delivery.Sent {
				t.Errorf("row %+v", row)
			}
			n, err := f.fanOut(now, dueAt(now, 10), nil, complete)
			if n != 1 || err != nil {
				t.Errorf("expanded %d, %v", n, err)
			}
			f.ingest(ingestRequest{Keys: []string{"survey:visit:event:1"}}, func(s ingestState) (store.OccasionWrites, error) {
				if met := s.Instances["survey:visit:event:1"]; met.ID != 31 || met.Status != instance.Completed || len(met.Deliveries) != 4 {
					t.Errorf("met %+v", met)
				}
				return store.OccasionWrites{}, nil
			})
			want := job.Row{
				Workspace: 1, ID: 61, Seed: job.Seed{Kind: job.Limits, Subject: "Manager"}, Definitions: 1, Status: job.Failed, Version: 3, Cursor: 7, Done: 2, Total: 9,
				Actor: "ada", Error: "broken", StartedAt: time.UnixMicro(1).UTC(), UpdatedAt: time.UnixMicro(2).UTC(), FinishedAt: time.UnixMicro(3).UTC(),
			}
			jobs, err := f.s.Jobs(t.Context(), 1, store.Page{})
			if diff := cmp.Diff([]job.Row{want}, jobs); diff != "" || err != nil {
				t.Errorf("jobs (-want +got):\n%s%v", diff, err)
			}
			if attempts, err := f.s.Attempts(t.Context(), 1, 42); len(attempts) != 1 || err != nil {
				t.Errorf("attempts %v, %v", attempts, err)
			}
		})
	}
}
