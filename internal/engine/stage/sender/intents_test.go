package sender

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/admission"
	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/loader"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/plumbing/catalog"
	"github.com/carillonhq/carillon/internal/engine/plumbing/channelpool"
	"github.com/carillonhq/carillon/internal/engine/plumbing/tell"
	"github.com/carillonhq/carillon/internal/flow"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/topic"
)

var now = time.Date(2026, 5, 14, 10, 0, 0, 0, time.UTC)

const (
	workspace = "workspace: default\ntimezone: UTC\ncadence: {cooldown: 1h}\n"
	workflow  = `
workflow: %[1]s
type: alert
triggers:
  - id: t
    event: %[1]s
    limits: {%[2]s}
audience:
  - to: event.recipient
channel: %[3]s
message:
  sms:
    text: hello
`
)

// documents is a database that holds definitions only.
type documents struct{ list []store.Definition }

func (d documents) Workspaces(context.Context) ([]store.Workspace, error) {
	return []store.Workspace{{ID: 1, Name: "default", Secret: make([]byte, 32), Definitions: 1}}, nil
}

func (d documents) DefinitionsNumber(context.Context, subject.WorkspaceID) (int64, error) {
	return 1, nil
}

func (d documents) DefinitionSet(context.Context, subject.WorkspaceID, int64) ([]store.Definition, error) {
	return d.list, nil
}

// memoryStore is what the decisions need of the store besides the transaction.
type memoryStore struct {
	Store
	id int64
}

func (m *memoryStore) NewID(time.Time) int64 { m.id++; return m.id }

func (*memoryStore) GivenUpUntil() time.Time { return time.Time{} }

