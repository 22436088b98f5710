package plan_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/loader"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/subject"
)

// A record that meets no condition, evaluated by ten workflows, as in a backfill over many records.
func BenchmarkPrefilter(b *testing.B) {
	var text strings.Builder
	for i, when := range []string{
		"record.charging == false", "record.screen_state == false", "record.battery_level < 20",
		"record.connection_status == false || age(record.last_heartbeat_at) >= days(2)", "record.temperature > 60", "record.status == 'blocked'",
		"record.disk_free < 5.5", "record.paper_level <= 0 && record.open", "record.error_count >= 9", "record.project_id == 0 || record.owner == null",
	} {
		fmt.Fprintf(&text, "workflow: w%d\ntype: alert\ntriggers:\n  - id: t\n    record: kiosk\n    check: [change, 5m]\n    when: %q\n    cooldown: {length: 2h}\n"+
			"audience:\n  - to: record.owner\nchannel: memory\nmessage:\n  sms: {text: hi}\n---\n", i, when)
	}
	bundle, problems := loader.Load([]definition.File{{Name: "test.yaml", Text: []byte(text.String() + "workspace: default\n")}}, loader.Options{})
	if definition.HasErrors(problems) {
		b.Fatal(problems)
	}
	var zones civil.Zones
	prefilter := plan.NewPrefilter(bundle.Set, "kiosk", &zones)
	rec := subject.Record{ID: 1, Type: "kiosk", ExtID: "kiosk-1", CreatedAt: received, UpdatedAt: received, ModifiedBy: "bench"}
	props := `{"name":"Kiosk 17","project_id":45,"owner":"person-7","site":"district-7","charging":true,"screen_state":true,"battery_level":80,` +
		`"connection_status":true,"last_heartbeat_at":"2026-03-01T11:00:00Z","temperature":31.5,"status":"open","disk_free":120,"paper_level":3,"open":true,` +
		`"error_count":2,"note":"` + strings.Repeat("x", 60) + `"}`
	obs := plan.Observation{Now: received, EvaluatedAt: received.Add(-time.Hour), EvaluateAt: time.Date(2026, 3, 3, 11, 0, 0, 0, time.UTC)}
	b.ReportAllocs()
	for b.Loop() {
		if unchanged, err := prefilter.Unchanged(rec, props, "", obs); err != nil || !unchanged {
			b.Fatal(unchanged, err)
		}
	}
}
