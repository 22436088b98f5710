package api_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/engine/service/record"
)

func TestRecords(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bundle) {
		id := "hall/1 b%2F?.."
		got, err := b.PutRecord(t.Context(), client.RecordInput{Type: "kiosk", ID: id, Props: map[string]any{"name": "Hall <1>", "battery_level": 15}})
		want := client.Record{
			Type: "kiosk", ID: id, Props: map[string]any{"name": "Hall <1>", "battery_level": 15.0}, Rev: 1, LastModifiedBy: "admin",
			CreatedAt: start, UpdatedAt: start,
		}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("put (-want +got)\n%s%v", diff, err)
		}
		if got, err := b.Record(t.Context(), "kiosk", id); err != nil || cmp.Diff(want, got.Record) != "" || len(got.Triggers) > 0 || !got.ChangedAt.Equal(start) {
			t.Errorf("read %s %v", cmp.Diff(want, got.Record), err)
		}
		got, err = b.ChangeRecord(t.Context(), client.RecordInput{Type: "kiosk", ID: id, Props: map[string]any{"name": nil, "charging": false}, Closed: new(true)})
		want.Props, want.Closed, want.Rev = map[string]any{"battery_level": 15.0, "charging": false}, true, 2
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("changed (-want +got)\n%s%v", diff, err)
		}
		for _, none := range []string{".", ".."} {
			answer, err := b.PostRecords(t.Context(), client.RecordInput{Type: "odd", ID: none})
			if err != nil || answer.Failed != 1 || answer.Items[0].Field != "id" || answer.Items[0].Message != "cannot stand in a URL" {
				t.Errorf("%q of a batch: %+v %v", none, answer, err)
			}
			if _, err := b.PutRecord(t.Context(), client.RecordInput{Type: "odd", ID: none}); err == nil {
				t.Errorf("%q was put", none)
			}
		}
		for _, odd := range []string{"...", "a//b", "%2e%2e", "ü 字", "#;&="} {
			if _, err := b.PutRecord(t.Context(), client.RecordInput{Type: "odd", ID: odd}); err != nil {
				t.Errorf("put %q: %v", odd, err)
			}
			if got, err := b.Record(t.Context(), "odd", odd); err != nil || got.ID != odd {
				t.Errorf("%q is read as %q: %v", odd, got.ID, err)
			}
		}

		answer, err := b.PostRecords(t.Context(), client.RecordInput{Type: "kiosk", ID: id, Closed: new(false)}, client.RecordInput{Type: "kiosk", ID: "2"},
			client.RecordInput{Type: "kiosk", ID: "2"}, client.RecordInput{Type: "kiosk"}, client.RecordInput{Type: "a b", ID: "1"})
		if err != nil || answer.Created != 1 || answer.Changed != 1 || answer.Unchanged != 1 || answer.Failed != 2 || len(answer.Items) != 5 {
			t.Errorf("%+v %v", answer, err)
		}
		if item := answer.Items[3]; item.Type != "kiosk" || item.Outcome != "failed" || item.Reason != "invalid_record" || item.Field != "id" || item.Hint == "" {
			t.Errorf("refused: %+v", item)
		}
		var listed []string
		for r, err := range b.AllRecords(t.Context(), "kiosk", client.RecordQuery{Limit: 1}) {
			if err != nil {
				t.Fatal(err)
			}
			listed = append(listed, r.ID)
		}
		if !slices.Equal(listed, []string{"2", id}) {
			t.Errorf("listed %q", listed)
		}
		types, err := b.RecordTypes(t.Context())
		if want := []client.RecordType{{Type: "kiosk"}, {Type: "odd"}}; err != nil || cmp.Diff(want, types.Items) != "" {
			t.Errorf("types %+v %v", types, err)
		}

		if gone, err := b.DeleteRecord(t.Context(), "kiosk", id); err != nil || gone.ID != id {
			t.Errorf("%+v %v", gone, err)
		}
		var p *client.Problem
		if _, err := b.Record(t.Context(), "kiosk", id); !errors.As(err, &p) || p.Code != client.CodeNotFound {
			t.Errorf("a deleted one: %v", err)
		}
	})
}

