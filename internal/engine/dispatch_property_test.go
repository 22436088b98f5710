package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/service/answer"
	"github.com/carillonhq/carillon/internal/engine/stage/dispatch"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/outbox"
	"github.com/carillonhq/carillon/internal/sink"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

const toldToBoth = "  - {sink: a, events: [delivery.sent, response.completed]}\n  - {sink: b, events: [delivery.sent, response.completed]}\n"

// Whatever fails, whatever people do and whenever the process dies: once all sinks accept, each event that is not dead has reached each of its sinks, those
// of one delivery in their order, and never under a second message id.
//
// Shows: C34, C35, C37, C38.
func TestWhateverFailsEventsArrive(t *testing.T) {
	t.Parallel()
	enough := storetest.Lives(12)
	rapid.Check(t, func(r *rapid.T) {
		if enough() {
			return
		}
		die := ""
		w := asked{Bundle: enginetest.Setup(t, storetest.Memory(t), routed(toldToBoth), func(c *engine.Config) {
			c.Concurrency = rapid.SampledFrom([]int{0, 1, 2}).Draw(r, "concurrency")
			c.Failpoint = func(at string) error {
				if at == die {
					return errDied
				}
				return nil
			}
		})}
		var links []answer.Link
		seenDead, crashed := map[string]bool{}, false
		tick := func() {
			if _, err := w.Tick(w.Context()); err != nil && !errors.Is(err, errDied) {
				r.Fatal(err)
			}
			for _, e := range w.Journal() {
				if e.What == journal.Dead {
					seenDead[e.Sink+e.Key] = true
				}
			}
		}
		onward := func() bool {
			at := w.nextDue()
			if at.After(w.Now()) {
				w.Clock.Set(at)
			}
			return !at.IsZero()
		}
		name := func() string { return rapid.SampledFrom([]string{"a", "b"}).Draw(r, "sink") }
		r.Repeat(map[string]func(*rapid.T){
			"post": func(*rapid.T) {
				if len(links) > 5 {
					return
				}
				p := w.Post(visited(fmt.Sprint(len(links) + 1)))
				links = append(links, answer.Link{Workspace: w.Workspace.ID, Delivery: p.Instances[0].Deliveries[0].ID})
			},
			"answer": func(r *rapid.T) {
				if len(links) == 0 {
					return
				}
				l := rapid.SampledFrom(links).Draw(r, "of")
				_, err := w.Answers().Submit(w.Context(), l, answer.Submission{Answers: good}, w.Now(), nil)
				if err != nil && !errors.Is(err, answer.ErrAnswered) && !errors.Is(err, answer.ErrClosed) {
					r.Fatal(err)
				}
			},
			"fail": func(r *rapid.T) {
				w.Sinks.Answer(name(), rapid.SampledFrom([]error{
					nil, sink.Failed(errors.New("503")), sink.Lost(errors.New("cut")), sink.Refused(errors.New("400")), sink.NotWanted(errors.New("410")), errors.New("odd"),
				}).Draw(r, "with"))
			},
			"pause": func(r *rapid.T) {
				if _, _, err := w.Engine.Sinks().Pause(w.Context(), w.ref(name()), "ann", w.Now()); err != nil {
					r.Fatal(err)
				}
			},
			"enable": func(r *rapid.T) {
				if _, _, err := w.Engine.Sinks().Enable(w.Context(), w.ref(name()), "ann", w.Now()); err != nil {
					r.Fatal(err)
				}
			},
			"redrive": func(r *rapid.T) {
				if _, err := w.Engine.Sinks().RedriveAll(w.Context(), w.ref(name()), "ann", w.Now()); err != nil {
					r.Fatal(err)
				}
			},
			"edit": func(r *rapid.T) {
				tries := rapid.IntRange(2, 9).Draw(r, "attempts")
				w.Apply(strings.ReplaceAll(routed(toldToBoth), "{jitter: none}", fmt.Sprintf("{jitter: none, attempts: %d}", tries)))
			},
			"die": func(r *rapid.T) {
				die = rapid.SampledFrom([]string{dispatch.AfterClaim, dispatch.BeforeDone}).Draw(r, "at")
				crashed = crashed || die == dispatch.BeforeDone
				tick()
				die = ""
			},
			"tick": func(*rapid.T) { tick() },
			"wait": func(r *rapid.T) {
				if rapid.Bool().Draw(r, "until something is due") {
					onward()
				} else {
					w.Clock.Set(w.Now().Add(time.Duration(rapid.IntRange(0, 7200).Draw(r, "seconds")) * time.Second))
				}
				tick()
			},
		})
		for over := false; !over; {
			tick()
			over = !onward()
			for _, s := range []string{"a", "b"} {
				_, changed, err := w.Engine.Sinks().Enable(w.Context(), w.ref(s), "ann", w.Now())
				if err != nil {
					r.Fatal(err)
				}
				over = over && !changed
			}
		}
		events, err := w.Store.OutboxEvents(w.Context(), w.Workspace.ID, store.OutboxFilter{}, store.Page{Limit: 1000})
		if err != nil {
			r.Fatal(err)
		}
		slices.Reverse(events) // the oldest first
		ids := map[string]bool{}
		for _, e := range events {
			if ids[e.MessageID] {
				r.Fatalf("two events have the message id %s", e.MessageID)
			}
			ids[e.MessageID] = true
		}
		for _, s := range []string{"a", "b"} {
			first, times := map[string]int{}, map[string]int{}
			for i, m := range w.Sinks.Took(s) {
				if times[m.ID]++; times[m.ID] == 1 {
					first[m.ID] = i
				}
				if !ids[m.ID] {
					r.Fatalf("sink %s got the unknown message %s", s, m.ID)
				}
			}
			last := map[int64]int{}
			for _, e := range events {
				at, err := w.Store.Dispatches(w.Context(), w.Workspace.ID, []int64{e.ID})
				if err != nil {
					r.Fatal(err)
				}
				row := at[e.ID][slices.IndexFunc(at[e.ID], func(d outbox.Row) bool { return d.Sink == s })]
				if seenDead[s+e.MessageID] && row.Status == outbox.Dead {
					continue
				}
				if row.Status != outbox.Dispatched || times[e.MessageID] == 0 || times[e.MessageID] > 1 && !crashed {
					r.Fatalf("sink %s took %s %d times: %+v", s, e.MessageID, times[e.MessageID], row)
				}
				if seenDead[s+e.MessageID] {
					continue
				}
				if n, ok := last[e.Group()]; ok && first[e.MessageID] < n {
					r.Fatalf("sink %s: %s overtook another one", s, e.MessageID)
				}
				last[e.Group()] = first[e.MessageID]
			}
		}
	})
}
