package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/cadence"
	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// limited are the workflows of the tests below, for contacts whose persona has these limits. rest is added to the workflow; it may name another
// channel first.
func limited(cadence, rest string) string {
	channels := "channel: inbox\nprovider: inbox\n---\nchannel: email\nprovider: inbox\n---\nchannel: push\nprovider: inbox\n---\nchannel: memory\nprovider: memory\n---\n"
	for _, name := range []string{"news", "siren"} {
		channels += `
workflow: ` + name + `
type: alert
triggers:
  - id: t
    event: ` + name + `
audience:
  - to: event.recipient
channel: inbox
message:
  inbox: {subject: s, text: t}
  email: {subject: s, text: t}
  push: {subject: s, text: t}
  sms: {text: t}
`
		if name == "siren" {
			channels += "limits: {critical: true}\n---\n"
			continue
		}
		if other, ok := strings.CutPrefix(rest, "channel: "); ok {
			name, more, _ := strings.Cut(other, "\n")
			channels, rest = strings.Replace(channels, "channel: inbox\nmessage", "channel: "+name+"\nmessage", 1), more
		}
		channels += rest + "---\n"
	}
	return channels + "persona: Manager\ncadence: " + cadence + "\n"
}

// A contact without any rule, in a workspace that sets none, gets one alert a day and two a week. A survey does not count in these limits, and limits
// of the workspace replace them.
//
// Shows: A37.
func TestDefaultLimits(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, "workspace: default\n---\n"+limited("{}", ""))
		_, question, _ := strings.Cut(limited("{}", ""), "\nworkflow: news")
		question, _, _ = strings.Cut("workflow: question"+question, "---\n")
		w.Apply(strings.NewReplacer("type: alert", "type: survey", "event: news", "event: question").Replace(question))
		for _, kind := range []string{"news", "question", "news", "news"} {
			w.post(kind, "ann")
			w.At(w.Clock.Now().Add(time.Hour))
		}
		planned := func() (list []string) {
			rows, err := s.Deliveries(t.Context(), w.Workspace.ID, store.DeliveryFilter{}, store.Page{Limit: 9})
			if err != nil {
				t.Fatal(err)
			}
			for _, row := range rows {
				if row.LastSentAt.IsZero() {
					list = append(list, row.SendAt.Format("02 15:04 ")+string(row.DeferredBy))
				} else {
					list = append(list, row.Workflow+" sent")
				}
			}
			slices.Sort(list)
			return list
		}
		w.mustBe("by default", planned(), []string{"15 00:00 daily", "18 00:00 daily", "news sent", "question sent"})
		w.Apply("workspace: default\ncadence: {max_per_day: 0}\n")
		w.live("16:00")
		w.mustBe("without limits", planned(), []string{"news sent", "news sent", "news sent", "question sent"})
	})
}

// Own limits of a contact that this version of the program cannot read are skipped and reported: those of the persona apply, else those of the
// workspace, but never none.
//
// Shows: A42.
func TestLimitsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for fields, from := range map[string]cadence.Layer{`"persona": "Manager"`: cadence.LayerPersona, `"name": "Ann"`: cadence.LayerDefault} {
		t.Run(string(from), func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, s *store.Store) {
				w := newWorld(t, s, "workspace: default\n---\n"+limited("{max_per_day: 1}", ""))
				w.person("ann", fields)
				if err := s.Write(t.Context(), func(tx *store.Tx) error {
					known, err := tx.LockContacts(w.Workspace.ID, []string{"ann"})
					if err != nil {
						return err
					}
					row := known["ann"]
					row.Cadence = `{"max_per_day":9,"max_per_fortnight":1}`
					_, _, err = tx.WriteContacts(w.Workspace.ID, ten, known, []store.ContactWrite{{ContactRow: row}})
					return err
				}); err != nil {
					t.Fatal(err)
				}
				for range 4 {
					w.post("news", "ann")
					w.At(w.Clock.Now().Add(2 * time.Hour))
				}
				reported := map[time.Time]int{}
				deferred := 0
				for _, e := range w.Journal() {
					if e.What == journal.Deferred {
						deferred++
					}
					if e.What == journal.PassedOver {
						reported[e.At]++
						if e.Contact != "ann" || e.Reason != reason.LimitsUnreadable || !strings.Contains(e.Error, `"max_per_fortnight" is not a limit`) {
							t.Errorf("got %+v", e)
						}
					}
				}
				if deferred != 3 || len(reported) == 0 {
					t.Errorf("%d wait, want 3; reported at %v", deferred, reported)
				}
				l, err := w.Limits(t.Context(), w.Workspace.ID, "ann")
				if err != nil || l.Unread == nil || len(l.Kinds[0].Limits) == 0 || l.Kinds[0].Limits[0].From != from {
					t.Errorf("got %+v, %v", l, err)
				}
			})
		})
	}
}

