package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/engine/stage/fanout"
	"github.com/carillonhq/carillon/internal/engine/stage/sender"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// travels is a paper, its reminder and the contacts who are reminded, as an oracle models them.
type travels struct {
	world
	date    string // of the paper; empty: none
	own     string // its zone
	closed  bool
	hour    int
	zones   string // of the timing
	enabled bool
	alone   bool // the audience is the paper's own person, amina
	homes   map[string]string

	die  string
	sent map[string]time.Time // by occasion and person
	bad  []string
}

func (v *travels) text() string {
	text := zonesReminder(fmt.Sprintf(`offset: [-1d, 0d], at: "%02d:00", catch_up: forever, timezone: %s`, v.hour, v.zones), fmt.Sprintf("enabled: %t\n", v.enabled))
	if v.alone {
		text = strings.Replace(text, "audience: {persona: Mother}", "audience: {to: record}", 1)
	}
	return text
}

// hourOf returns the zone in which the hour of a contact is.
func (v *travels) hourOf(person string) string {
	for _, zone := range strings.Split(strings.Trim(v.zones, "[]"), ", ") {
		switch zone {
		case "contact.timezone":
			if zone = v.homes[person]; zone == "" && v.alone {
				zone = v.own
			}
		case "record.timezone":
			zone = v.own
		}
		if zone != "" {
			return zone
		}
	}
	if v.own != "" {
		return v.own
	}
	return "UTC"
}

// due returns when an occasion is due for a contact, by day.
func (v *travels) due(person string) (all map[string]time.Time) {
	all = map[string]time.Time{}
	if v.date == "" || v.closed || !v.enabled || v.alone && person != "amina" {
		return all
	}
	day, err := time.Parse(time.DateOnly, v.date)
	if err != nil {
		panic(err)
	}
	loc, err := time.LoadLocation(v.hourOf(person))
	if err != nil {
		panic(err)
	}
	for before := range 2 {
		all[fmt.Sprintf("reminder:w:paper:amina:due:%s:%d", v.date, before)] = time.Date(day.Year(), day.Month(), day.Day()-before, v.hour, 0, 0, 0, loc)
	}
	return all
}

// Send compares each message with the oracle at this moment.
func (v *travels) Send(_ context.Context, out channel.Outgoing) (channel.Receipt, error) {
	rows, err := v.Store.Deliveries(v.Context(), v.Workspace.ID, store.DeliveryFilter{}, store.Page{Limit: 1000})
	if err != nil {
		return channel.Receipt{}, err
	}
	for _, row := range rows {
		if key.Delivery(row.Key).Idempotency(row.Step+1) != out.IdempotencyKey {
			continue
		}
		occasion, _, _ := strings.Cut(row.Key, "|")
		due, desired := v.due(out.Address)[occasion]
		name, now := occasion+" to "+out.Address, v.Clock.Now()
		before, twice := v.sent[name]
		switch {
		case twice:
			v.bad = append(v.bad, fmt.Sprintf("%s at %s, and again at %s", name, before, now))
		case !desired:
			v.bad = append(v.bad, fmt.Sprintf("%s at %s: it is not desired", name, now))
		case now.Before(due):
			v.bad = append(v.bad, fmt.Sprintf("%s at %s, before %s", name, now, due))
		}
		v.sent[name] = now
		return channel.Receipt{ProviderID: "x"}, nil
	}
	return channel.Receipt{}, errors.New("a message without a delivery")
}

func (v *travels) start(t testing.TB, s *store.Store, now time.Time, definitions string) {
	v.world = world{enginetest.Setup(t, s, definitions, func(c *engine.Config) {
		for i := range c.Providers {
			c.Providers[i].Open = func(map[string]string) (channel.Channel, error) { return v, nil }
		}
		c.Failpoint = func(point string) error {
			if point == v.die {
				v.die = ""
				return errDied
			}
			return nil
		}
	})}
	v.Clock.Set(now)
}

func (v *travels) until(t *rapid.T, end time.Time) {
	for range 10_000 {
		r, err := v.Tick(v.Context())
		if err != nil && !errors.Is(err, errDied) {
			t.Fatal(err)
		}
		if err != nil || r.Any() {
			continue
		}
		next, err := v.NextDue(v.Context())
		if err != nil {
			t.Fatal(err)
		}
		if next.IsZero() || next.After(end) {
			v.Clock.Set(end)
			return
		}
		if next.After(v.Clock.Now()) {
			v.Clock.Set(next)
		}
	}
	t.Fatal("there is no end to it")
}

