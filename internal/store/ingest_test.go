package store_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
	"github.com/carillonhq/carillon/internal/subject"
)

func TestIngestStoresEverythingAsGiven(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		event := f.event("closed")
		in := f.instance("survey:visit:event:1", instance.Completed)
		in.Event, in.Hold, in.HeldAt, in.NextRetryAt, in.Attempts, in.RetryCount, in.Crashes = event.ID, instance.HoldConflict, now.Add(time.Minute), now.Add(time.Hour), 1, 2, 3
		in.Reason, in.Trace, in.CompletedAt = reason.Expanded, `{"a":"ä"}`, now.Add(time.Second)
		var d delivery.Row
		f.ingest(ingestRequest{Recipients: []store.RecipientRef{person("c-1", "+96477")}}, func(s ingestState) (store.OccasionWrites, error) {
			d = f.delivery(in, s.Persons[0].ID)
			d.DeferredBy, d.Reason, d.CompletedAt = reason.CadenceDaily, reason.Matched, now.Add(time.Minute)
			return store.OccasionWrites{
				Events: []store.EventRow{event}, Instances: []instance.Row{in}, Deliveries: []delivery.Row{d},
				Decisions: []store.Decision{{At: now, Event: event.ID, Instance: in.ID, Workflow: "other", WorkflowVersion: 4, Trigger: "t", Reason: reason.ConditionFalse, Trace: `{}`}},
			}, nil
		})

		gotInstance, err := s.InstanceByID(t.Context(), f.ws, in.ID)
		f.must(err)
		if diff := cmp.Diff(in, gotInstance); diff != "" {
			t.Errorf("instance (-want +got)\n%s", diff)
		}
		if diff := cmp.Diff(d, f.row(d.ID)); diff != "" {
			t.Errorf("delivery (-want +got)\n%s", diff)
		}
		events, err := s.EventsByID(t.Context(), []store.EventRef{{Workspace: f.ws, ID: event.ID}, {Workspace: f.ws, ID: event.ID}, {Workspace: f.ws + 1, ID: event.ID}})
		f.must(err)
		event.Payload = map[string]any{"n": json.Number("1.50"), "text": `<a> "b" \ é`}
		if diff := cmp.Diff(map[store.EventRef]store.EventRow{{Workspace: f.ws, ID: event.ID}: event}, events); diff != "" {
			t.Errorf("events (-want +got)\n%s", diff)
		}
		decisions, err := s.Decisions(t.Context(), f.ws, store.DecisionFilter{Event: event.ID}, store.Page{})
		f.must(err)
		if len(decisions) != 1 || decisions[0].Reason != reason.ConditionFalse || decisions[0].Instance != in.ID || decisions[0].ID == 0 {
			t.Errorf("decisions %+v", decisions)
		}
		contact, ok, err := s.ContactByExtID(t.Context(), f.ws, "c-1")
		if want := (subject.Contact{ID: d.Contact, ExtID: "c-1", Address: "+96477", Locale: "ar"}); err != nil || !ok || !cmp.Equal(contact, want) {
			t.Errorf("contact %+v %v %v, want %+v", contact, ok, err, want)
		}
	})
}

// Shows: C11.
func TestIngestMeetsWhatExists(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		in := f.instance("k:1", instance.Completed)
		d := f.delivery(in, f.contact("c-1"))
		f.add(store.OccasionWrites{Instances: []instance.Row{in}, Deliveries: []delivery.Row{d}})
		f.ingest(ingestRequest{Keys: []string{"k:2", "k:1", "k:1"}}, func(got ingestState) (store.OccasionWrites, error) {
			want := map[string]store.ExistingInstance{"k:1": {
				ID: in.ID, Key: "k:1", Status: instance.Completed, InputHash: "h1",
				Deliveries: []store.ExistingDelivery{{ID: d.ID, Channel: "sms:twilio", Status: delivery.Scheduled}},
			}}
			if diff := cmp.Diff(want, got.Instances); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			return store.OccasionWrites{}, nil
		})
		f.mustBe(ingest(t.Context(), s, f.ws+1, ingestRequest{}, nil), store.ErrNotFound)
	})
}

