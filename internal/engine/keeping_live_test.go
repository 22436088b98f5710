package engine_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/digest"
	"github.com/carillonhq/carillon/internal/engine/service/bulk"
	"github.com/carillonhq/carillon/internal/engine/service/topics"
	"github.com/carillonhq/carillon/internal/engine/stage/retention"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/topic"
)

// ofWorkspace is a store with one workspace, which counts what is deleted.
type ofWorkspace struct {
	*store.Store

	one     store.Workspace
	deleted store.Retained
}

func (o *ofWorkspace) Retain(ctx context.Context, ws subject.WorkspaceID, now time.Time, before store.Cutoffs, c *store.RetainCursor, limit int) (store.Retained, bool, error) {
	deleted, done, err := o.Store.Retain(ctx, ws, now, before, c, limit)
	o.deleted.Add(deleted)
	return deleted, done, err
}

func (o *ofWorkspace) Workspaces(context.Context) ([]store.Workspace, error) {
	return []store.Workspace{o.one}, nil
}

// What is over is deleted after an hour while people change what they follow, runs change the subscriptions of all, and items arrive: nothing that still has
// to be sent is deleted, and nothing is sent twice because what was sent is forgotten.
//
// Shows: R22.
func TestKeepingLive(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		keep := retention.Keep{Occasions: time.Hour, Digests: time.Hour, Messages: time.Hour, Subscriptions: time.Hour, Addresses: time.Hour, Topics: time.Hour}
		one, two := newWorld(t, s, ""), newWorld(t, s, "")
		two.Provider = one.Provider
		only := &ofWorkspace{Store: s}
		reach := retention.Reach{Window: digest.Reach(civil.Duration{})}
		for _, trigger := range []string{"daily", "rare"} {
			reach.Digests = append(reach.Digests, store.RunTrigger{Workflow: "news", Trigger: trigger})
		}
		lives, enough := 0, storetest.MoreLives(24)
		tried := func() bool {
			return only.deleted.Subscriptions > 0 && only.deleted.Instances+only.deleted.Deliveries > 0
		}
		rapid.Check(t, func(r *rapid.T) {
			if enough() && tried() { // a few lives more where chance withheld one
				return
			}
			lives++
			start := at("10:00")
			one.Clock.Set(start)
			one.Workspace = one.another(fmt.Sprintf("keeping-%d", lives), digestsOfTopics, "ann", "bob")
			two.Workspace = one.Workspace
			only.one = one.Workspace
			for i := range reach.Digests {
				reach.Digests[i].Workspace = one.Workspace.ID
			}
			stage := retention.New(only, func(context.Context, subject.WorkspaceID) (retention.Reach, error) { return reach, nil }, keep, slog.New(slog.DiscardHandler))
			turn := []world{one, two}
			sweep := func() {
				for more := true; more; {
					var err error
					if more, err = stage.Step(t.Context(), one.Clock.Now(), 50); err != nil {
						r.Fatal(err)
					}
				}
			}
			digestLife{
				one: one, start: start, runs: true, at: func(now time.Time) { one.Clock.Set(now); two.Clock.Set(now) },
				tick: func() bool {
					did := turn[0].tick() || turn[1].tick()
					slices.Reverse(turn)
					return did
				},
				keeps: sweep,
			}.live(r)
			one.Clock.Set(one.Clock.Now().AddDate(0, 0, 40))
			sweep()
		})
		t.Logf("%d lives; deleted: %+v", lives, only.deleted)
		if !tried() {
			t.Error("nothing was deleted in any life")
		}
	})
}

// A subscription that a run has ended stays while a digest may have what was published before, and so does the address of who had it.
//
// Shows: R22.
func TestWhatARunEndedIsKept(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := keeping(t, s, digestsOfTopics, retention.Keep{Subscriptions: time.Hour, Addresses: time.Hour})
		if _, err := w.Topics().Subscribe(t.Context(), w.Workspace, []topics.Request{{Address: "ann@example.org", Topic: "tax", Frequency: "rare"}}, topic.SourceAPI, w.Clock.Now(), nil); err != nil {
			t.Fatal(err)
		}
		w.until(dayAt(0, "19:00"))
		w.publish(tagged("1", "tax"))
		w.until(dayAt(0, "19:10"))
		w.begin(bulk.Request{Bulk: topic.Bulk{Action: topic.ActUnsubscribe, Topics: []string{"tax"}}})
		w.until(dayAt(1, "19:00"))
		w.sweep()
		w.until(dayAt(2, "20:00"))
		w.mustBe("what was published before", w.told(), []string{"ann@example.org rare tax:1,"})
		w.Clock.Set(dayAt(40, "12:00"))
		w.sweep()
		if list, err := w.Store.Subscriptions(t.Context(), w.Workspace.ID, store.SubscriptionFilter{Ended: true, Limit: 9}); err != nil || len(list) > 0 {
			t.Errorf("forty days later: %+v, %v", list, err)
		}
	})
}

// What a message brought stays covered when the message is deleted, also for a subscription that a run has ended.
//
// Shows: R22.
func TestWhatARunEndedStaysCovered(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := keeping(t, s, digestsOfTopics, retention.Keep{Messages: time.Hour}, "ann")
		w.subscribe("ann", "tax", "rare")
		w.until(dayAt(0, "21:00"))
		w.publish(`{"id": "1", "urgent": true, "tags": {"policy": "tax"}}`)
		w.publish(tagged("2", "tax"))
		w.mustBe("at once", w.told(), []string{"ann urgent 1"})
		w.until(dayAt(0, "21:10"))
		w.begin(bulk.Request{Bulk: topic.Bulk{Action: topic.ActUnsubscribe, Topics: []string{"tax"}}})
		w.until(dayAt(1, "21:00"))
		w.sweep()
		if left, err := w.Store.Deliveries(t.Context(), w.Workspace.ID, store.DeliveryFilter{}, store.Page{Limit: 9}); err != nil || len(left) > 0 {
			t.Fatalf("%+v, %v", left, err)
		}
		w.until(dayAt(2, "20:00"))
		w.mustBe("the digest", w.told(), []string{"ann rare tax:2,"})
	})
}
