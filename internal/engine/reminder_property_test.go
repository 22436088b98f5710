package engine_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/engine/service/operator"
	"github.com/carillonhq/carillon/internal/engine/stage/fanout"
	"github.com/carillonhq/carillon/internal/engine/stage/sender"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// papers is a definition of reminders of papers, with the facts that the oracle needs.
type papers struct {
	offsets []int // days from the date
	at      string
	zone    string // where no record names one
	byHome  bool   // the home of a paper must be open
	enabled bool
	there   bool // the trigger exists
}

func (p papers) text() string {
	offsets := make([]string, len(p.offsets))
	for i, days := range p.offsets {
		offsets[i] = strings.Replace(fmt.Sprintf("%+dd", days), "+0d", "0d", 1)
	}
	when := "record.wanted == true"
	if p.byHome {
		when = "[record.wanted == true, record.home.open != false]"
	}
	trigger := fmt.Sprintf(`
  - id: due
    record: paper
    when: %s
    timing:
      anchor: record.date
      offset: [%s]
      at: %q
      timezone: [record.zone, record.home.zone, %s]
      catch_up: 48h
    reconcile: {every: 1d, due_within: 100d}
    audience:
      - to: record.who`, when, strings.Join(offsets, ", "), p.at, p.zone)
	if !p.there {
		trigger = ""
	}
	return fmt.Sprintf(`
workspace: default
cadence: {max_per_day: 0}
---
workflow: w
type: reminder
enabled: %t
triggers:
  - id: other
    event: other%s
audience:
  - to: event.recipient
channel: inbox
message:
  inbox: {subject: x, text: x}
---
record_type: paper
fields: {date: date, wanted: bool, zone: text, who: text, note: number, home: record(home)}
---
record_type: home
fields: {open: bool, zone: text, note: number}
---
channel: inbox
provider: inbox
`, p.enabled, trigger)
}

// sheet is a record of the oracle; deleted ones have no fields.
type sheet struct {
	fields map[string]any
	closed bool
	there  bool
}

// occasion is the oracle's state of one key.
type occasion struct {
	status instance.Status
	due    time.Time
	parked bool // it became due while the workflow was paused
	freed  bool // it was parked before: it is not late any more
}

// oracle plans reminders from scratch, with its own arithmetic.
type oracle struct {
	papers
	paused      bool
	sheets      map[string]*sheet // by type/id
	known       map[string]map[string]occasion
	fingerprint map[string]string // by record: the desired occasions at its last evaluation
}

// desired returns the occasions of a paper that should exist, by key.
func (o *oracle) desired(name string) (all map[string]time.Time, fingerprint string) {
	s, all := o.sheets[name], map[string]time.Time{}
	date, dated := s.fields["date"].(string)
	if !s.there || s.closed || !o.enabled || !o.there || s.fields["wanted"] != true || !dated {
		return all, ""
	}
	home := &sheet{}
	if id, ok := s.fields["home"].(string); ok && o.sheets["home/"+id] != nil {
		home = o.sheets["home/"+id]
	}
	if o.byHome && home.fields["open"] == false {
		return all, ""
	}
	zone := o.zone
	for _, named := range []any{home.fields["zone"], s.fields["zone"]} {
		if named, ok := named.(string); ok {
			zone = named
		}
	}
	loc, err := time.LoadLocation(zone)
	if err != nil {
		panic(err)
	}
	day, err := time.Parse(time.DateOnly+" 15:04", date+" "+o.at) // no zone here moves its clocks at these times of day
	if err != nil {
		panic(err)
	}
	for _, offset := range o.offsets {
		due := time.Date(day.Year(), day.Month(), day.Day()+offset, day.Hour(), day.Minute(), 0, 0, loc).UTC()
		all[fmt.Sprintf("reminder:w:paper:%s:due:%s:%d", strings.TrimPrefix(name, "paper/"), date, -offset)] = due
		fingerprint += fmt.Sprintf("%d %s %s\n", offset, due, zone)
	}
	return all, date + fingerprint
}