// post sends an event to the engine for one contact.
func (w world) post(kind, who string) {
	w.Helper()
	n := w.Clock.Now().UnixNano() + int64(len(w.Provider.Sent()))
	w.Post(fmt.Sprintf(`{"kind": %q, "id": "%s-%d", "recipient": {"address": %[2]q, "customer_ref": %[2]q}}`, kind, who, n))
}

// diary returns what happened to messages, each as "10:30 deferred inbox 12:00 cooldown".
func (w world) diary() []string {
	w.Helper()
	var list []string
	for _, e := range w.Journal() {
		if e.Delivery == 0 || e.What == journal.Planned && e.Until.Equal(e.At) {
			continue
		}
		line := e.At.Format("15:04") + " " + string(e.What)
		if e.Channel != "" {
			line += " " + strings.TrimSuffix(e.Channel, ":default")
		}
		if e.What == journal.Deferred {
			line += " " + e.Until.Format("15:04")
		}
		if e.Reason != "" && e.Reason != reason.Delivered {
			line += " " + string(e.Reason)
		}
		list = append(list, line)
	}
	return list
}

// How the limits of a contact affect messages, from ten o'clock on. A day is a list of "10:30 post KIND", and of "10:30 fail" and "10:30 lose", which
// set the outcome of the next try.
//
// Shows: A31, A32, A34, A38, A39, A40, A41, A43, A45, R1, R4.
func TestLimitsOfPeople(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, cadence, rest, person, day, want string }{
		{
			"the worked example", "{cooldown: 2h, max_per_day: 5, type_limits: {alert: 3}}", "", "",
			"10:00 news, 10:30 news, 12:05 news, 14:30 news, 23:00",
			"10:00 sent inbox, 10:30 deferred inbox 12:00 cooldown, 12:00 sent inbox, 12:05 deferred inbox 14:00 cooldown, " +
				"14:00 sent inbox, 14:30 deferred inbox 00:00 cooldown",
		},
		{
			"what waits for one moment comes at one moment", "{cooldown: 2h}", "", "",
			"10:00 news, 10:30 news, 11:00 news, 12:30",
			"10:00 sent inbox, 10:30 deferred inbox 12:00 cooldown, 11:00 deferred inbox 12:00 cooldown, 12:00 sent inbox, 12:00 sent inbox",
		},
		{
			"one by one", "{cooldown: 2h, max_per_slot: 1}", "", "",
			"10:00 news, 10:30 news, 11:00 news, 14:30",
			"10:00 sent inbox, 10:30 deferred inbox 12:00 cooldown, 11:00 deferred inbox 14:00 cooldown, 12:00 sent inbox, 14:00 sent inbox",
		},
		{
			"quiet hours, in the person's zone", `{quiet_hours: "12:30-14:00"}`, "", `, "timezone": "Europe/Berlin"`,
			"10:20 news, 11:00 news, 13:00",
			"10:20 sent inbox, 11:00 deferred inbox 12:00 quiet_hours, 12:00 sent inbox",
		},
		{
			"the workflow's window, in the person's zone", `{max_per_day: 9}`, "limits: {send_window: \"13:00-15:00\"}\n", `, "timezone": "Europe/Berlin"`,
			"10:20 news, 12:00 news, 13:00",
			"10:20 deferred inbox 11:00 send_window, 11:00 sent inbox, 12:00 sent inbox",
		},
		{
			"the person's own limits before the persona's", "{cooldown: 2h}", "", `, "cadence": {"cooldown": "30m"}`,
			"10:00 news, 10:30 news, 10:40 news, 11:30",
			"10:00 sent inbox, 10:30 sent inbox, 10:40 deferred inbox 11:00 cooldown, 11:00 sent inbox",
		},
		{
			"left out instead of waiting", "{cooldown: 2h}", "limits: {at_create: skip}\n", "",
			"10:00 news, 10:30 news, 12:00 news, 13:00",
			"10:00 sent inbox, 10:30 skipped inbox cooldown, 12:00 sent inbox",
		},
		{
			"what uses up nothing waits all the same", "{cooldown: 2h}", "limits: {counts: false}\n", "",
			"10:00 news, 10:30 news, 11:00 siren, 11:30 news, 13:30",
			"10:00 sent inbox, 10:30 sent inbox, 11:00 sent inbox, 11:30 deferred inbox 13:00 cooldown, 13:00 sent inbox",
		},
		{
			"what is critical goes, and what waited waits again", "{cooldown: 2h}", "", "",
			"10:00 news, 10:30 news, 11:00 siren, 14:00",
			"10:00 sent inbox, 10:30 deferred inbox 12:00 cooldown, 11:00 sent inbox, 12:00 deferred inbox 13:00 cooldown, 13:00 sent inbox",
		},
		{
			"which fails, where the workflow says so", "{cooldown: 2h}", "limits: {at_send: fail}\n", "",
			"10:00 news, 10:30 news, 11:00 siren, 14:00",
			"10:00 sent inbox, 10:30 deferred inbox 12:00 cooldown, 11:00 sent inbox, 12:00 failed inbox cooldown",
		},
		{
			"or goes to a channel that is free", "{cooldown: 2h}", "fallback: [email]\nlimits: {at_send: fail}\n", "",
			"10:00 news, 10:30 news, 11:00 siren, 14:00",
			"10:00 sent inbox, 10:30 deferred inbox 12:00 cooldown, 11:00 sent inbox, 12:00 skipped inbox cooldown, 12:00 sent email",
		},
		{
			"at once, where it may fall back when it is made", "{cooldown: 2h}", "fallback: [email, memory]\nlimits: {at_create: fallback}\n", "",
			"10:00 news, 10:30 news, 10:40 news, 10:50 news, 13:00",
			"10:00 sent inbox, 10:30 skipped inbox cooldown, 10:30 sent email, 10:40 skipped inbox cooldown, 10:40 sent memory, " +
				"10:50 deferred inbox 12:00 cooldown, 12:00 sent inbox",
		},
		{
			"so too when it is due later", "{cooldown: 2h}", "fallback: [email]\ntiming: {offset: 1h}\nlimits: {at_create: fallback}\n", "",
			"10:00 news, 10:30 news, 12:00",
			"10:00 planned inbox, 10:30 planned inbox, 11:00 sent inbox, 11:30 skipped inbox cooldown, 11:30 sent email",
		},
		{
			"not to a channel on which they have no address", "{cooldown: 2h}", "fallback: [push, email]\nlimits: {at_create: fallback}\n", `, "addresses": {"inbox": "ann", "email": "ann@example.org"}`,
			"10:00 news, 10:30 news, 12:00",
			"10:00 sent inbox, 10:30 skipped inbox cooldown, 10:30 sent email",
		},
		{
			"from the one that stands in for a missing address", "{cooldown: 2h}", "channel: push\nfallback: [email, memory]\nlimits: {at_create: fallback}\n", `, "addresses": {"email": "ann@example.org"}`,
			"10:00 out, 10:30 out, 12:00",
			"10:00 skipped push no_address, 10:00 sent email, 10:30 skipped push no_address, 10:30 skipped email cooldown, 10:30 sent memory",
		},
		{
			"each channel has limits of its own", "{cooldown: 2h, channels: {email: {max_per_day: 1}}}", "fallback: [email]\n", "",
			"10:00 news, 10:30 news, 11:00 siren, 12:30 news, 12:40 siren, 15:00",
			"10:00 sent inbox, 10:30 deferred inbox 12:00 cooldown, 11:00 sent inbox, 12:00 skipped inbox cooldown, 12:00 sent email, " +
				"12:30 deferred inbox 13:00 cooldown, 12:40 sent inbox, 13:00 deferred inbox 14:40 cooldown, 14:40 sent inbox",
		},
		{
			"who has no address on the first channel gets it on the next one that reaches them", "{cooldown: 2h}",
			"channel: push\nfallback: [email]\n", `, "addresses": {"email": "ann@example.org"}`,
			"10:00 out, 10:30 out, 13:00",
			"10:00 skipped push no_address, 10:00 sent email, 10:30 skipped push no_address, 10:30 deferred email 12:00 cooldown, 12:00 sent email",
		},
		{
			"what has failed for good goes to the next channel, and uses up nothing of the first", "{cooldown: 2h}", "fallback: [email]\n", "",
			"10:00 fail, 10:00 news, 10:30 news, 13:00",
			"10:00 failed inbox permanent_error, 10:00 sent email, 10:30 sent inbox",
		},
		{
			"and from there to the one after it", "{cooldown: 2h}", "fallback: [email, memory]\n", "",
			"10:00 fail, 10:00 fail, 10:00 news, 13:00",
			"10:00 failed inbox permanent_error, 10:00 failed email permanent_error, 10:00 sent memory",
		},
		{
			"a channel that stands in and is at its limit leaves it to the next one", "{cooldown: 2h}", "fallback: [email, memory]\n", "",
			"10:00 fail, 10:00 news, 10:30 fail, 10:30 news, 13:00",
			"10:00 failed inbox permanent_error, 10:00 sent email, 10:30 failed inbox permanent_error, 10:30 skipped email cooldown, 10:30 sent memory",
		},
		{
			"or waits itself where there is none", "{cooldown: 2h}", "fallback: [email]\n", "",
			"10:00 fail, 10:00 news, 10:30 fail, 10:30 news, 13:00",
			"10:00 failed inbox permanent_error, 10:00 sent email, 10:30 failed inbox permanent_error, 10:30 deferred email 12:00 cooldown, 12:00 sent email",
		},
		{
			"a reminder takes a place when it is due, and the message before it keeps its own", "{max_per_day: 2}",
			"timing: {reminders: [1h]}\n", "",
			"10:00 news, 11:30 news, 23:00",
			"10:00 sent inbox, 11:00 sent inbox, 11:30 deferred inbox 00:00 daily",
		},
		{
			"a reminder waits", "{cooldown: 2h}", "timing: {reminders: [30m]}\n", "",
			"10:00 news, 13:30",
			"10:00 sent inbox, 10:30 deferred inbox 12:00 cooldown, 12:00 sent inbox",
		},
		{
			"a reminder that may wait is left out instead", "{cooldown: 2h}", "timing: {reminders: [30m, 2h]}\nlimits: {at_create: skip}\n", "",
			"10:00 news, 13:30",
			"10:00 sent inbox, 10:30 skipped inbox cooldown, 12:30 sent inbox",
		},
		{
			"a retry is not later than its limits", "{cooldown: 2h}", "retry: {backoff: [30m], jitter: none}\n", "",
			"10:00 later, 10:00 news, 10:10 siren, 13:00",
			"10:00 retried inbox temporary_error, 10:10 sent inbox, 10:30 deferred inbox 12:10 cooldown, 12:10 sent inbox",
		},
		{
			"what may have arrived keeps its place", "{max_per_day: 1}", "retry: {backoff: [30m], jitter: none}\n", "",
			"10:00 lose, 10:00 news, 10:10 news, 11:00",
			"10:00 retried inbox reply_lost, 10:10 deferred inbox 00:00 daily, 10:30 sent inbox",
		},
		{
			"too long", "{max_per_day: 1}", "timing: {expire_after: 3h}\n", "",
			"10:00 news, 10:30 news, 23:00",
			"10:00 sent inbox, 10:30 expired inbox deferred_too_long",
		},
		{
			"a fallback before that, when it is made", "{max_per_day: 1}", "timing: {expire_after: 3h}\nfallback: [email]\n", "",
			"10:00 news, 10:30 news, 10:40 news, 23:00",
			"10:00 sent inbox, 10:30 skipped inbox deferred_too_long, 10:30 sent email, 10:40 expired inbox deferred_too_long",
		},
		{
			"a fallback before that", "{cooldown: 2h}", "timing: {expire_after: 2h}\nfallback: [email]\n", "",
			"10:00 news, 10:30 news, 11:50 siren, 23:00",
			"10:00 sent inbox, 10:30 deferred inbox 12:00 cooldown, 11:50 sent inbox, 12:00 skipped inbox deferred_too_long, 12:00 sent email",
		},
		{
			"types that are not counted keep the quiet hours", `{cooldown: 2h, types: [report], quiet_hours: "10:30-11:00"}`, "", "",
			"10:00 news, 10:10 news, 10:40 news, 12:00",
			"10:00 sent inbox, 10:10 sent inbox, 10:40 deferred inbox 11:00 quiet_hours, 11:00 sent inbox",
		},
		{
			"a day begins in the morning", `{max_per_day: 1, resume_at: "08:00"}`, "", "",
			"10:00 news, 10:30 news, 23:00",
			"10:00 sent inbox, 10:30 deferred inbox 08:00 daily",
		},
		{
			"a day is the last 24 hours", "{max_per_day: 1, window: rolling}", "", "",
			"10:00 news, 10:30 news, 23:00",
			"10:00 sent inbox, 10:30 deferred inbox 10:00 daily",
		},
		{
			"over all channels, so that no channel that stands in is a way around", "{total: {max_per_day: 2}}",
			"fallback: [email, memory]\nlimits: {at_create: fallback}\n", "",
			"10:00 news, 10:30 news, 11:00 news, 11:30 siren, 23:00",
			"10:00 sent inbox, 10:30 sent inbox, 11:00 deferred inbox 00:00 daily, 11:30 sent inbox",
		},
		{
			"nor when it is sent", "{total: {max_per_day: 2, max_per_week: 9}, cooldown: 2h}", "fallback: [email]\n", "",
			"10:00 news, 10:30 news, 11:00 siren, 23:00",
			"10:00 sent inbox, 10:30 deferred inbox 12:00 cooldown, 11:00 sent inbox, 12:00 deferred inbox 00:00 cooldown",
		},
		{
			"nor where the first channel has failed, whose message counts no more", "{total: {max_per_day: 1}}", "fallback: [email]\n", "",
			"10:00 fail, 10:00 news, 10:30 news, 11:00 fail, 11:00 news, 23:00",
			"10:00 failed inbox permanent_error, 10:00 sent email, 10:30 deferred inbox 00:00 daily, 11:00 deferred inbox 00:00 daily",
		},
		{
			"limits of a kind of channel do not replace it", "{total: {max_per_day: 2}, channels: {email: {max_per_day: 5}, inbox: {cooldown: 1h}}}",
			"channel: email\n", `, "addresses": {"email": "ann@example.org", "inbox": "ann"}`,
			"10:00 out, 10:30 siren, 11:00 out, 23:00",
			"10:00 sent email, 10:30 sent inbox, 11:00 deferred email 00:00 daily",
		},
		{
			"their own over the persona's", "{total: {max_per_day: 1}}", "", `, "cadence": {"total": {"max_per_day": 2}}`,
			"10:00 news, 10:30 news, 11:00 news, 23:00",
			"10:00 sent inbox, 10:30 sent inbox, 11:00 deferred inbox 00:00 daily",
		},
		{
			"what uses up nothing uses up nothing of it", "{total: {max_per_day: 1}}", "limits: {counts: false}\n", "",
			"10:00 news, 10:30 news, 11:00 siren, 11:30 news, 23:00",
			"10:00 sent inbox, 10:30 sent inbox, 11:00 sent inbox, 11:30 deferred inbox 00:00 daily",
		},
		{
			"the last 24 hours over all channels", "{total: {max_per_day: 1}, window: rolling}", "channel: email\n", `, "addresses": {"email": "ann@example.org", "inbox": "ann"}`,
			"10:00 siren, 10:30 out, 23:00",
			"10:00 sent inbox, 10:30 deferred email 10:00 daily",
		},
		{
			"what waits counts in it", "{total: {max_per_day: 1}}", "retry: {backoff: [30m], jitter: none}\n", "",
			"10:00 later, 10:00 news, 10:10 news, 11:00",
			"10:00 retried inbox temporary_error, 10:10 deferred inbox 00:00 daily, 10:30 sent inbox",
		},
		{
			"unless only what was sent counts", "{total: {max_per_day: 1}, count: sent}", "retry: {backoff: [30m], jitter: none}\n", "",
			"10:00 later, 10:00 news, 10:10 news, 11:00",
			"10:00 retried inbox temporary_error, 10:10 sent inbox, 10:30 deferred inbox 00:00 daily",
		},
		{
			"a type that is not counted is outside of it", "{total: {max_per_day: 1}, types: [report]}", "", "",
			"10:00 news, 10:30 news, 23:00",
			"10:00 sent inbox, 10:30 sent inbox",
		},
		{
			"messages that leave as one count once in it", "{total: {max_per_day: 1}}", "limits: {at_send: fold}\n", "",
			"10:00 news, 10:30 news, 10:40 news, 23:00",
			"10:00 sent inbox, 10:30 deferred inbox 00:00 daily, 10:40 deferred inbox 00:00 daily",
		},
		{
			"only what was sent counts", "{max_per_day: 1, count: sent}", "", "",
			"10:00 news, 10:30 news, 10:40 news, 23:00",
			"10:00 sent inbox, 10:30 deferred inbox 00:00 daily, 10:40 deferred inbox 00:00 daily",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, s *store.Store) {
				w := newWorld(t, s, limited(c.cadence, c.rest))
				w.person("ann", `"persona": "Manager"`+c.person)
				for step := range strings.SplitSeq(c.day, ", ") {
					when, what, _ := strings.Cut(step, " ")
					w.live(when)
					switch what {
					case "":
					case "fail":
						w.Provider.Next(channel.Permanent(errors.New("no")))
					case "later":
						w.Provider.Next(channel.Temporary(errors.New("not now")))
					case "lose":
						w.Provider.Next(&channel.SendError{Reason: reason.ReplyLost, Unknown: true, Retry: true, Err: errors.New("lost")})
					case "out": // the event has no address of its own
						w.Post(fmt.Sprintf(`{"kind": "news", "id": "%s", "recipient": {"address": "", "customer_ref": "ann"}}`, when))
					default:
						w.post(what, "ann")
					}
					if strings.HasPrefix(what, "news") || what == "siren" || what == "out" {
						w.live(when)
					}
				}
				w.mustBe("the day", w.diary(), strings.Split(c.want, ", "))
			})
		})
	}
}

