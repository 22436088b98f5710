package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/plumbing/jobs"
	"github.com/carillonhq/carillon/internal/engine/service/ingest"
	"github.com/carillonhq/carillon/internal/engine/stage/sender"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/job"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// four has one workflow for each way of waiting: a message for the recipient of an event, which is pinned; an instance of an event whose audience is
// computed when it is due; a date of a record; a day of the calendar.
const four = `
workflow: direct
type: reminder
triggers: {id: t, event: signed-up}
timing: {offset: 2d}
audience: {to: event.recipient}
channel: inbox
message: {inbox: {text: direct}}
---
workflow: later
type: reminder
triggers: {id: t, event: signed-up}
timing: {offset: 2d}
audience: {persona: Manager}
channel: inbox
message: {inbox: {text: later}}
---
workflow: visits
type: reminder
triggers:
  id: t
  record: visit
  timing: {anchor: record.on_date, at: "12:00"}
audience: {persona: Manager}
channel: inbox
message: {inbox: {text: visits}}
---
workflow: daily
type: report
triggers: {schedule: {every: 1d, at: "11:00"}}
audience: {persona: Manager}
channel: inbox
message: {inbox: {text: daily}}
---
persona: Manager
---
channel: inbox
provider: inbox
`

func workflows() []string { return []string{"direct", "later", "visits", "daily"} }

// delete deletes a definition.
func (w world) delete(ws store.Workspace, kind definition.Kind, name string) engine.Applied {
	w.Helper()
	applied, err := w.DeleteDefinition(w.Context(), ws, definition.Ref{Kind: kind, Name: name}, false, engine.Applier{Name: "ann", Secrets: true}, nil)
	if err != nil {
		w.Fatal(err)
	}
	return applied
}

// waiting lists the waiting deliveries and instances of a workspace, with their workflows.
func (w world) waiting(ws store.Workspace) []string {
	w.Helper()
	var all []string
	rows, err := w.Store.Deliveries(w.Context(), ws.ID, store.DeliveryFilter{}, store.Page{Limit: 1000})
	if err != nil {
		w.Fatal(err)
	}
	for _, d := range rows {
		if !d.Status.Final() && !d.SendAt.IsZero() {
			all = append(all, "delivery of "+d.Workflow)
		}
	}
	instances, err := w.Store.Instances(w.Context(), ws.ID, store.InstanceFilter{Status: instance.Pending}, store.Page{Limit: 1000})
	if err != nil {
		w.Fatal(err)
	}
	for _, in := range instances {
		all = append(all, "instance of "+in.Workflow)
	}
	slices.Sort(all)
	return all
}

// exhaust runs passes until there is nothing to do at this moment.
func (w world) exhaust() {
	for w.tick() {
	}
}

func (w world) postTo(ws store.Workspace, event string) {
	w.Helper()
	if _, err := w.Ingest(w.Context(), ws, []ingest.Item{ingest.Parse([]byte(event), w.Clock.Now())}); err != nil {
		w.Fatal(err)
	}
}

// The waiting messages of a deleted workflow are withdrawn with the reason, whatever version they are pinned to, also while it is paused. Those of
// other workflows, and of the same one in another workspace, stay. When the workflow is restored, occasions of a date or the calendar are planned
// again, and a withdrawn message for a contact is not sent.
func TestWaitingMessagesOfADeletedWorkflowAreWithdrawn(t *testing.T) {
	t.Parallel()
	for _, paused := range []bool{false, true} {
		t.Run(fmt.Sprintf("paused=%v", paused), func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, s *store.Store) {
				w := newWorld(t, s, four, "ann")
				other, err := s.EnsureWorkspace(t.Context(), "other", []byte("fedcba9876543210fedcba9876543210"), w.Now())
				if err != nil {
					t.Fatal(err)
				}
				if _, err := w.Engine.Apply(t.Context(), other, []definition.File{{Name: "a.yaml", Text: []byte("workspace: other\n---" + four)}}, "ann"); err != nil {
					t.Fatal(err)
				}
				const signedUp = `{"kind": "signed-up", "id": "1", "recipient": {"address": "bob@example.org", "customer_ref": "bob"}}`
				w.Post(signedUp)
				w.postTo(other, signedUp)
				w.put("visit/v", `{"on_date": "2026-05-16"}`)
				w.exhaust()
				want := []string{"delivery of direct", "instance of daily", "instance of later", "instance of visits"}
				w.mustBe("before", w.waiting(w.Workspace), want)
				theirs := w.waiting(other)
				for i, name := range workflows() {
					if paused {
						pause(w.Bundle, name)
					}
					w.delete(w.Workspace, definition.KindWorkflow, name)
					w.exhaust()
					left := slices.DeleteFunc(slices.Clone(want), func(s string) bool {
						return slices.ContainsFunc(workflows()[:i+1], func(gone string) bool { return strings.HasSuffix(s, " of "+gone) })
					})
					if len(left) == 0 {
						left = nil
					}
					w.mustBe("without "+name, w.waiting(w.Workspace), left)
				}
				w.mustBe("of the other workspace", w.waiting(other), theirs)
				rows, err := s.Deliveries(t.Context(), w.Workspace.ID, store.DeliveryFilter{}, store.Page{Limit: 1000})
				if err != nil || len(rows) != 1 || rows[0].Status != delivery.Cancelled || rows[0].Reason != reason.WorkflowInactive {
					t.Errorf("the delivery is %+v, %v", rows, err)
				}
				instances, err := s.Instances(t.Context(), w.Workspace.ID, store.InstanceFilter{Status: instance.Deactivated}, store.Page{})
				if err != nil || len(instances) != 3 {
					t.Errorf("withdrawn: %+v, %v", instances, err)
				}
				for _, in := range instances {
					if in.Reason != reason.WorkflowInactive {
						t.Errorf("%s is withdrawn for %q", in.Key, in.Reason)
					}
				}
				w.Journal()
				if _, err := w.Rollback(t.Context(), w.Workspace, engine.Rollback{Set: 1}, engine.Applier{Name: "ann"}, nil); err != nil {
					t.Fatal(err)
				}
				w.exhaust()
				w.mustBe("brought back", w.waiting(w.Workspace), []string{"instance of daily", "instance of visits"})
			})
		})
	}
}