func TestIngestFindsOrMakesRecipients(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		known := f.contact("c-1")
		look := func(refs ...store.RecipientRef) (got []delivery.Person) {
			f.ingest(ingestRequest{Recipients: refs}, func(s ingestState) (store.OccasionWrites, error) {
				got = s.Persons
				return store.OccasionWrites{}, nil
			})
			return got
		}
		nobody := store.RecipientRef{ExtID: "nobody", AddressHash: "nobody"}
		got := look(person("c-1", "a@x"), person("c-2", "b@x"), person("", "b@x"), person("", "c@x"), person("c-3", "c@x"), person("c-2", ""), nobody)
		for i, p := range got {
			if p.Locked || p.Found != (i < 6) {
				t.Errorf("person %d: found %v, locked %v", i, p.Found, p.Locked)
			}
		}
		if got[0].ID != known {
			t.Errorf("an ext_id did not find its contact")
		}
		if got[2].ID != got[1].ID || got[5].ID != got[1].ID || got[1].ID == known {
			t.Errorf("b@x is %d, %d and %d: not one new contact", got[1].ID, got[2].ID, got[5].ID)
		}
		if got[4].ID != got[3].ID || got[3].ExtID != "addr:hash of c@x" {
			t.Errorf("c@x is %d and %d (%s)", got[3].ID, got[4].ID, got[3].ExtID)
		}
		// The address of a contact that was found is not taken over: it may be shared.
		again := look(person("", "a@x"), person("c-9", "b@x"))
		if again[0].ID == known || again[1].ID != got[1].ID {
			t.Errorf("again %d %d", again[0].ID, again[1].ID)
		}
		if err := ingest(t.Context(), s, f.ws, ingestRequest{Recipients: []store.RecipientRef{{AddressHash: "h", Create: true}}}, nil); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("a contact without ext_id: %v", err)
		}
	})
}

func TestIngestLocksAndLoadsSlots(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		old := now.Add(-100 * 24 * time.Hour)
		rows := f.scheduled(6, func(i int, d *delivery.Row) {
			switch i {
			case 1:
				d.Slot = time.Time{}
			case 2:
				d.Slot = now.Add(time.Hour)
			case 3:
				d.Slot = old
			case 4:
				d.Type, d.Channel = "alert", "email:smtp"
			}
		})
		contact, ok, err := s.ContactByID(t.Context(), f.ws, rows[0].Contact)
		if err != nil || !ok {
			t.Fatal(err)
		}
		ref := store.RecipientRef{ExtID: contact.ExtID}
		locked := ref
		locked.Lock = true
		f.ingest(ingestRequest{Recipients: []store.RecipientRef{ref, locked}}, func(got ingestState) (store.OccasionWrites, error) {
			want := []delivery.Slot{{At: now, Type: "alert", Channel: "email:smtp", N: 1, Waits: true}, {At: now, Type: "survey", Channel: "sms:twilio", N: 2, Waits: true}, {At: now.Add(time.Hour), Type: "survey", Channel: "sms:twilio", N: 1, Waits: true}}
			for i, p := range got.Persons { // both references are the same, locked person
				if diff := cmp.Diff(delivery.Person{Contact: contact, Found: true, Locked: true, SlotsRead: true, Slots: want}, p); i == 1 && diff != "" {
					t.Errorf("person %d (-want +got)\n%s", i, diff)
				}
			}
			return store.OccasionWrites{}, nil
		})
		f.ingest(ingestRequest{Recipients: []store.RecipientRef{ref}}, func(got ingestState) (store.OccasionWrites, error) {
			if p := got.Persons[0]; p.Locked || p.Slots != nil {
				t.Errorf("locked without being asked: %+v", p)
			}
			return store.OccasionWrites{}, nil
		})
	})
}