// A message that is late by at most the grace leaves in its slot; a later one takes a new slot.
func TestGraceOfASlot(t *testing.T) {
	t.Parallel()
	for grace, want := range map[string]string{"": "12:00:00", ", slot_grace: 10s": "12:00:50", ", slot_grace: 50s": "12:00:00"} {
		t.Run(grace, func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, s *store.Store) {
				w := newWorld(t, s, limited("{cooldown: 2h"+grace+"}", ""))
				w.person("ann", `"persona": "Manager"`)
				w.post("news", "ann")
				w.live("10:30")
				w.post("news", "ann")
				w.live("11:59")
				w.Clock.Set(at("12:00:50"))
				w.live("12:01")
				rows, err := s.Deliveries(t.Context(), w.Workspace.ID, store.DeliveryFilter{}, store.Page{Limit: 9})
				if err != nil || len(rows) != 2 {
					t.Fatalf("%d deliveries, %v", len(rows), err)
				}
				late := rows[0]
				if rows[1].Slot.After(late.Slot) {
					late = rows[1]
				}
				if got := late.Slot.Format(time.TimeOnly); got != want || !late.LastSentAt.Equal(at("12:00:50")) {
					t.Errorf("it has the place of %s, want %s: %+v", got, want, late)
				}
			})
		})
	}
}

