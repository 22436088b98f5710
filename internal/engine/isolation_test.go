package engine_test

import (
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
	"github.com/carillonhq/carillon/internal/subject"
)

// pair is a trigger on teams and the same on houses.
func pair(when, audience string) string {
	teams := strings.NewReplacer("record.morale < 50", when, "record.owner_id", audience).Replace(simple("[change]", "    cooldown: {length: 9h}\n", ""))
	houses, _, _ := strings.Cut(simple("[change]", "    cooldown: {length: 9h}\n", ""), "---\n")
	return teams + "---\n" + strings.NewReplacer("workflow: w", "workflow: w2", "record: team", "record: house").Replace(houses)
}

// newPair is a world with both and four records that fire nothing.
func newPair(t *testing.T, s *store.Store, when, audience string) world {
	t.Helper()
	w := world{enginetest.Setup(t, s, pair(when, audience), nil)}
	for range 3 { // the jobs over the records of each type end; they are due at no instant
		w.tick()
	}
	w.Clock.Set(ten)
	w.person("alice", `"persona": "Manager"`)
	for _, name := range []string{"team/a", "team/bad", "team/z", "house/a"} {
		w.put(name, `{"name": "N", "morale": 90, "owner_id": "alice", "list": []}`)
	}
	w.live("10:10")
	w.Journal()
	return w
}

// remember replaces a trigger's stored state of a record by a text that no trigger writes.
func (w world) remember(name, text string) {
	w.Helper()
	w.put(name, `{"morale": 40}`)
	now := w.Clock.Now()
	row, err := w.Store.Record(w.Context(), w.Workspace.ID, refOf(name))
	if err != nil {
		w.Fatal(err)
	}
	err = w.Store.Write(w.Context(), func(tx *store.Tx) error {
		return tx.WriteEvaluations(now, store.EvaluateState{}, store.EvaluateWrites{
			Evaluated: []store.Evaluated{{Workspace: w.Workspace.ID, ID: row.ID, State: text, EvaluateAt: now}},
		})
	})
	if err != nil {
		w.Fatal(err)
	}
}

func refOf(name string) subject.RecordRef {
	typ, id, _ := strings.Cut(name, "/")
	return subject.RecordRef{Type: typ, ExtID: id}
}

// A record about which nothing can be decided is retried, later each time, and says why. The other records of its batch and of other types are
// evaluated as if it were not there. Once it is corrected, it is a record like any other.
func TestOneBadRecordHarmsNoOther(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ damage, correct func(w world) }{
		"what was remembered of it cannot be read": {
			func(w world) { w.remember("team/bad", "{") },
			func(w world) {
				w.put("team/bad", `{"morale": 43}`)
				w.remember("team/bad", "")
			},
		},
		"an instant that has no written form": {
			func(w world) {
				now := w.Clock.Now()
				w.put("team/bad", `{"morale": 40}`)
				w.Clock.Set(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC))
				w.put("team/bad", `{"morale": 41}`)
				w.Clock.Set(now)
			},
			func(w world) { w.put("team/bad", `{"morale": 42}`) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, s *store.Store) {
				w := newPair(t, s, "record.morale < 50", "record.owner_id")
				c.damage(w)
				for _, name := range []string{"team/a", "team/z", "house/a"} {
					w.put(name, `{"morale": 11}`)
				}
				w.live("11:40") // it does not spin: live would find no end
				w.mustBe("the day", w.happened(journal.Created, journal.Failed), []string{
					"10:10 created t:a", "10:10 failed evaluation_failed", "10:10 created t:z", "10:10 created t:a",
					"10:15 failed evaluation_failed", "10:30 failed evaluation_failed", "11:30 failed evaluation_failed",
				})
				row, err := s.Record(t.Context(), w.Workspace.ID, refOf("team/bad"))
				if err != nil {
					t.Fatal(err)
				}
				decisions, err := s.Decisions(t.Context(), w.Workspace.ID, store.DecisionFilter{Record: row.ID}, store.Page{})
				if err != nil || len(decisions) != 1 || decisions[0].Reason != reason.EvaluationFailed || !strings.Contains(decisions[0].Trace, `{"error":"`) {
					t.Errorf("decisions %+v, %v", decisions, err)
				}
				standings, err := w.ExplainRecord(t.Context(), w.Workspace.ID, row)
				if err != nil || len(standings) != 1 || standings[0].Reason != reason.EvaluationFailed || !standings[0].Until.Equal(at("12:30")) {
					t.Errorf("standings %+v, %v", standings, err)
				}
				c.correct(w)
				w.live("11:50")
				w.mustBe("corrected", w.happened(journal.Created, journal.Failed), []string{"11:40 created t:bad"})
				if row, err = s.Record(t.Context(), w.Workspace.ID, refOf("team/bad")); err != nil || row.Failures != 0 {
					t.Errorf("%+v, %v", row, err)
				}
			})
		})
	}
}

// An expression that takes too many steps counts as false and is reported; an audience that cannot be computed is retried by itself. Neither delays
// anything else.
func TestOneCostlyRecordHarmsNoOther(t *testing.T) {
	t.Parallel()
	long := "[" + strings.TrimSuffix(strings.Repeat("1, ", 300), ", ") + "]"
	for name, c := range map[string]struct {
		when, audience, bad string
		want                []string
	}{
		"a condition": {
			"record.morale < 50 && (record.list.size() < 9 || record.list.exists(a, record.list.exists(b, record.list.exists(c, a + b + c == 0))))", "record.owner_id",
			`{"list": ` + long + `}`,
			[]string{"10:10 created t:a", "10:10 failed cost_exceeded", "10:10 created t:z", "10:10 created t:a"},
		},
		"an audience": {
			"record.morale < 50", "'record.list.size() < 9 ? record.owner_id : record.list[999]'",
			`{"list": ` + long + `}`,
			[]string{
				"10:10 created t:a", "10:10 created t:bad", "10:10 created t:z", "10:10 created t:a", "10:10 retried audience_failed",
				"10:15 retried audience_failed", "10:30 retried audience_failed", "11:30 held retries_used_up",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, s *store.Store) {
				w := newPair(t, s, c.when, c.audience)
				w.put("team/bad", c.bad)
				for _, name := range []string{"team/a", "team/bad", "team/z", "house/a"} {
					w.put(name, `{"morale": 11}`)
				}
				w.live("12:40")
				w.mustBe("the day", w.happened(journal.Created, journal.Failed, journal.Retried, journal.Held), c.want)
			})
		})
	}
}
