package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/service/outlook"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
	"github.com/carillonhq/carillon/internal/subject"
)

// oneOf draws one of some texts.
func oneOf(t *rapid.T, list ...string) string { return rapid.SampledFrom(list).Draw(t, "drawn") }

// forecast is a life of which an outlook is asked for.
type forecast struct {
	world
	query    outlook.Query
	byRecord bool
	byEvent  bool
	rule     func(hour int) string // of a series after events, with the time of day of its messages
	events   int
}

// drawnRule returns the trigger of a random definition.
func drawnRule(t *rapid.T, byRecord bool) string {
	zones := []string{"UTC", "Europe/Berlin", "Australia/Lord_Howe", "America/Santiago", "Pacific/Auckland"}
	at := fmt.Sprintf("%02d:%02d", rapid.IntRange(0, 23).Draw(t, "hour"), rapid.SampledFrom([]int{0, 15, 30}).Draw(t, "minute"))
	late := "catch_up: " + oneOf(t, "48h", "2h", "never", "forever")
	dst := fmt.Sprintf("dst: {gap: %s, overlap: %s}", oneOf(t, "forward", "skip"), oneOf(t, "first", "second"))
	shared := late + ", " + dst
	if !byRecord {
		zone := oneOf(t, append(zones, "contact.timezone", "contact.timezone")...)
		every := oneOf(t, "every: 1d", "every: 2d", "every: 1w, days: [mon, thu]", "every: 1mo, days: [1, -1, -3]", `cron: "%d %d * * 1-5"`)
		if strings.HasPrefix(every, "cron") {
			every = fmt.Sprintf(every, 30, rapid.IntRange(0, 23).Draw(t, "cron"))
		} else {
			every += fmt.Sprintf(", at: %q", at)
		}
		every += oneOf(t, "", ", from: 2026-09-20", ", from: 2026-09-20, times: 9", ", until: 2026-11-03", ", from: 2026-10-29")
		rule := fmt.Sprintf("  - id: t\n    schedule: {%s, timezone: %s, %s}\n", every, zone, dst)
		if oneOf(t, "", "", "x") == "x" {
			rule += "    when: today() != date(\"2026-10-25\") && today() != date(\"2026-10-03\")\n"
		}
		return rule + fmt.Sprintf("    timing: {%s, backlog: %s}\n", late, oneOf(t, "latest", "first", "all"))
	}
	zone := oneOf(t, append(zones, "record.zone", "contact.timezone")...) // the latter is that of the one person of the record
	rule := "  - id: t\n    record: visit\n" + oneOf(t, "", "    when: record.level > 2\n", "    when: now < record.ends\n", "    when: record.level > 2\n    fire: false_to_true\n")
	switch oneOf(t, "dates", "course", "course") {
	case "dates":
		rule = strings.ReplaceAll(rule, "    fire: false_to_true\n", "")
		return rule + fmt.Sprintf("    timing: {anchor: record.day, offset: [-30d, -3d, -1h, 2d, 1mo], at: %q, timezone: %s, %s}\n", at, zone, shared)
	default:
		anchor := "anchor: record.day, "
		if strings.Contains(rule, "fire") || oneOf(t, "", "x") == "x" && strings.Contains(rule, "when") {
			anchor = ""
		}
		repeat := oneOf(t, "{every: 1w}", "{every: 1w, times: 3}", "{every: 2d, until: 2026-11-05}", "{every: 1mo, times: 4}", "{every: 1d, until: record.ends}")
		sequence := fmt.Sprintf("[{day: 0}, {day: 1, at: %q}]", at)
		if strings.Contains(repeat, "mo") {
			sequence = "[{day: 2}, {day: -2}]"
		} else if strings.Contains(repeat, "1d") {
			sequence = `[{day: 0, at: "02:30"}]`
		}
		return rule + fmt.Sprintf("    timing:\n      {%sat: \"02:15\", timezone: %s, %s, backlog: %s, sequence: %s, repeat: %s}\n", anchor, zone, shared, oneOf(t, "latest", "first", "all"), sequence, repeat)
	}
}