// A newer alert supersedes the waiting one of the same context, and nothing else does.
//
// Shows: R6.
func TestSupersede(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limits string
		want   []string
	}{
		"superseded": {"true", []string{
			"10:00 sent inbox", "10:30 deferred inbox 13:00 cooldown",
			"11:00 deferred inbox 13:00 cooldown", "11:00 skipped inbox superseded", "11:30 deferred inbox 13:00 cooldown", "11:30 skipped inbox superseded",
			"11:40 deferred inbox 13:00 cooldown",
			"12:00 deferred inbox 13:00 cooldown", "12:00 skipped inbox superseded", "12:30 deferred inbox 13:00 cooldown", "12:30 skipped inbox superseded",
			"13:00 skipped inbox superseded", "13:00 sent inbox", "13:00 sent inbox",
		}},
		"kept": {"false", []string{
			"10:00 sent inbox", "10:30 deferred inbox 13:00 cooldown", "11:00 deferred inbox 13:00 cooldown", "11:30 deferred inbox 13:00 cooldown",
			"11:40 deferred inbox 13:00 cooldown", "12:00 deferred inbox 13:00 cooldown", "12:30 deferred inbox 13:00 cooldown",
			"13:00 sent inbox", "13:00 sent inbox", "13:00 sent inbox", "13:00 sent inbox", "13:00 sent inbox", "13:00 sent inbox", "13:00 sent inbox",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, s *store.Store) {
				other := strings.NewReplacer("channel: memory", "channel: inbox", "sms:", "inbox:\n    subject: s").Replace(alert("other", "other", ""))
				w := newWorld(t, s, simple("[5m]", "    cooldown: {length: 30m}\n", "limits: {supersede: "+c.limits+"}\n")+"---\n"+other)
				w.person("ann", `"cadence": {"cooldown": "3h"}`)
				w.put("team/red", `{"name": "Red", "morale": 30, "owner_id": "ann"}`)
				w.live("11:40")
				w.Post(`{"kind": "other", "id": "1", "recipient": {"address": "ann", "customer_ref": "ann"}}`)
				w.put("team/blue", `{"name": "Blue", "morale": 60, "owner_id": "ann"}`)
				w.live("13:10")
				w.mustBe("the day", w.diary(), c.want)
			})
		})
	}
}