func TestRecordsRefuse(t *testing.T) {
	t.Parallel()
	b := setup(t, "sqlite")
	many := strings.Repeat(`{"type":"t","id":"a"},`, client.MaxRecords) + `{"type":"t","id":"a"}`
	large := strings.Repeat("x", record.MaxFields)
	for _, test := range []struct {
		method, path, body string
		status             int
		code, field        string
	}{
		{"PUT", "/v1/records/t/a", `{"prop": {}}`, 422, client.CodeInvalidRequest, "body.prop"},
		{"PUT", "/v1/records/t/a", `{"id": "b"}`, 422, client.CodeInvalidRequest, "body.id"},
		{"PUT", "/v1/records/t/a", `{"type": "b"}`, 422, client.CodeInvalidRequest, "body.type"},
		{"PUT", "/v1/records/once/a", `{}`, 422, client.CodeInvalidRequest, "body.type"},
		{"PUT", "/v1/records/a%2Fb/a", `{}`, 422, client.CodeInvalidRequest, "body.type"},
		{"PUT", "/v1/records/t/a%00", `{}`, 422, client.CodeInvalidRequest, "path"},
		{"PUT", "/v1/records/t/%FF", `{}`, 422, client.CodeInvalidRequest, "path"},
		{"PUT", "/v1/records/t/" + strings.Repeat("a", 257), `{}`, 422, client.CodeInvalidRequest, "body.id"},
		{"PUT", "/v1/records/t/a", `{"props": {"x": 1, "x": 2}}`, 422, client.CodeInvalidRequest, "body.props.x"},
		{"PUT", "/v1/records/t/a", `{"props": {"x": "` + large + `"}}`, 422, client.CodeInvalidRequest, "body.props"},
		{"PUT", "/v1/records/t/a", `{"props": {"x": "` + strings.Repeat("x", 10<<20) + `"}}`, 413, client.CodeTooLarge, "body"},
		{"PUT", "/v1/records/t/a", strings.Repeat(`{"props":`, 100_000), 400, client.CodeInvalidJSON, "body"},
		{"PUT", "/v1/records/t/a", strings.Repeat(`{"props":`, 40) + `{}` + strings.Repeat(`}`, 40), 422, client.CodeInvalidRequest, "body"},
		{"PUT", "/v1/records/t/a", `{"props": {"x": "` + "\xff" + `"}}`, 422, client.CodeInvalidRequest, "body"},
		{"PUT", "/v1/records/t/a", `{`, 400, client.CodeInvalidJSON, "body"},
		{"PATCH", "/v1/records/t/a", `{}`, 404, client.CodeNotFound, ""},
		{"DELETE", "/v1/records/t/a", ``, 404, client.CodeNotFound, ""},
		{"GET", "/v1/records/t/a", ``, 404, client.CodeNotFound, ""},
		{"POST", "/v1/records", `{"records": {}}`, 422, client.CodeInvalidRequest, "body.records"},
		{"POST", "/v1/records", `{}`, 422, client.CodeInvalidRequest, "body.records"},
		{"POST", "/v1/records", `{"records": [], "more": 1}`, 422, client.CodeInvalidRequest, "body.more"},
		{"POST", "/v1/records", `{"records": [` + many + `]}`, 422, client.CodeInvalidRequest, "body.records"},
		{"POST", "/v1/records/t/a", `{}`, 405, client.CodeNotAllowed, ""},
	} {
		status, text := b.ask(test.method, test.path, test.body)
		if p := problemOf(t, text); status != test.status || p.Code != test.code || p.Field != test.field {
			t.Errorf("%s %.30s %.60s: got %d %s %s (%s), want %d %s %s", test.method, test.path, test.body, status, p.Code, p.Field, p.Detail, test.status, test.code, test.field)
		}
	}
	if status, text := b.ask(http.MethodGet, "/v1/records", ""); status != http.StatusOK || text != `{"items":[]}` {
		t.Errorf("something was kept: %d %s", status, text)
	}
}

// One bad record among a thousand stops no other one, and the same request again does nothing.
func TestRecordsBatch(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bundle) {
		list := make([]client.RecordInput, client.MaxRecords)
		for i := range list {
			list[i] = client.RecordInput{Type: "kiosk", ID: fmt.Sprint(i), Props: map[string]any{"n": i}}
		}
		list[500].ID = "\x07"
		for _, c := range []struct{ key, want string }{{"k", "999 0 1"}, {"k", "999 0 1"}, {"other", "0 999 1"}} {
			answer, err := b.WithIdempotencyKey(c.key).PostRecords(t.Context(), list...)
			if got := fmt.Sprint(answer.Created, answer.Unchanged, answer.Failed); err != nil || got != c.want || answer.Items[500].Outcome != "failed" {
				t.Errorf("got %s, want %s, %v", got, c.want, err)
			}
		}
	})
}

const watch = `
record_type: kiosk
fields:
  battery_level: number
  charging: bool
---
persona: Technician
cadence:
  cooldown: 1h
---
workflow: kiosk-health
type: alert
triggers:
  - id: health
    record: kiosk
    issues:
      LOW_BATTERY: record.battery_level < 20
      NOT_CHARGING: record.charging == false
    for: 10m
  - id: late
    record: kiosk
    enabled: false
    when: record.battery_level < 5
    cooldown:
      length: 1h
audience:
  - persona: Technician
channel: memory
message:
  sms:
    text: "{{ record.id }}"
`