// Each writer takes the first free hour of one person. When the lock and the history do not see each other, two
// take the same.
func TestSlotsOfOnePersonAreTakenOnce(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		const writers = 32
		f := setup(t, s)
		f.contact("c-1")
		ref := person("c-1", "")
		ref.Lock = true
		race(t, writers, func(n int) error {
			return ingest(t.Context(), s, f.ws, ingestRequest{Recipients: []store.RecipientRef{ref}}, func(got ingestState) (store.OccasionWrites, error) {
				in := f.instance(fmt.Sprintf("k:%d", n), instance.Completed)
				d := f.delivery(in, got.Persons[0].ID)
				d.Slot = now.Add(time.Duration(len(got.Persons[0].Slots)) * time.Hour)
				return store.OccasionWrites{Instances: []instance.Row{in}, Deliveries: []delivery.Row{d}}, nil
			})
		})
		rows, err := s.Deliveries(t.Context(), f.ws, store.DeliveryFilter{}, store.Page{Limit: 1000})
		f.must(err)
		slots := map[time.Time]bool{}
		for _, d := range rows {
			slots[d.Slot] = true
		}
		if len(rows) != writers || len(slots) != writers {
			t.Errorf("%d deliveries in %d slots, want %d in as many", len(rows), len(slots), writers)
		}
	})
}

// race runs f in n goroutines at once and fails on their errors.
func race(t *testing.T, n int, f func(n int) error) {
	t.Helper()
	var group sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		group.Go(func() {
			<-start
			if err := f(i); err != nil {
				t.Errorf("racer %d: %v", i, err)
			}
		})
	}
	close(start)
	group.Wait()
}

// Shows: C11.
func TestRacingPostersMakeOneInstanceAndOneDeliveryEach(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		const posters, keys = 64, 5
		f := setup(t, s)
		var mu sync.Mutex
		created := 0
		race(t, posters, func(n int) error {
			request := ingestRequest{}
			for k := range keys {
				request.Keys = append(request.Keys, fmt.Sprintf("k:%d", (n+k)%keys)) // each in another order
				ref := person("", fmt.Sprintf("p%d@x", (n+k)%keys))
				ref.Lock = n%2 == 0
				request.Recipients = append(request.Recipients, ref)
			}
			made := 0
			err := ingest(t.Context(), s, f.ws, request, func(got ingestState) (w store.OccasionWrites, err error) {
				made = 0
				for k, key := range request.Keys {
					if e, ok := got.Instances[key]; ok {
						if len(e.Deliveries) != 1 {
							t.Errorf("%s exists with %d deliveries", key, len(e.Deliveries))
						}
						continue
					}
					made++
					in := f.instance(key, instance.Completed)
					w.Instances = append(w.Instances, in)
					w.Deliveries = append(w.Deliveries, f.delivery(in, got.Persons[k].ID))
				}
				return w, nil
			})
			mu.Lock()
			created += made
			mu.Unlock()
			return err
		})
		counts, err := s.Counts(t.Context(), f.ws)
		f.must(err)
		if created != keys || counts.InstancesByStatus[instance.Completed] != keys || counts.DeliveriesByStatus[delivery.Scheduled] != keys {
			t.Errorf("created %d, stored %+v, want %d each", created, counts, keys)
		}
		rows, err := s.Deliveries(t.Context(), f.ws, store.DeliveryFilter{}, store.Page{})
		f.must(err)
		contacts := map[subject.ContactID]bool{}
		for _, d := range rows {
			contacts[d.Contact] = true
		}
		if len(contacts) != keys {
			t.Errorf("%d contacts, want %d", len(contacts), keys)
		}
	})
}

