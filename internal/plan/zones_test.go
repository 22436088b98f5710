package plan_test

import (
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/subject"
)

// seriesOf returns the series of the one trigger of a set.
func seriesOf(t *testing.T, text string) *plan.Series {
	t.Helper()
	set := load(t, text)
	w := set.Workflow("w")
	s, err := plan.SeriesOf(set, definition.Match{Workflow: w, Trigger: w.Trigger[0]}, new(civil.Zones))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func instant(text string) time.Time {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return at
}

// With `backlog: first` an occasion in a zone belongs to the backlog of the one before it there if it was due before that one was decided.
//
// Shows: R2, R3, R15.
func TestTheBacklogOfAZone(t *testing.T) {
	t.Parallel()
	due := instant("2026-05-14T08:00:00Z")
	before := func(change func(*instance.Row)) instance.Row {
		row := instance.Row{ID: 7, Status: instance.Pending, DueAt: due.AddDate(0, 0, -1)}
		change(&row)
		return row
	}
	begun := func(at time.Time) func(*instance.Row) {
		return func(r *instance.Row) { r.Event = subject.EventID(at.UnixMicro() << key.NodeBits) }
	}
	ended := func(s instance.Status, at time.Time) func(*instance.Row) {
		return func(r *instance.Row) { r.Status, r.CompletedAt = s, at }
	}
	for name, c := range map[string]struct {
		made   time.Time // the occasion's own row
		before instance.Row
		want   bool
	}{
		"the one before waits":                             {due.AddDate(0, 0, -1), before(func(*instance.Row) {}), true},
		"it waits, and was tried":                          {due.AddDate(0, 0, -1), before(func(r *instance.Row) { r.Attempts, r.Delay = 1, instance.DelayedByFailure }), false},
		"it is on hold":                                    {due.AddDate(0, 0, -1), before(func(r *instance.Row) { r.PutOnHold(instance.HoldRetries, due) }), false},
		"it is parked":                                     {due.AddDate(0, 0, -1), before(func(r *instance.Row) { r.PutOnHold(instance.HoldPaused, due) }), true},
		"it was resumed":                                   {due.AddDate(0, 0, -1), before(func(r *instance.Row) { r.Attempts, r.Delay = 1, instance.DelayedByPause }), true},
		"it has begun before":                              {due.AddDate(0, 0, -1), before(begun(due.Add(-time.Microsecond))), false},
		"it has begun with it":                             {due.AddDate(0, 0, -1), before(begun(due)), true},
		"it was left out before":                           {due.AddDate(0, 0, -1), before(ended(instance.Skipped, due.Add(-time.Hour))), false},
		"it was left out since":                            {due.AddDate(0, 0, -1), before(ended(instance.Skipped, due.Add(time.Hour))), true},
		"a person has cancelled it":                        {due.AddDate(0, 0, -1), before(ended(instance.Cancelled, due.Add(time.Hour))), false},
		"nobody was in the zone":                           {due.AddDate(0, 0, -1), instance.Row{}, false},
		"it was too late everywhere when this one was due": {due, instance.Row{}, true},
	} {
		if got := plan.Behind(due, instance.Row{ID: 9, CreatedAt: c.made}, c.before); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}

	there, err := seriesOf(t, calendar(`every: 1w, days: [mon, thu], at: "10:00", timezone: contact.timezone`, "    timing: {backlog: first}\n")).In("Europe/Berlin", new(civil.Zones))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		row  instance.Row
		want string
	}{
		"the one before":              {instance.Row{DueAt: due}, "broadcast:w:t:2026-05-11"},
		"in force since":              {instance.Row{DueAt: due, EffectiveAt: due.AddDate(0, 0, -3)}, "broadcast:w:t:2026-05-11"},
		"it came into force later":    {instance.Row{DueAt: due, EffectiveAt: due.AddDate(0, 0, -3).Add(time.Second)}, ""},
		"it was tried":                {instance.Row{DueAt: due, Attempts: 1}, ""},
		"it is retried by a person":   {instance.Row{DueAt: due, Delay: instance.DelayedByRetry}, ""},
		"its workflow was resumed":    {instance.Row{DueAt: due, Attempts: 1, Delay: instance.DelayedByPause}, "broadcast:w:t:2026-05-11"},
		"it has begun, and continues": {instance.Row{DueAt: due, Event: 3}, ""},
	} {
		if got, ok := there.Decisive(c.row); string(got.Key) != c.want || ok != (c.want != "") {
			t.Errorf("%s: %q, %t", name, got.Key, ok)
		}
	}
}

// An edit that moves the hours of the occasion that waits brings them into force again; one that leaves them, or an occasion that is overdue, does not.
// While an occasion waits for its end, the next one waits as the next one.
//
// Shows: R15, R17, D20.
func TestSinceWhenASeriesIsInForce(t *testing.T) {
	t.Parallel()
	rule := func(at string) *plan.Series {
		return seriesOf(t, calendar(`every: 1d, at: "`+at+`", timezone: contact.timezone`, ""))
	}
	since := instant("2026-05-01T12:00:00Z")
	first := ofDay("2026-05-14", "2026-05-13T20:00:00Z", func(r *instance.Row) { r.ID, r.EffectiveAt = 1, since })
	begun := ofDay("2026-05-13", "2026-05-12T20:00:00Z", func(r *instance.Row) { r.ID, r.EffectiveAt, r.Event = 2, since, 5 })
	for name, c := range map[string]struct {
		pending        []instance.Row
		rule, at, want string
	}{
		"the same hours":                     {[]instance.Row{first}, "10:00", "2026-05-13T19:30:00Z", "2026-05-14 20:00 2026-05-01T12:00:00Z"},
		"an hour that is past in some zones": {[]instance.Row{first}, "09:00", "2026-05-13T19:30:00Z", "2026-05-14 19:00 2026-05-13T19:30:00Z"},
		"overdue":                            {[]instance.Row{first}, "09:00", "2026-05-16T20:00:00Z", "2026-05-14 19:00 2026-05-01T12:00:00Z"},
		"the one before waits for its end":   {[]instance.Row{begun, first}, "10:00", "2026-05-13T12:00:00Z", "2026-05-14 20:00 2026-05-01T12:00:00Z"},
		"it waits, and the hours are others": {[]instance.Row{begun, first}, "08:00", "2026-05-13T12:00:00Z", "2026-05-14 18:00 2026-05-13T12:00:00Z"},
	} {
		last := plan.PlaceOf(begun)
		if len(c.pending) > 1 { // it has not ended
			last = plan.Place{}
		}
		changes, _ := rule(c.rule).Compare(c.pending, last, instant(c.at))
		got := ""
		for _, x := range changes {
			got += x.Row.LocalDate + " " + x.Row.DueAt.UTC().Format("15:04 ") + x.Row.EffectiveAt.Format(time.RFC3339)
			if x.Effect != plan.Updated {
				got += " " + string(x.Row.Reason)
			}
		}
		if got != c.want {
			t.Errorf("%s: %s", name, got)
		}
	}
	_, next := rule("10:00").Compare(nil, plan.Place{}, instant("2026-05-14T12:00:00Z"))
	for row := range next {
		if row.LocalDate != "2026-05-14" || !row.EffectiveAt.Equal(instant("2026-05-14T12:00:00Z")) {
			t.Errorf("the first: %+v", row)
		}
		break
	}
}
