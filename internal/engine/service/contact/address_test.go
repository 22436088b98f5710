package contact_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
	"github.com/carillonhq/carillon/internal/subject"
)

// visits are definitions of messages that leave two hours later, with a reminder one day after.
const visits = `
workflow: visit
type: custom
triggers: [{id: t, event: visit}]
timing: {offset: 2h, reminders: [1d]}
audience: [{to: event.recipient}]
channel: sms
fallback: [email]
retry: {backoff: [5m]}
message:
  sms: {text: Hello}
  email: {subject: Hello, text: Hello}
---
{channel: "sms:default", provider: memory}
---
{channel: "email:default", provider: memory}
`

// A message goes to the address that its contact has when it is sent: not to an address that they gave up meanwhile, and not to one whose present
// owner is suppressed.
//
// Shows: C16, P5, R20.
func TestMessagesGoWhereTheirPersonIs(t *testing.T) {
	t.Parallel()
	const x, y, z = "+44 20 000001", "+44 20 000002", "+44 20 000003"
	byID, byBoth, foreign := `"customer_ref": "ada"`, `"customer_ref": "ada", "address": "`+x+`"`, `"customer_ref": "ada", "address": "`+z+`"`
	byAddress := `"address": "` + x + `"`
	write := func(contact string) func(b bundle) { return func(b bundle) { b.write("merge", contact) } }
	moves := func(addresses string) func(b bundle) {
		return write(`{"id": "ada", "addresses": ` + addresses + `}`)
	}
	for name, tt := range map[string]struct {
		recipient string
		meanwhile []func(b bundle)
		want      []string // of the first step: channel, address, status and reason of each delivery
		fails     error    // the first try, an hour before
	}{
		"they stay":                     {recipient: byID, want: []string{"sms " + subject.NormalizeAddress(x) + " sent delivered"}},
		"they move":                     {recipient: byID, meanwhile: []func(bundle){moves(`{"sms": "` + y + `"}`)}, want: []string{"sms " + subject.NormalizeAddress(y) + " sent delivered"}},
		"the event named it too":        {recipient: byBoth, meanwhile: []func(bundle){moves(`{"sms": "` + y + `"}`)}, want: []string{"sms " + subject.NormalizeAddress(y) + " sent delivered"}},
		"the event named nothing else":  {recipient: byAddress, meanwhile: []func(bundle){moves(`{"sms": "` + y + `"}`)}, want: []string{"sms " + subject.NormalizeAddress(y) + " sent delivered"}},
		"it is theirs for another kind": {recipient: byBoth, meanwhile: []func(bundle){moves(`{"sms": "` + y + `", "whatsapp": "` + x + `"}`)}, want: []string{"sms " + x + " sent delivered"}},
		"they have none any more":       {recipient: byID, meanwhile: []func(bundle){moves(`{"sms": null}`)}, want: []string{"sms " + subject.NormalizeAddress(x) + " skipped no_address"}},
		"they have an e-mail address": {
			recipient: byID, meanwhile: []func(bundle){moves(`{"sms": null, "email": "a@x.org"}`)},
			want: []string{"email a@x.org sent delivered", "sms " + subject.NormalizeAddress(x) + " skipped no_address"},
		},
		"another one has it, and wants nothing": {recipient: byID, meanwhile: []func(bundle){
			moves(`{"sms": "` + y + `"}`), write(`{"id": "bob", "addresses": {"sms": "` + x + `"}}`), func(b bundle) { b.stop("bob", true) },
		}, want: []string{"sms " + subject.NormalizeAddress(y) + " sent delivered"}},
		"never theirs": {recipient: foreign, want: []string{"sms " + z + " sent delivered"}},
		"never theirs, and its owner wants nothing": {recipient: foreign, meanwhile: []func(bundle){
			write(`{"id": "bob", "addresses": {"sms": "` + z + `"}}`), func(b bundle) { b.stop("bob", true) },
		}, want: []string{"sms " + z + " cancelled suppressed"}},
		"never theirs, and its owner is suppressed": {recipient: foreign, meanwhile: []func(bundle){
			func(b bundle) {
				d := b.made(b.Post(`{"kind": "visit", "id": "z", "recipient": {"address": "` + z + `"}}`))
				who, _, _ := b.Store.ContactByID(b.Context(), b.Workspace.ID, d.Contact)
				b.stop(who.ExtID, true)
			},
		}, want: []string{"sms " + z + " cancelled suppressed", "sms " + z + " cancelled suppressed"}},
		"a try that failed": {
			recipient: byID, fails: channel.Temporary(errors.New("busy")), meanwhile: []func(bundle){moves(`{"sms": "` + y + `"}`)},
			want: []string{"sms " + subject.NormalizeAddress(y) + " sent delivered"},
		},
		"known by a telephone number alone": {
			recipient: `"address": "` + z + `"`, fails: channel.Permanent(errors.New("no")), want: []string{"sms " + z + " failed permanent_error"},
		},
		"known by an e-mail address alone": {
			recipient: `"address": "z@x.org"`, fails: channel.Permanent(errors.New("no")),
			want: []string{"email z@x.org sent delivered", "sms z@x.org failed permanent_error"},
		},
		"a try that may have arrived": {
			recipient: byID, fails: channel.Lost(errors.New("no answer")), meanwhile: []func(bundle){moves(`{"sms": "` + y + `"}`)},
			want: []string{"sms " + subject.NormalizeAddress(x) + " unknown reply_lost"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, s *store.Store) {
				b := bundle{enginetest.Setup(t, s, visits, nil)}
				b.write(upsert.Merge, `{"id": "ada", "addresses": {"sms": "`+x+`"}}`)
				b.Post(`{"kind": "visit", "id": "1", "recipient": {` + tt.recipient + `}}`)
				at := enginetest.Start.Add(2 * time.Hour)
				if tt.fails != nil {
					b.Provider.Next(tt.fails)
					b.At(at)
				}
				for _, change := range tt.meanwhile {
					change(b)
				}
				b.At(at.Add(10 * time.Minute))
				b.At(at.Add(10 * time.Minute)) // the fallback
				rows, err := s.Deliveries(t.Context(), b.Workspace.ID, store.DeliveryFilter{}, store.Page{Limit: 9})
				if err != nil {
					t.Fatal(err)
				}
				var got []string
				for _, d := range rows {
					got = append(got, fmt.Sprintf("%s %s %s %s", d.Channel[:len(d.Channel)-len(":default")], d.Address, d.Status, d.Reason))
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Error(diff)
				}
				for _, out := range b.Provider.Sent() {
					if to := fmt.Sprintf("%s sent delivered", out.Address); len(got) == 1 && got[0] != "sms "+to && tt.fails == nil {
						t.Errorf("it went to %s, and says %s", out.Address, got[0])
					}
				}
			})
		})
	}
}