func TestIngestRefusesWhatCannotBeStored(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		good := func() instance.Row { return f.instance(fmt.Sprintf("k:%d", s.NewID(now)), instance.Completed) }
		tests := []struct {
			name   string
			writes func() store.OccasionWrites
			want   error
		}{
			{"U+0000", func() store.OccasionWrites {
				bad := good()
				bad.Trace = "a\x00b"
				return store.OccasionWrites{Instances: []instance.Row{good(), bad}}
			}, store.ErrInvalid},
			{"not UTF-8", func() store.OccasionWrites {
				e := f.event("x")
				e.PayloadJSON = "\xff"
				return store.OccasionWrites{Events: []store.EventRow{e}}
			}, store.ErrInvalid},
			{"one key twice", func() store.OccasionWrites {
				a, b := good(), good()
				b.Key = a.Key
				return store.OccasionWrites{Instances: []instance.Row{a, b}}
			}, store.ErrInvalid},
			{"another workspace", func() store.OccasionWrites {
				a := good()
				a.Workspace++
				return store.OccasionWrites{Instances: []instance.Row{a}}
			}, store.ErrInvalid},
			{"C27 a final delivery that would be sent", func() store.OccasionWrites {
				a := good()
				d := f.delivery(a, 1)
				d.Status = delivery.Failed
				return store.OccasionWrites{Instances: []instance.Row{a}, Deliveries: []delivery.Row{d}}
			}, store.ErrInvalid},
			{"one delivery twice", func() store.OccasionWrites {
				a := good()
				return store.OccasionWrites{Instances: []instance.Row{a}, Deliveries: []delivery.Row{f.delivery(a, 1), f.delivery(a, 1)}}
			}, store.ErrInvalid},
			{"a delivery that was tried before it was made", func() store.OccasionWrites {
				a := good()
				d := f.delivery(a, 1)
				d.AttemptNo = 1
				return store.OccasionWrites{Instances: []instance.Row{a}, Deliveries: []delivery.Row{d}}
			}, store.ErrInvalid},
			{"a decision that fails", nil, errBroken},
		}
		for _, test := range tests {
			err := ingest(t.Context(), s, f.ws, ingestRequest{Recipients: []store.RecipientRef{person("made-on-the-way", "")}}, func(ingestState) (store.OccasionWrites, error) {
				if test.writes == nil {
					return store.OccasionWrites{}, errBroken
				}
				return test.writes(), nil
			})
			if !errors.Is(err, test.want) {
				t.Errorf("%s: %v, want %v", test.name, err, test.want)
			}
		}
		_, ok, err := s.ContactByExtID(t.Context(), f.ws, "made-on-the-way")
		counts, countErr := s.Counts(t.Context(), f.ws)
		if ok || err != nil || countErr != nil || counts.Events != 0 || len(counts.InstancesByStatus)+len(counts.DeliveriesByStatus) != 0 {
			t.Errorf("something was stored: contact %v, %+v", ok, counts)
		}
	})
}

var errBroken = errors.New("broken")

// An instance on hold is not taken up, and is no work that is due.
func TestHeldInstanceIsNotDue(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		in := f.instance("k:1", instance.Pending)
		f.add(store.OccasionWrites{Instances: []instance.Row{in}})
		held := in
		held.PutOnHold(instance.HoldConflict, now)
		f.must(s.Write(t.Context(), func(tx *store.Tx) error { return tx.UpdateInstance(now, in, held) }))
		got, err := s.InstanceByKey(t.Context(), f.ws, "k:1")
		f.must(err)
		if got.Hold != instance.HoldConflict || got.Reason != reason.InputConflict || got.Status != instance.Pending || got.Version != 1 || !got.HeldAt.Equal(now) {
			t.Errorf("%+v", got)
		}
		if n := f.expand(nil); n != 0 {
			t.Errorf("a held instance was expanded")
		}
		next, err := s.EarliestDue(t.Context(), now)
		if err != nil || !next.IsZero() {
			t.Errorf("next due %v %v", next, err)
		}
	})
}