func (v *travels) act(t *rapid.T, s *store.Store) string {
	draw := func(list ...string) string { return rapid.SampledFrom(list).Draw(t, "drawn") }
	what := draw("date", "date", "close", "zone", "move", "move", "move", "hour", "zones", "zones", "switch", "die", "restart")
	switch what {
	case "date":
		if v.date = draw("", "2026-05-15", "2026-05-16", "2026-05-16", "2026-05-17"); v.date == "" {
			v.put("paper/amina", `{"date": null}`)
		} else {
			v.put("paper/amina", fmt.Sprintf(`{"date": %q}`, v.date))
		}
	case "close":
		v.closed = !v.closed
		v.write(upsert.Merge, "paper/amina", fmt.Sprintf(`{"closed": %t}`, v.closed))
	case "zone":
		v.own = draw("Asia/Tokyo", "America/New_York", "UTC")
		v.put("paper/amina", fmt.Sprintf(`{"timezone": %q}`, v.own))
	case "move":
		v.move(draw("amina", "berta", "carol"), draw("", "Pacific/Auckland", "Asia/Tokyo", "Europe/Berlin", "America/New_York", "Pacific/Honolulu"))
	case "hour", "zones", "switch":
		before := v.text()
		switch what {
		case "hour":
			v.hour = rapid.SampledFrom([]int{3, 9, 20}).Draw(t, "hour")
		case "zones":
			v.zones = draw("contact.timezone", "[contact.timezone, record.timezone, Asia/Tokyo]", "Europe/Berlin", "record.timezone")
		case "switch":
			v.enabled = !v.enabled
		}
		if v.text() != before {
			(&office{world: v.world}).unlock()
			v.Apply(v.text())
		}
	case "die":
		v.die = draw(sender.BeforeIntent, fanout.AfterChunk)
	case "restart":
		v.start(v.TB, s, v.Clock.Now(), "")
	}
	return what
}

func (v *travels) move(name, zone string) {
	v.homes[name] = zone
	v.mother(name, zone)
}

// Whatever happens to a record, its rule and its contacts between the first zone and the last one: nobody gets a message of an occasion that is not
// desired, nor before their hour, nor twice. Once all is over, everybody has one message of each desired occasion.
//
// Shows: R14, R15, R17, B32, P2.
func TestEverybodyIsRemindedOnceWhereTheyAre(t *testing.T) {
	t.Parallel()
	for _, database := range storetest.Databases(t) {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			sent, acts, enough := 0, map[string]int{}, storetest.Lives(6)
			rapid.Check(t, func(r *rapid.T) {
				if enough() && sent > 0 { // a few lives more where chance sent nothing
					return
				}
				s := storetest.Open(t, storetest.URL(t, database))
				v := &travels{hour: 9, zones: "[contact.timezone, record.timezone, Asia/Tokyo]", enabled: true, homes: map[string]string{}, sent: map[string]time.Time{}, alone: rapid.Bool().Draw(r, "alone")}
				v.start(t, s, on(14, 0, 0), v.text())
				v.move("amina", "Pacific/Auckland")
				v.move("berta", "Europe/Berlin")
				v.move("carol", "")
				v.date = "2026-05-16"
				v.put("paper/amina", `{"wanted": true, "date": "2026-05-16"}`)
				for range rapid.IntRange(4, 12).Draw(r, "steps") {
					acts[v.act(r, s)]++
					v.until(r, v.Clock.Now().Add(time.Duration(rapid.SampledFrom([]int{0, 30, 180, 420, 900}).Draw(r, "wait"))*time.Minute))
				}
				v.die = ""
				if !v.enabled {
					v.enabled = true
					v.Apply(v.text())
				}
				v.until(r, v.Clock.Now().AddDate(0, 0, 12))
				v.judge(r)
				sent += len(v.sent)
			})
			t.Logf("%d messages, %v", sent, acts)
			if sent == 0 {
				t.Error("nothing was tried")
			}
		})
	}
}

func (v *travels) judge(t *rapid.T) {
	for _, bad := range v.bad {
		t.Error(bad)
	}
	for person := range v.homes {
		for occasion := range v.due(person) {
			if _, reported := v.sent[occasion+" to "+person]; !reported {
				t.Errorf("%s has no message of %s", person, occasion)
			}
		}
	}
	rows, err := v.Store.Instances(v.Context(), v.Workspace.ID, store.InstanceFilter{Status: instance.Pending}, store.Page{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		t.Errorf("it still waits: %+v", row)
	}
	if of, err := v.Store.Instances(v.Context(), v.Workspace.ID, store.InstanceFilter{}, store.Page{Limit: 100}); err != nil || v.alone && slices.ContainsFunc(of, instance.Row.OfZone) {
		t.Errorf("an occasion of one person has rows of zones: %v", err)
	}
	if t.Failed() {
		t.Fatalf("%q", v.zoneRows())
	}
}
