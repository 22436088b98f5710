package fanout

import (
	"maps"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/admission"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/digest"
	"github.com/carillonhq/carillon/internal/engine/plumbing/digests"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/topic"
)

// matchedAgain is how long a run waits for the topics of items that arrived before the end of its window.
const matchedAgain = time.Second

// digestOf is what a digest tells the people of a page; only they get a message.
type digestOf struct {
	window  digest.Window // the items that it tells
	run     store.DigestRun
	answers map[subject.ContactID]digests.Answer
	names   map[subject.TopicID]string // of topics with messages of their own
	waits   bool                       // for the topics of items
	one     bool                       // it is the rest of one person
	rest    digests.Rest               // one person and one topic that it is about; none: it is about all
	again   bool                       // with what people are covered for
}

// readDigests reads what runs of digests have to tell the people who were read.
func (r *run) readDigests(tx *store.Tx, list []due, people [][]store.People) error {
	var runs []digests.Asked
	var of []int
	for i := range people {
		p, in := &r.planned[i], list[i]
		if p.err != nil || p.over != nil || p.lease > 0 || p.trigger == nil || p.trigger.Digest == nil {
			continue
		}
		ev := in.EventRow.Event
		if p.event != nil {
			ev = p.event.Event
		}
		p.digest = r.digestOf(in, p.trigger, ev)
		p.digest.rest, p.digest.one = digests.RestOf(ev)
		runs, of = append(runs, digests.Asked{
			RunTrigger: store.RunTrigger{Workspace: in.Workspace, Workflow: in.Workflow, Trigger: p.trigger.ID},
			Period:     p.digest.window, ForAll: p.digest.again, Rules: *p.trigger.Digest,
		}), append(of, i)
	}
	if len(of) == 0 {
		return nil
	}
	windows, err := digests.Windows(tx, runs)
	if err != nil {
		return err
	}
	for k, i := range of {
		d := r.planned[i].digest
		d.window = windows[k]
		if err := r.readDigest(tx, r.planned[i], list[i], people[i][0]); err != nil {
			return err
		}
	}
	return nil
}

// digestOf returns the digest of an occasion, by the event that says what is due.
func (r *run) digestOf(in due, t *definition.Trigger, ev subject.Event) *digestOf {
	fields, _, _ := plan.CalendarFields(ev)
	period, ok := digests.PeriodOf(fields)
	if !ok { // of a definition that had no period, from before an edit
		period = digest.Window{From: in.DueAt, End: in.DueAt}
	}
	return &digestOf{window: period, again: digests.ForAll(ev), run: store.DigestRun{
		Workspace: in.Workspace, Instance: in.ID, Workflow: in.Workflow, Trigger: t.ID, Window: period, BegunAt: r.now,
	}}
}

// missed notes a run that is not made, because it is too late or a later one is due. If it is the first of its trigger, its window is the first one.
func (r *run) missed(p *planned, in due, t *definition.Trigger, payload map[string]any) {
	if t.Digest != nil {
		p.digest = r.digestOf(in, t, subject.Event{Kind: subject.CalendarDue, Payload: payload})
		p.digest.run.ExpandedAt, p.digest.run.OverAt = r.now, r.now
	}
}

func (r *run) readDigest(tx *store.Tx, p planned, in due, people store.People) (err error) {
	d := p.digest
	if d.waits, err = tx.Unmatched(in.Workspace, d.window.End); err != nil || d.waits {
		return err
	}
	asked := make([]digests.Question, 0, len(people.Members))
	for _, person := range people.Members {
		served := topic.Served(people.Subscriptions[person.ID], p.audience.Topics, people.Topics, d.rest.Topic)
		if len(served) > 0 {
			asked = append(asked, digests.Question{Contact: person.ID, Subscriptions: served, Window: d.window, Rules: *p.trigger.Digest, Again: d.again})
		}
	}
	answers, err := digests.Read(tx, in.Workspace, p.live, asked, nil)
	if err != nil {
		return err
	}
	d.answers = make(map[subject.ContactID]digests.Answer, len(answers))
	topics := map[subject.TopicID]bool{}
	for i, a := range answers {
		d.answers[asked[i].Contact] = a
		for _, id := range a.Contents.Topics() {
			topics[id] = true
		}
	}
	if p.trigger.Digest.Bundle != digest.BundleSubscription && !d.one {
		return nil
	}
	rows, err := tx.TopicsByID(in.Workspace, slices.Sorted(maps.Keys(topics)))
	d.names = make(map[subject.TopicID]string, len(rows))
	for id, row := range rows {
		d.names[id] = row.Name
	}
	return err
}

// messages returns the messages of a person: one, or one for each topic. None: the digest has nothing new for them.
func (d *digestOf) messages(one chosen) []chosen {
	switch contents := d.answers[one.Person.ID].Contents; {
	case contents.Empty():
		return nil
	case d.names == nil:
		return []chosen{one}
	default:
		each := make([]chosen, len(contents.Sections))
		for i, s := range contents.Sections {
			each[i], each[i].topic = one, admission.About{Topic: s.Topic, Name: d.names[s.Topic]}
		}
		return each
	}
}

// digestWrites are what the runs of a step write besides their instances.
func (r *run) digestWrites(tx *store.Tx, patches []store.InstancePatch) error {
	var runs []store.DigestRun
	var covered []store.CoveredRow
	for i, patch := range patches {
		d := r.planned[i].digest
		missed := d != nil && !d.run.OverAt.IsZero()
		if d == nil || d.waits || r.planned[i].err != nil || patch.Row.Event == 0 && patch.Patch.Event == 0 && !missed {
			continue
		}
		if patch.Patch.Status == instance.Completed {
			d.run.ExpandedAt = r.now
		}
		if !d.one {
			runs = append(runs, d.run)
		}
		for _, contact := range slices.Sorted(maps.Keys(d.answers)) {
			for _, c := range d.answers[contact].Passed {
				covered = append(covered, store.CoveredRow{Workspace: patch.Row.Workspace, Contact: contact, Covered: c})
			}
		}
	}
	if len(runs)+len(covered) == 0 {
		return nil
	}
	if err := tx.WriteDigestRuns(runs); err != nil {
		return err
	}
	return tx.MoveCovered(covered)
}