// A newer alert that leaves by another channel because of a limit supersedes one that waits for its own.
//
// Shows: R6.
func TestSupersedeByFallback(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		rules := simple("[5m]", "    cooldown: {length: 30m}\n", "limits: {at_create: fallback}\nfallback: [memory]\n")
		w := newWorld(t, s, strings.Replace(rules, "message:\n", "message:\n  sms: {text: t}\n", 1)+"---\nchannel: memory\nprovider: memory\n")
		w.person("ann", `"cadence": {"cooldown": "3h", "channels": {"memory": {"cooldown": "45m"}}}`)
		w.put("team/red", `{"name": "Red", "morale": 30, "owner_id": "ann"}`)
		w.live("11:50")
		w.mustBe("the day", w.diary(), []string{
			"10:00 sent inbox", "10:30 skipped inbox cooldown", "10:30 sent memory", "11:00 deferred inbox 13:00 cooldown",
			"11:30 skipped inbox cooldown", "11:30 skipped inbox superseded", "11:30 sent memory",
		})
	})
}

// After a stop of the sender, waiting messages leave as their limits allow, counted from when they really leave.
func TestAStopOfTheSender(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, limited("{cooldown: 1h, max_per_slot: 1, max_per_day: 4}", ""))
		w.person("ann", `"persona": "Manager"`)
		for _, when := range []string{"10:00", "10:10", "11:10", "12:10", "12:20"} { // slots at 10:00, 11:00, 12:00, 13:00 and tomorrow
			w.Clock.Set(at(when))
			w.post("news", "ann")
		}
		w.Clock.Set(at("15:30"))
		w.live("23:00")
		var sent []string
		for _, e := range w.Journal() {
			if e.What == journal.Sent {
				sent = append(sent, e.At.Format("15:04"))
			}
		}
		if want := []string{"15:30", "16:30", "17:30", "18:30"}; !slices.Equal(sent, want) {
			t.Errorf("sent at %v, want %v", sent, want)
		}
	})
}
