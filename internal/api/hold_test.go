package api_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

const dated = `
workflow: due
type: reminder
triggers:
  - id: t
    record: visit
    timing: {anchor: record.on_date, at: "06:00", timezone: UTC, offset: 0d}
audience: {to: record.who}
channel: inbox
message:
  inbox: {text: x}
`

// Of what is held one sees since when, why, and what it was planned by beside what its trigger says now. Who releases it accepts
// that.
//
// Shows: B23, B28.
func TestHolds(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bundle) {
		ctx := t.Context()
		tick := func() {
			t.Helper()
			if _, err := b.Tick(ctx); err != nil {
				t.Fatal(err)
			}
		}
		b.apply(dated)
		if status, answer := b.ask("PUT", "/v1/contacts/ann", `{"addresses": {"inbox": "ann"}}`); status >= 300 {
			t.Fatal(answer)
		}
		if status, answer := b.ask("PUT", "/v1/records/visit/v", `{"props": {"on_date": "2026-05-14", "who": "ann"}}`); status >= 300 {
			t.Fatal(answer)
		}
		tick()
		ws, s := b.app.Workspace(), b.app.Store()
		row, err := s.InstanceByKey(ctx, ws.ID, "reminder:due:visit:v:t:2026-05-14:0")
		if err != nil {
			t.Fatal(err)
		}
		other := `{"anchor":"record.booked_on"}`
		if err := s.KeepInputs(ctx, ws.ID, []string{other}); err != nil {
			t.Fatal(err)
		}
		storetest.ChangeInstance(t, s, start, row, func(in *instance.Row) { in.InputHash = key.Hash(other) })
		due := time.Date(2026, 5, 14, 6, 0, 0, 0, time.UTC)
		b.clock.Set(due)
		tick()
		list, err := b.Instances(ctx, client.InstanceQuery{Held: true})
		if err != nil || len(list.Items) != 1 || !list.Items[0].HeldSince.Equal(due) || list.Items[0].HeldFor != "input_conflict" {
			t.Fatalf("%+v, %v", list.Items, err)
		}
		one, err := b.Instance(ctx, list.Items[0].ID)
		want := &client.InputConflict{
			StoredVersion: 1, NewVersion: 1, Known: true, Defined: true,
			Fields: []client.InputField{{Name: "anchor", Stored: "record.booked_on", New: "record.on_date", Differs: true}},
		}
		if diff := cmp.Diff(want, one.Conflict); err != nil || diff != "" {
			t.Errorf("%v (-want +got)\n%s", err, diff)
		}
		if _, err := b.ReleaseInstance(ctx, one.ID); err != nil {
			t.Fatal(err)
		}
		tick()
		one, err = b.Instance(ctx, one.ID)
		if err != nil || one.Held || !one.HeldSince.IsZero() || one.HeldFor != "" || one.Conflict != nil || one.Status != "completed" || len(one.Deliveries) != 1 {
			t.Errorf("%+v, %v", one, err)
		}
	})
}

// What keeps failing shows with which errors, and since when a person is waited for.
//
// Shows: B28.
func TestFailuresOfAHold(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bundle) {
		ctx := t.Context()
		b.apply(dated + "retry: {backoff: [5m]}\n")
		if status, answer := b.ask("PUT", "/v1/records/visit/v", `{"props": {"on_date": "2026-05-14", "who": {"not": "a name"}}}`); status >= 300 {
			t.Fatal(answer)
		}
		for _, at := range []string{"05:13", "06:00", "06:05", "06:06"} {
			when, err := time.Parse(time.RFC3339, "2026-05-14T"+at+":00Z")
			if err != nil {
				t.Fatal(err)
			}
			b.clock.Set(when)
			if _, err := b.Tick(ctx); err != nil {
				t.Fatal(err)
			}
		}
		list, err := b.Instances(ctx, client.InstanceQuery{Held: true})
		if err != nil || len(list.Items) != 1 || list.Items[0].HeldFor != "retries_used_up" {
			t.Fatalf("%+v, %v", list.Items, err)
		}
		one, err := b.Instance(ctx, list.Items[0].ID)
		if err != nil || len(one.Failures) != 2 || !one.Failures[1].At.Equal(one.HeldSince) || one.Failures[0].Error == "" || one.Conflict != nil {
			t.Errorf("%+v, %v", one, err)
		}
	})
}