// settle computes the state once everything is evaluated at an instant, and then everything that is due up to another one.
func (o *oracle) settle(now, until time.Time) {
	for name := range o.sheets {
		if !strings.HasPrefix(name, "paper/") {
			continue
		}
		if o.known[name] == nil {
			o.known[name] = map[string]occasion{}
		}
		known := o.known[name]
		desired, fingerprint := o.desired(name)
		changed := fingerprint != o.fingerprint[name]
		o.fingerprint[name] = fingerprint
		for k, was := range known {
			if _, still := desired[k]; !still && was.status == instance.Pending {
				known[k] = occasion{status: instance.Deactivated}
			}
		}
		for k, due := range desired {
			switch was := known[k].status; {
			case was == instance.Completed || was == instance.Skipped || was == instance.Cancelled && !changed:
			case was == instance.Pending && (known[k].parked || known[k].freed || o.paused):
				known[k] = occasion{instance.Pending, due, known[k].parked, known[k].freed}
			case now.Sub(due) > 48*time.Hour:
				known[k] = occasion{status: instance.Skipped}
			default:
				known[k] = occasion{status: instance.Pending, due: due}
			}
		}
		for k, was := range known {
			if was.status == instance.Pending && !was.due.After(until) && !was.parked {
				if known[k] = (occasion{status: instance.Completed}); o.paused {
					known[k] = occasion{instance.Pending, was.due, true, false}
				}
			}
		}
	}
}

// office is an engine whose reminders an oracle plans too.
type office struct {
	world
	oracle
	store *store.Store
	db    *sql.DB // a connection beside the engine
	die   string
	log   []string // deliveries that the provider accepted
	seen  map[string]bool
	done  map[string]instance.Row // completed occasions
}

func (f *office) Send(_ context.Context, out channel.Outgoing) (channel.Receipt, error) {
	if !f.seen[out.IdempotencyKey] {
		f.seen[out.IdempotencyKey] = true
		f.log = append(f.log, out.DeliveryID)
	}
	return channel.Receipt{ProviderID: "x"}, nil
}

// start begins a life of the engine.
func (f *office) start(t testing.TB, now time.Time, definitions string) {
	f.world = world{enginetest.Setup(t, f.store, definitions, func(c *engine.Config) {
		for i := range c.Providers {
			c.Providers[i].Open = func(map[string]string) (channel.Channel, error) { return f, nil }
		}
		c.Failpoint = func(point string) error {
			if point == f.die {
				f.die = ""
				return errDied
			}
			return nil
		}
	})}
	f.Clock.Set(now)
}

// until advances the clock and runs every stage whenever something is due.
func (f *office) until(t *rapid.T, end time.Time) {
	for range 10_000 {
		r, err := f.Tick(f.Context())
		if err != nil && !errors.Is(err, errDied) {
			t.Fatal(err)
		}
		if err != nil || r.Any() {
			continue
		}
		next, err := f.NextDue(f.Context())
		if err != nil {
			t.Fatal(err)
		}
		if next.IsZero() || next.After(end) {
			f.Clock.Set(end)
			return
		}
		if next.After(f.Clock.Now()) {
			f.Clock.Set(next)
		}
	}
	t.Fatal("there is no end to it")
}