// Shows: C10.
func TestForgottenKeyComesBackAsRetry(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		first := f.instance("k:1", instance.Completed)
		f.add(store.OccasionWrites{Instances: []instance.Row{first}})
		look := func() (e *store.ExistingInstance, n int) {
			f.ingest(ingestRequest{Keys: []string{"k:1"}}, func(got ingestState) (store.OccasionWrites, error) {
				if found, ok := got.Instances["k:1"]; ok {
					e = &found
				}
				n = got.Forgotten["k:1"]
				return store.OccasionWrites{}, nil
			})
			return e, n
		}
		forget := func(id instance.ID) {
			f.must(f.operate(id, func(tx *store.Tx, in instance.Row, _ []delivery.Row) error {
				base, _ := key.Instance(in.Key).Base()
				n, err := tx.Retries(f.ws, base)
				if err != nil {
					return err
				}
				return tx.FreeKey(f.ws, base, n+1)
			}))
		}
		if e, n := look(); e == nil || n != 0 {
			t.Fatalf("before: %v %d", e, n)
		}
		// A person had it sent again meanwhile, so that number 1 is in use.
		resent := f.instance("k:1:retry:1", instance.Completed)
		f.add(store.OccasionWrites{Instances: []instance.Row{resent}})
		forget(first.ID)
		forget(first.ID)
		if e, n := look(); e != nil || n != 2 {
			t.Fatalf("freed: %v %d, want none and 2", e, n)
		}
		second := f.instance("k:1:retry:2", instance.Completed)
		f.add(store.OccasionWrites{Instances: []instance.Row{second}})
		if e, n := look(); e == nil || e.ID != second.ID || e.Key != second.Key || n != 2 {
			t.Fatalf("made again: %+v %d", e, n)
		}
		forget(second.ID) // by the row that stands for it, the base key is freed all the same
		if e, n := look(); e != nil || n != 3 {
			t.Fatalf("freed again: %v %d, want none and 3", e, n)
		}
	})
}

func TestKeyOrderIsBytewise(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		var docs []store.Definition
		for _, name := range []string{"b", "a", "B", "a-b", "a.b", "ab"} {
			docs = append(docs, store.Definition{Kind: "workflow", Name: name, Hash: "1"})
		}
		_, _, err := storetest.Apply(t.Context(), s, f.ws, now, docs...)
		f.must(err)
		got, err := s.DefinitionSet(t.Context(), f.ws, 1)
		f.must(err)
		if !slices.IsSortedFunc(got, func(a, b store.Definition) int { return strings.Compare(a.Name, b.Name) }) {
			t.Errorf("order %v", got)
		}
	})
}

// A batch that is looked up by name takes the index of the names, also in a table that has grown since it was last
// looked at: the primary key begins with the workspace too, and through it each name would read all of it.
func TestLookUpsByNameOfAYoungTable(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t, storetest.URL(t, "postgres"))
	f := setup(t, s)
	var w store.OccasionWrites
	var people []store.RecipientRef
	for i := range 500 {
		w.Instances = append(w.Instances, f.instance(fmt.Sprint("young", i), instance.Completed))
		people = append(people, person(fmt.Sprint("young", i), ""))
	}
	f.add(store.OccasionWrites{Instances: []instance.Row{f.instance("first", instance.Completed)}})
	f.contact("first")
	_, err := s.Exec(t.Context(), "ANALYZE")
	f.must(err)
	f.ingest(ingestRequest{Recipients: people}, func(ingestState) (store.OccasionWrites, error) { return w, nil })
	for text, args := range store.ByName() {
		plans, err := s.Plans(t.Context(), text, args...)
		f.must(err)
		if lines := strings.Join(plans, "\n"); strings.Contains(lines, "instance_pkey") || strings.Contains(lines, "contact_pkey") {
			t.Errorf("%s\n%s", text, lines)
		}
	}
}