// A process that dies after a deletion was committed leaves a job, which the next one continues. Until then, and without the job, due messages of the
// workflow are not sent.
func TestADeletionOutlivesACrash(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, four, "ann")
		const people = 150 // two pages
		events := make([]string, people)
		for i := range people {
			events[i] = fmt.Sprintf(`{"kind": "signed-up", "id": "%d", "recipient": {"address": "p%d@example.org"}}`, i, i)
		}
		w.PostAll(events...)
		w.exhaust()
		w.delete(w.Workspace, definition.KindWorkflow, "direct")
		left := func() (n int) {
			for _, one := range w.waiting(w.Workspace) {
				if one == "delivery of direct" {
					n++
				}
			}
			return n
		}
		if n := left(); n != people {
			t.Fatalf("%d wait right after the deletion", n)
		}
		if _, err := w.Tick(t.Context()); err != nil { // one page
			t.Fatal(err)
		}
		if n := left(); n == 0 || n == people {
			t.Fatalf("%d wait after a page", n)
		}
		next := world{enginetest.Setup(t, s, "", nil)} // another process
		next.Clock.Set(w.Clock.Now())
		next.exhaust()
		if n := left(); n != 0 {
			t.Errorf("%d wait after the job", n)
		}
		if jobs, err := w.runs(job.Cancel); err != nil || len(jobs) != 1 || jobs[0].Status != job.Done || jobs[0].Changed != people {
			t.Errorf("the jobs are %+v, %v", jobs, err)
		}
	})
}

// Nothing of a deleted workflow is sent or begun, even if the job that withdraws it was cancelled.
func TestNothingOfADeletedWorkflowIsSent(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		pinned := strings.Replace(four, "workflow: later\n", "workflow: later\npin: true\n", 1)
		w := newWorld(t, s, pinned, "ann")
		w.Post(`{"kind": "signed-up", "id": "1", "recipient": {"address": "bob@example.org"}}`)
		w.exhaust()
		for _, name := range workflows() {
			w.delete(w.Workspace, definition.KindWorkflow, name)
		}
		runs, err := w.runs(job.Cancel)
		if err != nil || len(runs) != len(workflows()) {
			t.Fatalf("%d jobs, %v", len(runs), err)
		}
		for _, r := range runs {
			if _, err := jobs.Cancel(t.Context(), s, w.Workspace.ID, r.ID, w.Now(), store.Audit{Actor: "ann"}); err != nil {
				t.Fatal(err)
			}
		}
		w.Clock.Set(w.Clock.Now().Add(49 * time.Hour))
		w.exhaust()
		if sent := w.Provider.Sent(); len(sent) > 0 {
			t.Errorf("sent %+v", sent)
		}
		w.mustBe("waits", w.waiting(w.Workspace), nil)
		if rows, err := s.Deliveries(t.Context(), w.Workspace.ID, store.DeliveryFilter{Workflow: "later"}, store.Page{}); err != nil || len(rows) > 0 {
			t.Errorf("what had not begun made %+v, %v", rows, err)
		}
	})
}