// A reminder goes to the contact's present address; one that is already claimed goes to the address of its claim.
func TestReminderGoesWhereItsPersonIs(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		b := bundle{enginetest.Setup(t, s, visits, nil)}
		b.write(upsert.Merge, `{"id": "ada", "addresses": {"sms": "+44 20 000001"}}`)
		b.Post(`{"kind": "visit", "id": "1", "recipient": {"customer_ref": "ada"}}`)
		b.At(enginetest.Start.Add(2 * time.Hour))
		b.write(upsert.Merge, `{"id": "ada", "addresses": {"sms": "+44 20 000002"}}`)
		b.At(enginetest.Start.Add(27 * time.Hour))
		var to []string
		for _, out := range b.Provider.Sent() {
			to = append(to, out.Address)
		}
		if diff := cmp.Diff([]string{"+4420000001", "+4420000002"}, to); diff != "" {
			t.Error(diff)
		}
	})
}

// A message at a limit goes to a channel for which its contact has an address of that kind, and otherwise waits: a telephone number is no address for
// an e-mail.
//
// Shows: A40.
func TestALimitLeadsToAnAddressOfItsKind(t *testing.T) {
	t.Parallel()
	limited := strings.NewReplacer("timing: {offset: 2h, reminders: [1d]}", "limits: {at_create: fallback}").Replace(visits) +
		"---\nworkspace: default\ncadence: {cooldown: 3h, types: [custom]}\n"
	for address, want := range map[string][]string{
		"+44 20 000003": {"sms +44 20 000003 scheduled", "sms +44 20 000003 sent"},
		"z@x.org":       {"email z@x.org sent", "sms z@x.org sent", "sms z@x.org skipped cooldown"},
	} {
		t.Run(address, func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, s *store.Store) {
				b := bundle{enginetest.Setup(t, s, limited, nil)}
				for i := range 2 {
					b.Post(fmt.Sprintf(`{"kind": "visit", "id": "%d", "recipient": {"address": %q}}`, i, address))
					b.At(enginetest.Start.Add(time.Duration(i+1) * time.Minute))
				}
				if diff := cmp.Diff(want, b.ways()); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

// An address that an audience names is used on channels of its kind. On other channels the contact's own address is used.
func TestAnAddressServesOnItsKind(t *testing.T) {
	t.Parallel()
	named := strings.NewReplacer("timing: {offset: 2h, reminders: [1d]}\n", "", "to: event.recipient", "address: event.who, kind: email").Replace(visits)
	for name, tt := range map[string]struct {
		definitions string
		want        []string
	}{
		"on the channel that stands in": {named, []string{"email ann@x.org sent", "sms ann@x.org skipped no_address"}},
		"on the first one":              {strings.NewReplacer("channel: sms\n", "channel: email\n", "fallback: [email]", "fallback: [sms]").Replace(named), []string{"email ann@x.org sent"}},
		"on one of no kind":             {strings.NewReplacer("channel: sms\n", "channel: memory\n").Replace(named) + "---\n{channel: memory, provider: memory}\n", []string{"memory ann@x.org sent"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, s *store.Store) {
				b := bundle{enginetest.Setup(t, s, tt.definitions, nil)}
				b.Post(`{"kind": "visit", "id": "1", "payload": {"who": "ann@x.org"}}`)
				b.At(b.Now())
				got := b.ways()
				for i := range got {
					got[i] = strings.Replace(got[i], "sms  ", "sms ann@x.org ", 1) // a row without an address
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := bundle{enginetest.Setup(t, s, named, nil)}
		b.write(upsert.Merge, `{"id": "ann", "addresses": {"email": "ann@x.org", "sms": "+44 20 000001"}}`)
		b.Post(`{"kind": "visit", "id": "1", "payload": {"who": "ann@x.org"}}`)
		b.At(b.Now())
		if diff := cmp.Diff([]string{"sms +4420000001 sent"}, b.ways()); diff != "" {
			t.Errorf("somebody with an address of both kinds: %s", diff)
		}
	})
}

// ways returns the deliveries, each as channel, address, status and reason.
func (b bundle) ways() (list []string) {
	b.Helper()
	rows, err := b.Store.Deliveries(b.Context(), b.Workspace.ID, store.DeliveryFilter{}, store.Page{Limit: 9})
	if err != nil {
		b.Fatal(err)
	}
	for _, d := range rows {
		way := fmt.Sprintf("%s %s %s", d.Channel[:len(d.Channel)-len(":default")], d.Address, d.Status)
		if d.Reason != "" && d.Reason != reason.Delivered {
			way += " " + string(d.Reason)
		}
		list = append(list, way)
	}
	slices.Sort(list)
	return list
}