// A record is read with why each trigger would fire, or does not.
func TestRecordStandings(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bundle) {
		if _, err := b.Apply(t.Context(), []client.File{{Name: "watch.yaml", Text: watch}}); err != nil {
			t.Fatal(err)
		}
		if _, err := b.PutRecord(t.Context(), client.RecordInput{Type: "kiosk", ID: "1", Props: map[string]any{"battery_level": 15}}); err != nil {
			t.Fatal(err)
		}
		got, err := b.Record(t.Context(), "kiosk", "1")
		if err != nil {
			t.Fatal(err)
		}
		want := []client.RecordTrigger{
			{
				Workflow: "kiosk-health", Trigger: "health", Reason: "for_not_reached", Until: start.Add(10 * time.Minute), Issues: []string{"LOW_BATTERY"},
				Clauses: []client.Clause{
					{Issue: "LOW_BATTERY", Line: "record.battery_level < 20", Met: true, Field: "record.battery_level", Value: 15.0},
					{Issue: "NOT_CHARGING", Line: "record.charging == false", Reason: "condition_false", Field: "record.charging"},
				},
			},
			{Workflow: "kiosk-health", Trigger: "late", Reason: "trigger_disabled"},
		}
		if diff := cmp.Diff(want, got.Triggers); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		_, err = b.PutRecord(t.Context(), client.RecordInput{Type: "kiosk", ID: "1", Props: map[string]any{"battery_level": "low"}})
		var p *client.Problem
		if !errors.As(err, &p) || p.Field != "body.props.battery_level" || p.Detail != "is a text, and the type kiosk says number" {
			t.Errorf("a wrong value: %v", err)
		}
		types, err := b.RecordTypes(t.Context())
		if want := map[string]string{"battery_level": "number", "charging": "bool"}; err != nil || cmp.Diff(want, types.Items[0].Fields) != "" {
			t.Errorf("types %+v %v", types, err)
		}
	})
}

// A record is read with its first hundred children, and says whether there are more.
func TestManyChildren(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bundle) {
		parent := client.Parents{{Type: "ward", ID: "w"}}
		list := []client.RecordInput{{Type: "ward", ID: "w"}}
		for i := range 100 {
			list = append(list, client.RecordInput{Type: "bed", ID: fmt.Sprint(i), Parents: map[string]client.Parents{"ward": parent}})
		}
		read := func() client.RecordDetail {
			t.Helper()
			got, err := b.Record(t.Context(), "ward", "w")
			if err != nil {
				t.Fatal(err)
			}
			return got
		}
		if answer, err := b.PostRecords(t.Context(), list...); err != nil || answer.Failed > 0 {
			t.Fatal(answer, err)
		}
		if got := read(); len(got.Children) != 100 || got.MoreChildren {
			t.Errorf("of a hundred: %d, more %t", len(got.Children), got.MoreChildren)
		}
		if _, err := b.PutRecord(t.Context(), client.RecordInput{Type: "bed", ID: "last", Parents: map[string]client.Parents{"ward": parent}}); err != nil {
			t.Fatal(err)
		}
		if got := read(); len(got.Children) != 100 || !got.MoreChildren {
			t.Errorf("of a hundred and one: %d, more %t", len(got.Children), got.MoreChildren)
		}
	})
}

const visits = `workflow: visits
type: reminder
triggers:
  - id: due
    record: visit
    timing: {anchor: record.day, offset: [-7d], timezone: record.zone}
audience: {everyone: true}
channel: inbox
message:
  inbox:
    text: "{{ days_left }}"
`

// What is planned of a record is found by the record, and why nothing is stands with it.
func TestInstancesOfARecord(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bundle) {
		ctx := t.Context()
		if _, err := b.Apply(ctx, []client.File{{Name: "visits.yaml", Text: visits}}); err != nil {
			t.Fatal(err)
		}
		for id, zone := range map[string]string{"a/1": "Europe/Berlin", "2": "Mars/Olympus"} {
			if _, err := b.PutRecord(ctx, client.RecordInput{Type: "visit", ID: id, Props: map[string]any{"day": "2030-06-08", "zone": zone}}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := b.Tick(ctx); err != nil {
			t.Fatal(err)
		}
		for record, want := range map[string][]string{
			"visit/a/1": {"reminder:visits:visit:a/1:due:2030-06-08:7"}, "visit/2": nil, "visit/3": nil, "visit": nil,
		} {
			page, err := b.Instances(ctx, client.InstanceQuery{Record: record})
			var keys []string
			for _, one := range page.Items {
				keys = append(keys, one.Key)
				if detail, err := b.Instance(ctx, one.ID); err != nil || detail.Record != record {
					t.Errorf("%s: %q, %v", record, detail.Record, err)
				}
			}
			if diff := cmp.Diff(want, keys); err != nil || diff != "" {
				t.Errorf("%s: %v (-want +got)\n%s", record, err, diff)
			}
		}
		mars, err := b.Record(ctx, "visit", "2")
		if want := `timing: timezone: "Mars/Olympus" is not a zone`; err != nil || len(mars.Triggers) != 1 || mars.Triggers[0].Error != want {
			t.Errorf("%+v, %v", mars.Triggers, err)
		}
	})
}