// A definition that others need is not deleted: the error names each of them, and nothing changes. A definition that is not in force is not found.
func TestADefinitionThatOthersNeedIsNotDeleted(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, four+"---\nrecord_type: visit\nfields: {on_date: date}\n---\nsurvey: s\ntitle: S\ninvitation: {text: x}\nquestions: {id: a, type: text, text: A}\n---\n"+
			"template: t\ninbox: {text: x}\n---\nworkflow: asks\ntype: survey\ntriggers: {id: t, event: e}\naudience: {everyone: true}\nchannel: inbox\nmessage: {survey: s}\n---\n"+
			"workflow: notifies\ntype: custom\ntriggers: {id: t, event: e}\naudience: {everyone: true}\nchannel: inbox\nmessage: {template: t}\n")
		number := w.number()
		for _, tc := range []struct {
			kind definition.Kind
			name string
			want []string
		}{
			{definition.KindPersona, "Manager", []string{"workflow daily", "workflow later", "workflow visits"}},
			{definition.KindChannel, "inbox:default", []string{"workflow asks", "workflow daily", "workflow direct", "workflow later", "workflow notifies", "workflow visits"}},
			{definition.KindRecordType, "visit", []string{"workflow visits"}},
			{definition.KindSurvey, "s", []string{"workflow asks"}},
			{definition.KindTemplate, "t", []string{"workflow notifies"}},
		} {
			applied := w.delete(w.Workspace, tc.kind, tc.name)
			var got []string
			for _, p := range applied.Problems {
				if p.Code == definition.CodeNeeded {
					got = append(got, strings.TrimSuffix(p.File, " in force"))
				} else if !p.Warning {
					t.Errorf("%s: %s", tc.name, p)
				}
			}
			slices.Sort(got)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s %s is needed by (-want +got):\n%s", tc.kind, tc.name, diff)
			}
		}
		var absent *engine.NotInForceError
		if _, err := w.DeleteDefinition(t.Context(), w.Workspace, definition.Ref{Kind: "persona", Name: "None"}, false, engine.Applier{}, nil); !errors.As(err, &absent) {
			t.Errorf("what is not in force: %v", err)
		}
		if now := w.number(); now != number {
			t.Errorf("set %d is in force, want %d", now, number)
		}
	})
}

func (w world) number() int64 {
	w.Helper()
	n, err := w.Store.DefinitionsNumber(w.Context(), w.Workspace.ID)
	if err != nil {
		w.Fatal(err)
	}
	return n
}

// A workflow or a channel is removed after intents were committed, and another worker of the process loads that set before the texts are written.
// The other messages of the batch leave all the same, and the next claim records what becomes of those that have no workflow or channel any more.
func TestRemovedBetweenIntentAndText(t *testing.T) {
	t.Parallel()
	at := func(name, channel string) string {
		return "workflow: " + name + "\ntype: notice\ntriggers: {id: t, event: signed-up}\naudience: {to: event.recipient}\nchannel: " + channel +
			"\nmessage: {inbox: {text: " + name + "}}\n---\n"
	}
	const channels = "channel: inbox\nprovider: inbox\n---\nchannel: inbox:second\nprovider: inbox\n"
	for name, test := range map[string]struct {
		next string // in force after the intents
		want []string
	}{
		"workflow": {at("stays", "inbox") + channels, []string{"moved cancelled workflow_inactive", "stays sent delivered"}},
		"channel":  {at("moved", "inbox") + at("stays", "inbox") + "channel: inbox\nprovider: inbox\n", []string{"moved scheduled no_channel", "stays sent delivered"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, s *store.Store) {
				var w world
				edited := false
				w = world{enginetest.Setup(t, s, "workspace: default\n---\n"+at("moved", "inbox:second")+at("stays", "inbox")+channels, func(c *engine.Config) {
					c.Failpoint = func(point string) error {
						if point != sender.AfterIntent || edited {
							return nil
						}
						edited = true
						files := []definition.File{{Name: "a.yaml", Text: []byte("workspace: default\n---\n" + test.next)}}
						applied, err := w.EditDefinitions(w.Context(), w.Workspace, engine.Edit{Files: files, Prune: true}, engine.Applier{Name: "ann", Secrets: true}, nil)
						if err != nil || definition.HasErrors(applied.Problems) {
							t.Error(applied.Problems, err)
						}
						_, err = w.Tick(w.Context()) // of another worker
						return err
					}
				})}
				w.postTo(w.Workspace, event("signed-up", "1", "p1@x.org"))
				if _, err := w.Tick(t.Context()); err != nil {
					t.Error(err)
				}
				w.exhaust()
				var got []string
				for _, row := range w.rows() {
					got = append(got, fmt.Sprintln(row.Workflow, row.Status, row.Reason))
				}
				slices.Sort(got)
				want := []string{test.want[0] + "\n", test.want[1] + "\n"}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}