// drawnSeries returns the trigger of a random series after events, by the hour of its messages, and its audience.
func drawnSeries(t *rapid.T) (rule func(hour int) string, audience string) {
	zone := oneOf(t, "UTC", "Europe/Berlin", "Australia/Lord_Howe", "[contact.timezone, Asia/Tokyo]")
	late := fmt.Sprintf("catch_up: %s, backlog: %s, dst: {gap: %s}", oneOf(t, "48h", "2h", "never", "forever"), oneOf(t, "latest", "first", "all"), oneOf(t, "forward", "skip"))
	first := oneOf(t, "{after: 0m}", "{after: 90m}", "{day: 0, at: \"02:30\"}", "{day: 2, at: \"02:30\"}")
	repeat := oneOf(t, "", ", repeat: {every: 1w}", ", repeat: {every: 1w, times: 3}", ", repeat: {every: 8d, until: 2026-11-05}")
	anchor := oneOf(t, "", "", "anchor: now, ", "anchor: event.day, ")
	audience = oneOf(t, "{to: event.recipient}", "{to: event.recipient}", "{persona: Mother}")
	if audience != "{to: event.recipient}" {
		zone = strings.NewReplacer("[contact.timezone, Asia/Tokyo]", "Asia/Tokyo").Replace(zone)
	}
	return func(hour int) string {
		return fmt.Sprintf("  - id: t\n    event: joined\n    dedup: [number]\n    timing:\n      {%stimezone: %s, %s, sequence: [%s, {day: 3, at: \"%02d:30\"}, {after: 1h}, {day: 5, at: \"%02d:00\"}]%s}\n", anchor, zone, late, first, hour, hour, repeat)
	}, audience + oneOf(t, "", "\npin: false")
}

func (f *forecast) begin(outer testing.TB, t *rapid.T, s *store.Store) {
	f.world = world{enginetest.Setup(outer, s, "", nil)}
	of := oneOf(t, "schedule", "record", "event", "event")
	f.byRecord, f.byEvent = of == "record", of == "event"
	start := time.Date(2026, time.Month(rapid.SampledFrom([]int{3, 9, 10}).Draw(t, "month")), 20, 0, 0, 0, 0, time.UTC)
	f.Clock.Set(start.Add(time.Duration(rapid.IntRange(0, 30*24*60).Draw(t, "start")) * time.Minute))
	to := "{persona: Mother}"
	if f.byRecord {
		to = "{to: record.who}"
	}
	if f.byEvent {
		f.rule, to = drawnSeries(t)
	} else {
		rule := drawnRule(t, f.byRecord)
		f.rule = func(int) string { return rule }
	}
	rule := f.rule
	f.rule = func(hour int) string {
		return "workflow: w\ntype: broadcast\ntriggers:\n" + rule(hour) + "audience: " + to + "\nchannel: inbox\nmessage: {inbox: {text: x}}\n" +
			"---\nrecord_type: visit\nfields: {day: date, zone: text, level: number, who: contact, ends: datetime}\n---\npersona: Mother\n---\nchannel: inbox\nprovider: memory\n"
	}
	text := f.rule(9)
	t.Logf("%s\n%s", f.Clock.Now(), text)
	f.Apply(text)
	f.mother("amina", oneOf(t, "Africa/Nairobi", "Europe/Berlin", "Australia/Lord_Howe", "Pacific/Honolulu", "America/New_York"))
	f.query = outlook.Query{Workflow: "w", Limit: 8, Contact: "amina"}
	if f.byRecord {
		f.query.Record, f.query.Contact = subject.RecordRef{Type: "visit", ExtID: "v"}, ""
	}
}

// write writes the record with random fields.
func (f *forecast) fields(t *rapid.T) {
	day := f.Clock.Now().AddDate(0, 0, rapid.IntRange(-9, 40).Draw(t, "day")).Format(time.DateOnly)
	ends := f.Clock.Now().AddDate(0, 0, rapid.IntRange(1, 60).Draw(t, "ends")).Format(time.RFC3339)
	f.put("visit/v", fmt.Sprintf(`{"day": %q, "zone": %q, "level": %d, "who": "amina", "ends": %q}`,
		day, oneOf(t, "Europe/Berlin", "Australia/Lord_Howe", "Asia/Tokyo"), rapid.IntRange(2, 4).Draw(t, "level"), ends))
}

// joins posts an event that begins a series, which may come late.
func (f *forecast) joins(t *rapid.T) {
	f.events++
	now := f.Clock.Now()
	at := now.Add(-time.Duration(rapid.SampledFrom([]int{0, 0, 3, 30, 70, 200}).Draw(t, "hours")) * time.Hour)
	day := now.AddDate(0, 0, rapid.IntRange(-5, 9).Draw(t, "day")).Format(time.DateOnly)
	t.Logf("%s joins at %s, %s", now, at, day)
	f.Post(fmt.Sprintf(`{"kind": "joined", "occurred_at": %q, "payload": {"number": %d, "day": %q}, "recipient": {"customer_ref": "amina"}}`, at.Format(time.RFC3339), f.events, day))
}