// compare compares the stored rows with the oracle.
func (f *office) compare(t *rapid.T) {
	rows, err := f.store.Instances(f.Context(), f.Workspace.ID, store.InstanceFilter{}, store.Page{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	got, want := map[string]string{}, map[string]string{}
	for _, row := range rows {
		got[row.Key] = string(row.Status)
		if row.Status == instance.Pending {
			got[row.Key] += row.DueAt.UTC().Format(" 2006-01-02 15:04")
		}
		if row.Held() {
			got[row.Key] += " held"
		}
		if was, done := f.done[row.Key]; done && was != row {
			t.Fatalf("%s was completed, and has changed:\n%+v\n%+v", row.Key, was, row)
		}
		if row.Status == instance.Completed {
			f.done[row.Key] = row
		}
	}
	for _, known := range f.known {
		for k, o := range known {
			want[k] = string(o.status)
			if o.status == instance.Pending {
				want[k] += o.due.Format(" 2006-01-02 15:04")
			}
			if o.parked {
				want[k] += " held"
			}
		}
	}
	if maps.Equal(got, want) {
		return
	}
	keys := slices.Collect(maps.Keys(got))
	for k := range want {
		if got[k] == "" {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	for _, k := range keys {
		if got[k] != want[k] {
			t.Errorf("%s: %q, want %q", k, got[k], want[k])
		}
	}
	t.Fatalf("at %s, by %+v", f.Clock.Now(), f.papers)
}

// act makes one random change.
func (f *office) act(t *rapid.T) (what string) {
	paper := "paper/" + rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "paper")
	home := "home/" + rapid.SampledFrom([]string{"x", "y"}).Draw(t, "home")
	zone := func() any {
		return rapid.SampledFrom([]any{nil, "Europe/Berlin", "Pacific/Auckland", "America/New_York"}).Draw(t, "zone")
	}
	what = rapid.SampledFrom([]string{
		"write", "write", "write", "write", "beat", "parent", "parent", "edit", "edit", "delete", "delete parent", "close", "cancel", "cancel", "die", "restart", "lose", "lose",
		"pause", "pause",
	}).Draw(t, "what")
	switch what {
	case "write":
		f.fill(paper, map[string]any{
			"date":   rapid.SampledFrom([]any{nil, "2026-05-10", "2026-05-15", "2026-05-16", "2026-05-18", "2026-05-22", "2026-05-29"}).Draw(t, "date"),
			"wanted": rapid.SampledFrom([]any{true, true, true, false}).Draw(t, "on"), "who": "ann", "zone": zone(),
			"home": rapid.SampledFrom([]any{nil, "x", "y"}).Draw(t, "its home"),
		}, nil)
	case "beat":
		f.fill(paper, map[string]any{"note": rapid.IntRange(0, 1e6).Draw(t, "note")}, nil)
	case "parent":
		f.fill(home, map[string]any{"open": rapid.Bool().Draw(t, "open"), "zone": zone(), "note": rapid.IntRange(0, 1e6).Draw(t, "note")}, nil)
	case "edit":
		before, there := f.text(), f.there
		switch rapid.IntRange(0, 5).Draw(t, "edited") {
		case 0:
			f.offsets = rapid.SampledFrom([][]int{{-7, -1}, {-3}, {0}, {-1, 0, 2}, {-7, -3, -1, 0, 2}}).Draw(t, "offsets")
		case 1:
			f.at = rapid.SampledFrom([]string{"09:00", "18:30"}).Draw(t, "at")
		case 2:
			f.papers.zone = rapid.SampledFrom([]string{"UTC", "Asia/Tokyo"}).Draw(t, "default zone")
		case 3:
			f.byHome = !f.byHome
		case 4:
			f.enabled = !f.enabled
		case 5:
			f.there = !f.there
		}
		if f.text() != before { // else the edit ends the row and makes no new one
			if there || f.there {
				f.unlock()
			} else { // no trigger reads papers any more: no new row either
				f.settle(f.Clock.Now(), f.Clock.Now())
				f.until(t, f.Clock.Now())
			}
			f.Apply(f.text())
		}
	case "delete", "delete parent":
		name := map[string]string{"delete": paper, "delete parent": home}[what]
		if s := f.sheets[name]; s != nil && s.there {
			f.write(upsert.Delete, name, `{}`)
			f.sheets[name] = &sheet{}
		}
	case "close":
		if s := f.sheets[paper]; s != nil && s.there {
			closed := !s.closed
			f.fill(paper, nil, &closed)
		}
	case "cancel":
		f.cancelOne(t)
	case "lose":
		f.lose(t)
	case "pause":
		f.pause(t, !f.paused)
	case "die":
		f.die = rapid.SampledFrom([]string{sender.BeforeIntent, sender.AfterIntent, sender.BeforeResult, fanout.AfterChunk}).Draw(t, "dies")
	}
	return what
}

// pause pauses or resumes the workflow; after resuming, parked occasions are due and not late (R2).
func (f *office) pause(t *rapid.T, on bool) {
	now := f.Clock.Now()
	f.settle(now, now) // earlier writes are evaluated first
	f.until(t, now)
	var r operator.Paused
	var err error
	if on {
		r, err = f.Operator().Pause(f.Context(), f.Workspace.ID, "w", "", "test", now)
	} else {
		r, err = f.Operator().Resume(f.Context(), f.Workspace.ID, "w", "test", now)
	}
	if err != nil || !r.Changed {
		t.Fatal(r, err)
	}
	f.paused = on
	for _, known := range f.known {
		for k, o := range known {
			if o.parked {
				o.parked, o.freed = false, true
				known[k] = o
			}
		}
	}
}

// fill writes fields of a record; nil removes one.
func (f *office) fill(name string, fields map[string]any, closed *bool) {
	s := f.sheets[name]
	if s == nil || !s.there {
		s = &sheet{fields: map[string]any{}, there: true}
		f.sheets[name] = s
	}
	for field, value := range fields {
		if s.fields[field] = value; value == nil {
			delete(s.fields, field)
		}
	}
	if closed != nil {
		s.closed = *closed
	}
	body := map[string]any{"props": fields}
	if fields == nil {
		body["props"] = map[string]any{}
	}
	if closed != nil {
		body["closed"] = *closed
	}
	text, err := json.Marshal(body)
	if err != nil {
		f.Fatal(err)
	}
	f.write(upsert.Merge, name, string(text))
}

// lose deletes or ends a waiting occasion directly in the database; the repair of the next day plans it again.
func (f *office) lose(t *rapid.T) {
	now := f.Clock.Now()
	f.settle(now, now)
	f.until(t, now)
	waits := f.waiting()
	if len(waits) == 0 || f.paused { // a parked occasion that is too late by now is not made again
		return
	}
	k := rapid.SampledFrom(waits).Draw(t, "lost")
	text := rapid.SampledFrom([]string{`DELETE FROM instance WHERE key = $1`, `UPDATE instance SET status = 'deactivated', ready_at = 0 WHERE key = $1`}).Draw(t, "how")
	if _, err := f.db.ExecContext(f.Context(), text, k); err != nil {
		t.Fatal(err)
	}
	tomorrow := now.Add(24*time.Hour + time.Minute)
	f.settle(now, tomorrow)
	f.until(t, tomorrow)
}

// waiting returns the keys of the occasions that wait by the oracle.
func (f *office) waiting() (waits []string) {
	for _, known := range f.known {
		for k, o := range known {
			if o.status == instance.Pending {
				waits = append(waits, k)
			}
		}
	}
	slices.Sort(waits)
	return waits
}

// cancelOne cancels a waiting occasion.
func (f *office) cancelOne(t *rapid.T) {
	waits := f.waiting()
	if len(waits) == 0 {
		return
	}
	k := rapid.SampledFrom(waits).Draw(t, "cancelled")
	row, err := f.store.InstanceByKey(f.Context(), f.Workspace.ID, k)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Operator().CancelInstance(f.Context(), f.Workspace.ID, row.ID, "test", f.Clock.Now()); err != nil {
		t.Fatal(err)
	}
	for _, known := range f.known {
		if _, of := known[k]; of {
			known[k] = occasion{status: instance.Cancelled}
		}
	}
}

// Random writes, edits, cancellations, deaths and pauses: once all is evaluated, the waiting occasions are those that an oracle plans from scratch. A
// sent occasion is unchanged and was sent once, and no due occasion is missing.
//
// Shows: B1, B12, B32, D9, D10, P2.
func TestRemindersFollowTheRecords(t *testing.T) {
	t.Parallel()
	for _, database := range storetest.Databases(t) {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			steps, sent, enough := 0, 0, storetest.MoreLives(4) // of an office in May
			acts := map[string]int{}
			rapid.Check(t, func(r *rapid.T) {
				if enough() {
					return
				}
				url := storetest.URL(t, database)
				f := &office{store: storetest.Open(t, url), db: behind(t, database, url), seen: map[string]bool{}, done: map[string]instance.Row{}, oracle: oracle{
					papers: papers{offsets: []int{-3, -1}, at: "09:00", zone: "UTC", byHome: true, enabled: true, there: true},
					sheets: map[string]*sheet{}, known: map[string]map[string]occasion{}, fingerprint: map[string]string{},
				}}
				defer func() { _ = errors.Join(f.db.Close(), f.store.Close()) }() // a server has no connections for hundreds of lives
				f.start(t, ten.Add(7*time.Minute), f.text())
				f.person("ann", `"timezone": "UTC"`)
				disturbed := false
				for range rapid.IntRange(3, 14).Draw(r, "steps") {
					steps++
					for range rapid.IntRange(1, 3).Draw(r, "acts") {
						what := f.act(r)
						acts[what]++
						if what == "restart" {
							f.start(t, f.Clock.Now(), "")
						}
						disturbed = disturbed || what == "die" || !f.enabled || f.paused
					}
					wait := time.Duration(rapid.SampledFrom([]int{0, 0, 30, 600, 1440, 4000}).Draw(r, "wait")) * time.Minute
					if now := f.Clock.Now(); rapid.IntRange(0, 3).Draw(r, "stands still") == 0 {
						f.Clock.Set(now.Add(wait))
						f.settle(now.Add(wait), now.Add(wait))
						f.until(r, now.Add(wait))
						disturbed = disturbed || wait > 0
					} else {
						f.settle(now, now.Add(wait))
						f.until(r, now.Add(wait))
					}
					f.compare(r)
				}
				if f.paused {
					f.pause(r, false)
				}
				if !f.enabled { // its occasions wait until it is enabled
					f.enabled, disturbed = true, true
					f.Apply(f.text())
				}
				f.settle(f.Clock.Now(), f.Clock.Now().AddDate(0, 0, 40))
				f.until(r, f.Clock.Now().AddDate(0, 0, 40))
				f.compare(r)
				f.sentOnce(r, disturbed)
				sent += len(f.log)
			})
			t.Logf("%d steps, %d messages, %v", steps, sent, acts)
			if sent == 0 && steps > 100 { // a few lives need not send anything
				t.Error("nothing was tried")
			}
		})
	}
}

// sentOnce compares the provider's log with the stored rows: each completed occasion was sent once. Only occasions that the death of a process or a
// pause delayed may have become too late.
func (f *office) sentOnce(t *rapid.T, disturbed bool) {
	rows, err := f.store.Deliveries(f.Context(), f.Workspace.ID, store.DeliveryFilter{}, store.Page{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	sent, of := 0, map[instance.ID]bool{}
	for _, row := range rows {
		if of[row.Instance] {
			t.Fatalf("two deliveries of one occasion: %+v", row)
		}
		of[row.Instance] = true
		switch {
		case row.Status == delivery.Sent || !row.LastSentAt.IsZero():
			sent++
		case row.Status == delivery.Skipped && disturbed && (row.Reason == reason.Stale || row.Reason == reason.ConditionCleared):
		case row.Status == delivery.Skipped && row.Reason == reason.RecordClosed && disturbed:
		case disturbed && !row.UnknownSince.IsZero(): // its process died while sending: the outcome is unknown, and it is too late to send it again
		default:
			t.Fatalf("it did not leave: %+v", row)
		}
	}
	if len(rows) != len(f.done) || len(f.log) < sent {
		t.Fatalf("%d occasions are done, with %d deliveries, %d sent, and the provider has %d", len(f.done), len(rows), sent, len(f.log))
	}
	left := map[string]bool{}
	for _, id := range f.log {
		if left[id] {
			t.Fatalf("%s left twice", id)
		}
		left[id] = true
	}
}