func testAdmitting(t *testing.T) *admitting {
	t.Helper()
	docs := []store.Definition{{Kind: "workspace", Name: "default", Text: workspace}}
	for name, rest := range map[string]string{"memory:default": "", "memory:paced": "rate: 1/m\n"} {
		docs = append(docs, store.Definition{Kind: "channel", Name: name, Text: fmt.Sprintf("channel: %s\nprovider: memory\n%s", name, rest)})
	}
	for name, more := range map[string][2]string{
		"plain": {"", "memory"}, "critical": {"critical: true", "memory"}, "paced": {"critical: true", "memory:paced"}, "folding": {"at_send: fold", "memory"},
		"braked": {"critical: true", "memory"}, "pacedbraked": {"critical: true", "memory:paced"},
		"topical": {"critical: true", "memory"},
	} {
		text := fmt.Sprintf(workflow, name, more[0], more[1])
		if strings.HasSuffix(name, "braked") {
			text += "limits: {max_sends_per_hour: 2}\n"
		}
		if name == "topical" {
			text = strings.Replace(text, "to: event.recipient", "topics: all", 1)
		}
		docs = append(docs, store.Definition{Kind: "workflow", Name: name, Text: text})
	}
	for i := range docs {
		docs[i].Version, docs[i].Hash = 1, docs[i].Text
	}
	providers := []channel.Provider{{Name: "memory"}}
	known := catalog.New(documents{docs}, loader.Options{Providers: []definition.ProviderInfo{{Name: "memory"}}})
	if _, err := known.Current(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if err := known.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	plain := func(_ subject.WorkspaceID, s definition.Setting) (string, error) { return s.Value, nil }
	s := New(Config{
		Store: &memoryStore{id: 1000}, Catalog: known, Clock: clock.NewManual(now), Log: slog.New(slog.DiscardHandler),
		Channels: channelpool.New(providers, plain, 1, slog.New(slog.DiscardHandler)),
	})
	return &admitting{
		Sender: s, now: now, leaseUntil: now.Add(s.Lease), live: map[subject.WorkspaceID]*definition.Set{}, earlier: admission.NewEarlier(),
	}
}

// fakeTx holds claims and persons in memory. It notes the statements that it would send.
type fakeTx struct {
	stops bool
	noDigests
	due, beside []delivery.Claim
	slots       map[subject.ContactID][]delivery.Slot
	suppressed  subject.ContactID
	owner       subject.ContactID // of every address that is nobody's own
	heads       []delivery.Row

	sent    []string
	last    subject.ContactID
	saved   store.ClaimWrites
	tell.Tx // nothing is routed
}

func (f *fakeTx) note(what string, ids ...subject.ContactID) {
	slices.Sort(ids)
	if ids = slices.Compact(ids); len(ids) > 0 {
		f.sent = append(f.sent, fmt.Sprint(what, " ", ids))
	}
}

func person(id subject.ContactID) delivery.Person {
	return delivery.Person{Found: true, Contact: subject.Contact{
		ID: id, ExtID: fmt.Sprint(id), Address: fmt.Sprint(id, "@example.com"), Addresses: map[string]string{"email": fmt.Sprint(id, "@example.com")},
	}}
}

func (f *fakeTx) ClaimDueDeliveries(time.Time, time.Time, int) ([]delivery.Claim, error) {
	f.sent, f.last = nil, 0
	return slices.Clone(f.due), nil
}

func (f *fakeTx) ReadSlots(_ time.Time, persons map[delivery.PersonRef]delivery.Person, _ store.Floor) error {
	for ref, p := range persons {
		p.SlotsRead, p.Slots = true, f.slots[ref.ID]
		persons[ref] = p
		f.note("slots", ref.ID)
	}
	return nil
}

func (f *fakeTx) OwnersOf(addresses []delivery.AddressRef) (map[delivery.AddressRef][]delivery.PersonRef, error) {
	owners := map[delivery.AddressRef][]delivery.PersonRef{}
	for _, a := range addresses {
		owners[a] = []delivery.PersonRef{{Workspace: 1, ID: f.owner}}
	}
	return owners, nil
}

func (f *fakeTx) MayLock(refs []delivery.PersonRef) bool {
	return !slices.ContainsFunc(refs, func(ref delivery.PersonRef) bool { return ref.ID < f.last })
}

func (f *fakeTx) LockPersons(_ time.Time, refs []delivery.PersonRef, _ store.Floor) (map[delivery.PersonRef]delivery.Person, error) {
	locked := map[delivery.PersonRef]delivery.Person{}
	for _, ref := range refs {
		p := person(ref.ID)
		p.Locked, p.SlotsRead, p.Slots, p.Suppressed = true, true, f.slots[ref.ID], ref.ID == f.suppressed
		locked[ref], f.last = p, max(f.last, ref.ID)
	}
	var ids []subject.ContactID
	for ref := range locked {
		ids = append(ids, ref.ID)
	}
	f.note("lock", ids...)
	return locked, nil
}

func (f *fakeTx) ClaimBeside(_, _ time.Time, of []delivery.PersonKind) ([]delivery.Claim, error) {
	var ids []subject.ContactID
	for _, of := range of {
		ids = append(ids, of.ID)
	}
	f.note("beside", ids...)
	if len(of) == 0 {
		return nil, nil
	}
	return slices.Clone(f.beside), nil
}

// The messages of these tests are no digests.
type noDigests struct{ digestTx }

func (noDigests) MoveCovered(list []store.CoveredRow) error {
	if len(list) > 0 {
		panic("there are no digests")
	}
	return nil
}

func (f *fakeTx) InstancesOf([]delivery.Row) (map[instance.ID]instance.Row, error) { return nil, nil }

// Follows answers that everybody follows what is asked, but for contact 8.
func (f *fakeTx) Follows(asked []topic.Question) ([]bool, error) {
	follows := make([]bool, len(asked))
	for i, q := range asked {
		f.sent = append(f.sent, fmt.Sprintf("follows %d", q.Contact))
		follows[i] = q.Contact != 8
	}
	return follows, nil
}

// StoppedAddresses answers that all of them take no messages, if stops is set.
func (f *fakeTx) StoppedAddresses(of []store.AddressOn) (map[store.AddressOn]store.Stop, error) {
	stopped := map[store.AddressOn]store.Stop{}
	for _, ref := range of {
		if f.stops {
			stopped[ref] = store.Stop{Reason: reason.AddressStopped}
		}
	}
	return stopped, nil
}

func (f *fakeTx) FoldHeads(_ time.Time, persons []delivery.PersonRef) ([]delivery.Row, error) {
	var ids []subject.ContactID
	for _, ref := range persons {
		ids = append(ids, ref.ID)
	}
	f.note("folds", ids...)
	return f.heads, nil
}

func (f *fakeTx) WaitingFolds(time.Time, []delivery.PersonRef) ([]delivery.Row, error) {
	return nil, nil
}

func (f *fakeTx) FoldMembers(time.Time, []delivery.Row) ([]delivery.Row, error) { return nil, nil }

func (f *fakeTx) LockPaces(refs []delivery.PaceRef) (map[delivery.PaceRef]flow.Pace, error) {
	if len(refs) > 0 {
		f.sent = append(f.sent, "paces")
	}
	return map[delivery.PaceRef]flow.Pace{}, nil
}

func (f *fakeTx) LockSends(refs []delivery.WorkflowRef) (map[delivery.WorkflowRef]flow.Sends, error) {
	if len(refs) > 0 {
		f.sent = append(f.sent, "sends")
	}
	return map[delivery.WorkflowRef]flow.Sends{}, nil
}

func (f *fakeTx) SaveClaims(_ time.Time, w store.ClaimWrites) error { f.saved = w; return nil }

func (f *fakeTx) LastSessions([]delivery.PersonKind) (map[delivery.PersonKind]delivery.Session, error) {
	return nil, nil
}

func (f *fakeTx) OpenSessions([]delivery.Session) error { return nil }

func (f *fakeTx) BeginAgain([]delivery.Session) error { return nil }

func (f *fakeTx) AskSessions(time.Time, []store.Asked) error { return nil }

func (f *fakeTx) FoldedMembers([]delivery.Row) ([]delivery.Row, error) { return nil, nil }

// claimOf is a claimed first message of a workflow to a contact, in a slot that began now.
func claimOf(id delivery.ID, to subject.ContactID, workflow string, change ...func(*delivery.Claim)) delivery.Claim {
	name := "memory:default"
	if strings.HasPrefix(workflow, "paced") {
		name = "memory:paced"
	}
	c := delivery.Claim{Person: person(to), Row: delivery.Row{
		Workspace: 1, ID: id, Key: fmt.Sprint("k", id), Contact: to, Workflow: workflow, Type: "alert", Trigger: "t", Channel: name, Version: 1,
		Address: person(to).Address, OwnAddress: true, Status: delivery.Scheduled, NotBefore: now, SendAt: now, Slot: now, AttemptNo: 1, IntentAt: now, LeaseUntil: now.Add(DefaultLease),
	}}
	for _, f := range change {
		f(&c)
	}
	return c
}

// What the transaction reads and locks follows from what its claims need.
//
// Shows: A39, P5.
func TestWhatAnIntentLocks(t *testing.T) {
	t.Parallel()
	noSlot := func(c *delivery.Claim) { c.Slot = time.Time{} }
	foreign := func(c *delivery.Claim) { c.Address, c.OwnAddress = "other@example.com", false }
	own := delivery.Slot{At: now, Type: "alert", Channel: "memory:default", N: 1, Waits: true}
	before := delivery.Slot{At: now.Add(-10 * time.Minute), Type: "alert", Channel: "memory:default", N: 1}
	tests := []struct {
		name string
		tx   fakeTx
		want []string
		ends map[delivery.ID]string // what becomes of each delivery that does not leave
	}{
		{name: "nothing is due"},
		{name: "a critical message needs nothing", tx: fakeTx{due: []delivery.Claim{claimOf(1, 1, "critical")}}},
		{
			name: "one that may not leave at all needs nothing", tx: fakeTx{due: []delivery.Claim{claimOf(1, 1, "plain", func(c *delivery.Claim) { c.StopReason = "stopped" })}},
			ends: map[delivery.ID]string{1: "cancelled stopped"},
		},
		{
			name: "one that keeps its slot needs no lock", want: []string{"slots [1]"},
			tx: fakeTx{due: []delivery.Claim{claimOf(1, 1, "plain")}, slots: map[subject.ContactID][]delivery.Slot{1: {own}}},
		},
		{
			name: "one without a slot is locked with its peers", want: []string{"lock [1]", "beside [1]"},
			tx: fakeTx{due: []delivery.Claim{claimOf(1, 1, "plain", noSlot)}},
		},
		{
			name: "one that has lost its slot is locked then, and waits", want: []string{"slots [1]", "lock [1]", "beside [1]"},
			tx:   fakeTx{due: []delivery.Claim{claimOf(1, 1, "plain")}, slots: map[subject.ContactID][]delivery.Slot{1: {before, own}}},
			ends: map[delivery.ID]string{1: "scheduled 10:50"},
		},
		{
			name: "the first of two peers leaves, in the order in which they were due", want: []string{"lock [1]", "beside [1]"},
			tx: fakeTx{due: []delivery.Claim{claimOf(1, 1, "plain", noSlot)}, beside: []delivery.Claim{claimOf(2, 1, "plain", noSlot)}},
		},
		{
			name: "all persons are locked by one statement", want: []string{"slots [4]", "lock [2 3]", "beside [2 3]"},
			tx: fakeTx{
				due:   []delivery.Claim{claimOf(1, 3, "plain", noSlot), claimOf(2, 2, "plain", noSlot), claimOf(3, 4, "plain"), claimOf(4, 5, "critical")},
				slots: map[subject.ContactID][]delivery.Slot{4: {own}},
			},
		},
		{name: "a paced one locks its channel", tx: fakeTx{due: []delivery.Claim{claimOf(1, 1, "paced")}}, want: []string{"paces"}},
		{name: "one of a workflow with a brake locks the count of its sends", tx: fakeTx{due: []delivery.Claim{claimOf(1, 1, "braked")}}, want: []string{"sends"}},
		{
			name: "paces come before sends, and persons before both", want: []string{"lock [1]", "beside [1]", "paces", "sends"},
			tx: fakeTx{due: []delivery.Claim{claimOf(1, 1, "plain", noSlot), claimOf(2, 2, "pacedbraked")}},
		},
		{
			name: "one that ends counts as no send", tx: fakeTx{due: []delivery.Claim{claimOf(1, 1, "braked", func(c *delivery.Claim) { c.StopReason = "stopped" })}},
			ends: map[delivery.ID]string{1: "cancelled stopped"},
		},
		{name: "one to the people of topics asks whether they still follow them", tx: fakeTx{due: []delivery.Claim{claimOf(1, 7, "topical")}}, want: []string{"follows 7"}},
		{
			name: "one whose person has left the topics does not leave", tx: fakeTx{due: []delivery.Claim{claimOf(1, 8, "topical")}}, want: []string{"follows 8"},
			ends: map[delivery.ID]string{1: "cancelled unsubscribed"},
		},
		{
			name: "the owner of another's address is locked with the persons", want: []string{"lock [1 9]", "beside [1]"},
			tx: fakeTx{due: []delivery.Claim{claimOf(1, 1, "plain", noSlot, foreign)}, owner: 9},
		},
		{
			name: "to a suppressed owner nothing is sent", want: []string{"lock [9]"},
			tx: fakeTx{due: []delivery.Claim{claimOf(1, 1, "critical", foreign)}, owner: 9, suppressed: 9}, ends: map[delivery.ID]string{1: "cancelled suppressed"},
		},
		{
			name: "to a contact who is suppressed when they are locked nothing is sent", want: []string{"lock [1]"},
			tx: fakeTx{due: []delivery.Claim{claimOf(1, 1, "plain", noSlot)}, suppressed: 1}, ends: map[delivery.ID]string{1: "cancelled suppressed"},
		},
		{
			name: "one whose address takes no messages needs nothing",
			tx:   fakeTx{due: []delivery.Claim{claimOf(1, 1, "plain", noSlot)}, stops: true}, ends: map[delivery.ID]string{1: "skipped address_stopped"},
		},
		{
			name: "one that may fold reads what it can be folded into", want: []string{"lock [1]", "beside [1]", "folds [1]"},
			tx: fakeTx{due: []delivery.Claim{claimOf(1, 1, "folding", noSlot)}},
		},
	}
	for _, test := range tests {
		r := testAdmitting(t)
		if err := r.commit(&test.tx, 100); err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		if diff := cmp.Diff(test.want, test.tx.sent); diff != "" {
			t.Errorf("%s (-want +got)\n%s", test.name, diff)
		}
		ends := map[delivery.ID]string{}
		for _, d := range test.tx.saved.Claims {
			switch {
			case !d.IntentAt.IsZero():
			case d.SendAt.IsZero():
				ends[d.ID] = fmt.Sprint(d.Status, " ", d.Reason)
			default:
				ends[d.ID] = fmt.Sprint(d.Status, " ", d.SendAt.Format("15:04"))
			}
		}
		if diff := cmp.Diff(test.ends, ends); len(test.ends)+len(ends) > 0 && diff != "" {
			t.Errorf("%s: ends (-want +got)\n%s", test.name, diff)
		}
		if all := len(test.tx.due) + len(test.tx.beside); len(r.decision.Sent)+len(ends) != all {
			t.Errorf("%s: %d of %d are sent, %d end or wait", test.name, len(r.decision.Sent), all, len(ends))
		}
	}
}

// An owner who comes before a person that is locked already is locked first when the transaction runs again.
func TestIntentsLockInOrder(t *testing.T) {
	t.Parallel()
	noSlot := func(c *delivery.Claim) { c.Slot = time.Time{} }
	r, tx := testAdmitting(t), &fakeTx{
		due: []delivery.Claim{claimOf(1, 5, "plain", noSlot)}, owner: 2,
		beside: []delivery.Claim{claimOf(2, 5, "plain", noSlot, func(c *delivery.Claim) { c.Address, c.OwnAddress = "other@example.com", false })},
	}
	if err := r.commit(tx, 100); !errors.Is(err, store.ErrAgain) || len(tx.saved.Claims) > 0 {
		t.Fatalf("%v, saved %d", err, len(tx.saved.Claims))
	}
	if err := r.commit(tx, 100); err != nil || len(r.decision.Sent) != 2 {
		t.Fatalf("%v, %d sent", err, len(r.decision.Sent))
	}
	if diff := cmp.Diff([]string{"lock [2 5]", "beside [5]"}, tx.sent); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// Whatever a try has found out is gone when the transaction runs again.
func TestATryThatFailedSendsNothing(t *testing.T) {
	t.Parallel()
	r, tx := testAdmitting(t), &fakeTx{due: []delivery.Claim{claimOf(1, 1, "critical")}}
	if err := r.commit(tx, 100); err != nil || len(r.decision.Sent) != 1 {
		t.Fatalf("%v, %d sent", err, len(r.decision.Sent))
	}
	tx.due = nil // others have it by now
	if err := r.commit(tx, 100); err != nil || len(r.decision.Sent) > 0 || r.claimed > 0 || len(r.decision.Entries) > 0 {
		t.Errorf("%v, %d sent, %d claimed, %d entries", err, len(r.decision.Sent), r.claimed, len(r.decision.Entries))
	}
}