// act lets something happen before the outlook is asked for.
func (f *forecast) act(t *rapid.T) {
	now := f.Clock.Now()
	what := oneOf(t, "wait", "wait", "down", "down and up", "cancel", "write")
	t.Logf("%s %s", now, what)
	ahead := now.Add(time.Duration(rapid.IntRange(1, 9*24*60).Draw(t, "minutes")) * time.Minute)
	switch what {
	case "wait":
		f.follow(ahead)
	case "down", "down and up":
		if f.Clock.Set(ahead); what == "down and up" {
			f.settle()
		}
	case "cancel":
		rows, err := f.Store.Instances(f.Context(), f.Workspace.ID, store.InstanceFilter{Status: instance.Pending}, store.Page{Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		if len(rows) > 0 {
			_, err = f.Operator().CancelInstance(f.Context(), f.Workspace.ID, rows[rapid.IntRange(0, len(rows)-1).Draw(t, "row")].ID, "test", now)
		}
		if err != nil {
			t.Fatal(err)
		}
	case "write":
		switch {
		case f.byRecord:
			f.fields(t)
		case f.byEvent && oneOf(t, "join", "edit") == "edit":
			f.Apply(f.rule(rapid.IntRange(0, 23).Draw(t, "hour")))
		case f.byEvent:
			f.joins(t)
		}
	}
}

func (f *forecast) settle() {
	for f.tick() {
	}
}

// occasionOf returns the key of the occasion of a delivery or a row of a zone.
func occasionOf(k string) string {
	k, _, _ = strings.Cut(k, "|")
	base, _ := key.Instance(k).Everywhere().Base()
	return string(base)
}

// The outlook of a workflow is exactly what it sends over the following time when nothing changes.
//
// Shows: D16, D21, R3, R13, R14, R15, B34.
func TestTheOutlookIsWhatIsSent(t *testing.T) {
	t.Parallel()
	storetest.NotUnderRace(t, "one goroutine")
	lives := map[string]int{"memory": 40}
	for _, database := range append([]string{"memory"}, storetest.Databases(t)...) {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			outer, messages, enough := t, 0, storetest.Lives(max(lives[database], 8))
			rapid.Check(t, func(t *rapid.T) {
				if enough() && messages > 0 { // a life more where chance sent nothing
					return
				}
				s := storetest.Memory(outer)
				if database != "memory" {
					s = storetest.Open(outer, storetest.URL(outer, database))
				}
				f := &forecast{}
				f.begin(outer, t, s)
				switch {
				case f.byRecord:
					f.fields(t)
				case f.byEvent:
					f.joins(t)
				}
				for range rapid.IntRange(0, 4).Draw(t, "acts") {
					f.act(t)
				}
				messages += f.judge(t)
			})
			t.Logf("%d messages", messages)
			if messages == 0 {
				t.Error("nothing was sent")
			}
		})
	}
}

// judge asks for the outlook, lives on, and compares. It returns how many messages were sent.
func (f *forecast) judge(t *rapid.T) int {
	now := f.Clock.Now()
	u, err := f.Upcoming(f.Context(), f.Workspace.ID, f.query)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	end := now.AddDate(0, 0, 50)
	for _, o := range u.Occurrences {
		at := o.At
		if at.Before(now) {
			at = now
		}
		want = append(want, fmt.Sprintf("%s %s", at.UTC().Format(time.RFC3339), occasionOf(string(o.Key))))
	}
	if n := len(u.Occurrences); n == f.query.Limit {
		end = u.Occurrences[n-1].At
		if end.Before(now) {
			end = now
		}
	} else if n > 0 && u.Occurrences[n-1].At.After(end) {
		end = u.Occurrences[n-1].At
	}
	if len(u.Occurrences) < f.query.Limit && u.Triggers[0].Endless {
		t.Fatalf("%d occurrences, and more follow: %+v", len(u.Occurrences), u.Triggers[0])
	}
	var overdue []string
	for _, d := range u.Waiting { // messages of events that exist since the answer; of one that is overdue it is decided when it leaves
		switch {
		case !d.SendAt.After(now):
			overdue = append(overdue, occasionOf(d.Key))
		case !d.SendAt.After(end):
			want = append(want, fmt.Sprintf("%s %s", d.SendAt.UTC().Format(time.RFC3339), occasionOf(d.Key)))
		}
	}
	known := f.sent(t, time.Time{}, now.AddDate(9, 0, 0))
	f.follow(end)
	got := slices.DeleteFunc(f.sent(t, now, end), func(line string) bool {
		at, k, _ := strings.Cut(line, " ")
		cut := len(u.Occurrences) == f.query.Limit && at == end.UTC().Format(time.RFC3339) // others of the same instant are not listed
		return slices.Contains(known, line) || slices.Contains(overdue, k) || cut && !slices.Contains(want, line)
	})
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Fatalf("at %s: expected\n%s\nsent\n%s\n%+v", now, strings.Join(want, "\n"), strings.Join(got, "\n"), u.Triggers[0])
	}
	return len(got)
}

// sent returns the messages that were sent from one instant to another.
func (f *forecast) sent(t *rapid.T, from, to time.Time) (list []string) {
	rows, err := f.Store.Deliveries(f.Context(), f.Workspace.ID, store.DeliveryFilter{}, store.Page{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range rows {
		if at := d.LastSentAt; !at.Before(from) && !at.After(to) && !at.IsZero() {
			list = append(list, fmt.Sprintf("%s %s", at.UTC().Format(time.RFC3339), occasionOf(d.Key)))
		}
	}
	slices.Sort(list)
	return list
}
