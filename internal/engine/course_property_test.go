package engine_test

import (
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/engine/stage/fanout"
	"github.com/carillonhq/carillon/internal/engine/stage/sender"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// courseLife is an engine with one record that has a course, and the model of it.
type courseLife struct {
	world
	n        *naiveCourse
	t        *rapid.T
	outer    *testing.T
	database string
	url      string
	db       *sql.DB // beside the engine
	provider *enginetest.Provider
	dies     string // where the process dies the next time that it works; empty: it lives
	deaths   int

	copied  *naiveCourse // the model as it was when the database was copied; nil: there is no copy
	changed bool         // since then something else than time has changed the original
	copies  int
	twice   []string // what the original has sent since then, while nothing else has changed the copy
}

// Where a process dies. Beside the failpoints it dies within a transaction, as a statement of it fails.
const (
	diesMaking     = "INSERT ON instance"
	diesSending    = "INSERT ON delivery"
	diesEvaluating = "UPDATE ON record"
)

// start begins the life of a process, which knows nothing but the database. Nothing is put in force if there are no definitions.
func (l *courseLife) start(url, definitions string, now time.Time) {
	if url != l.url {
		l.url, l.db = url, behind(l.outer, l.database, url)
		l.world = world{&enginetest.Bundle{Store: storetest.Open(l.outer, url)}}
	}
	l.world = world{enginetest.Setup(l.outer, l.Store, definitions, func(c *engine.Config) {
		c.Failpoint = func(point string) error {
			if point == l.dies {
				return errDied
			}
			return nil
		}
	})}
	if l.provider == nil {
		l.provider = l.world.Provider
	}
	l.world.Provider = l.provider // its log is that of the whole life
	l.Clock.Set(now)
	l.must(l.Store.Recognise(l.Context(), now))
}

// work runs every stage once. A process that dies is followed by another one.
func (l *courseLife) work() (any bool) {
	l.Helper()
	if statement, timing, within := strings.Cut(l.dies, " "); within {
		l.must(l.db.ExecContext(l.Context(), fmt.Sprintf("CREATE TRIGGER dies BEFORE %s %s BEGIN SELECT RAISE(ABORT, 'it dies'); END", statement, timing)))
		defer func() { l.must(l.db.ExecContext(l.Context(), "DROP TRIGGER IF EXISTS dies")) }()
	}
	r, err := l.Tick(l.Context())
	switch {
	case err == nil:
		return r.Any()
	case l.dies == "" || !errors.Is(err, errDied) && !strings.Contains(err.Error(), "it dies"):
		l.t.Fatal(err)
	}
	l.dies = ""
	l.deaths++
	l.start(l.url, "", l.Clock.Now())
	return true
}

func (l *courseLife) must(_ any, err error) {
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *courseLife) settle() {
	for l.work() {
	}
}

// until lives through the time up to an end.
func (l *courseLife) until(end time.Time) {
	for range 10_000 {
		l.settle()
		next, err := l.NextDue(l.Context())
		if l.must(nil, err); next.IsZero() || next.After(end) {
			l.Clock.Set(end)
			return
		}
		l.Clock.Set(next)
	}
	l.t.Fatal("there is no end to it")
}

// survive gives the process that follows a dead one the time to take over what the dead one was sending.
func (l *courseLife) survive(before int) {
	if l.dies = ""; l.deaths == before {
		return
	}
	now := l.Clock.Now()
	end := now.Add(time.Minute)
	l.until(end)
	l.n.live(now, end)
}

func (l *courseLife) move() {
	if l.n.person {
		l.person("p", fmt.Sprintf(`"persona": "Manager", "timezone": %q`, l.n.loc))
	} else {
		l.person("p", `"persona": "Manager"`)
	}
}

// put writes the record, and has it evaluated.
func (l *courseLife) put() {
	until := "null"
	if l.n.until > 0 {
		until = `"` + ten.AddDate(0, 0, l.n.until).Format("2006-01-02") + `"`
	}
	l.world.put("patient/p", fmt.Sprintf(`{"is_on": %v, "begins": %q, "visit": %d, "ends": %s, "broken": %v}`, l.n.on, l.n.from.In(l.n.loc).Format("2006-01-02"), l.n.visit, until, l.n.broken))
	l.settle()
	l.n.look(l.Clock.Now())
	l.n.take(l.Clock.Now())
}

func (l *courseLife) zone() *time.Location {
	loc, err := time.LoadLocation(rapid.SampledFrom([]string{"UTC", "Asia/Kolkata", "Pacific/Honolulu"}).Draw(l.t, "zone"))
	l.must(nil, err)
	return loc
}

// act makes one random change.
func (l *courseLife) act(what string) {
	now, n := l.Clock.Now(), l.n
	switch what {
	case "edit", "list":
		if what == "list" {
			n.list(l.t)
		} else {
			n.rule(l.t)
		}
		l.Apply(n.yaml())
		l.settle()
		n.look(now)
		n.take(now)
	case "move":
		if n.person {
			n.move(l.zone())
			l.move()
		}
		l.put()
	case "reset":
		n.visit++
		l.put()
	case "date":
		n.from = ten.AddDate(0, 0, rapid.IntRange(-3, 12).Draw(l.t, "date"))
		l.put()
	case "until":
		n.until = rapid.IntRange(0, 20).Draw(l.t, "until")
		l.put()
	case "switch":
		n.on = !n.on
		l.put()
	case "close":
		n.closed = !n.closed
		l.world.put("patient/p", `{}`)
		l.closed("patient/p", n.closed)
		l.put()
	case "unrelated":
		l.put()
	case "break": // or mend it
		if !n.person { // an audience that a zone follows has nothing that can break
			n.broken = !n.broken
		}
		l.put()
	case "pause": // or an end of it
		if n.paused.IsZero() {
			n.paused = now
			l.must(l.Operator().Pause(l.Context(), l.Workspace.ID, "w", "why", "test", now))
			return
		}
		l.must(l.Operator().Resume(l.Context(), l.Workspace.ID, "w", "test", now))
		l.settle()
		n.resume(now)
	case "restart": // a process goes on that has none of this one's memory
		l.start(l.url, "", now)
	case "cancel":
		if row, ok := l.row(n.waits); ok {
			l.must(l.Operator().CancelInstance(l.Context(), l.Workspace.ID, row.ID, "test", now))
			n.end(n.waits)
			n.next(n.due.Add(time.Microsecond))
		}
	case "held":
		l.decide(now)
	case "again":
		l.again(now)
	}
}

// decide has a person decide about a message that is on hold. What else the course has waits as before.
func (l *courseLife) decide(now time.Time) {
	n := l.n
	if len(n.held) == 0 || !n.paused.IsZero() {
		return
	}
	k := rapid.SampledFrom(slices.Sorted(maps.Keys(n.held))).Draw(l.t, "key")
	row, ok := l.row(k)
	if !ok {
		l.t.Fatalf("%s is not there", k)
	}
	switch rapid.SampledFrom([]string{"release", "retry", "cancel"}).Draw(l.t, "decision") {
	case "release":
		l.must(l.Operator().Release(l.Context(), l.Workspace.ID, row.ID, "test", now))
		l.settle()
		n.deliver(k, n.held[k], now)
	case "retry":
		l.must(l.Operator().RetryInstance(l.Context(), l.Workspace.ID, row.ID, "test", now))
		l.settle()
		n.deliver(k, n.held[k], now)
	case "cancel":
		l.must(l.Operator().CancelInstance(l.Context(), l.Workspace.ID, row.ID, "test", now))
		n.end(k)
		delete(n.held, k)
	}
}

// again has a person send a message again. The course goes on beside it.
func (l *courseLife) again(now time.Time) {
	n := l.n
	var keys []string
	for _, m := range n.all() {
		again := func(line string) bool { return strings.HasPrefix(line, m.key+":retry:") }
		if n.runs() && slices.ContainsFunc(n.sent, func(line string) bool { return strings.HasPrefix(line, m.key+" ") }) && !slices.ContainsFunc(n.sent, again) {
			keys = append(keys, m.key)
		}
	}
	if len(keys) == 0 || !n.paused.IsZero() || n.broken || !now.After(n.givenUp) { // what is due by the instant of a copy's acceptance is given up
		return
	}
	k := rapid.SampledFrom(keys).Draw(l.t, "key")
	row, ok := l.row(k)
	if !ok {
		l.t.Fatalf("%s is not there", k)
	}
	l.must(l.Operator().RetryInstance(l.Context(), l.Workspace.ID, row.ID, "test", now))
	l.settle()
	n.sent = append(n.sent, k+":retry:1 "+now.UTC().Format("01-02 15:04")+" "+n.place(k))
}

// copy copies the database, or goes on with the copy: a person accepts it, and gives up what the original may have sent.
func (l *courseLife) copy() {
	now, n := l.Clock.Now(), l.n
	path := filepath.Join(filepath.Dir(l.url), fmt.Sprintf("copy%d.db", l.copies))
	if l.copied == nil {
		l.must(nil, store.Backup(l.Context(), l.url, path))
		l.copied, l.changed = n.clone(), false
		return
	}
	if l.twice = nil; !l.changed { // else an edit of the original may have sent earlier what the copy sends later
		l.twice = n.sent[len(l.copied.sent):]
	}
	l.copies++
	l.n, l.copied = l.copied, nil
	l.start(path, "", now)
	if !l.Store.Restored() {
		l.t.Fatal("the copy is not recognised")
	}
	l.must(nil, l.Store.AcceptRestore(l.Context(), now, true, store.Audit{At: now, Actor: "ann", Action: "database.accept"}))
	if c, err := l.Store.Recognise(l.Context(), now); err != nil || c.Restored() {
		l.t.Fatal(c, err)
	}
	l.n.givenUp = now
	l.settle()
	l.n.take(now)
}

// row returns the row of a message.
func (l *courseLife) row(k string) (instance.Row, bool) {
	l.Helper()
	row, err := l.Store.InstanceByKey(l.Context(), l.Workspace.ID, "reminder:w:patient:p:t:"+k)
	if k == "" || errors.Is(err, store.ErrNotFound) {
		return row, false
	}
	l.must(nil, err)
	return row, true
}

// A course in the life of a record: its date moves, its visit changes, it is closed and opened, its condition comes and goes, its person
// moves to another zone, somebody cancels what waits, messages are put on hold and released, and sent again, the definitions are edited, the
// workflow is paused, the process is down, dies, also within a transaction, and another one goes on, and a copy of the database takes the
// place of the original. At every moment exactly the message waits that the rule implies, and no message goes twice.
//
// Shows: D16, D20, D21, D22, R2, R3, R10, R13, R14.
func TestCoursesLive(t *testing.T) {
	t.Parallel()
	storetest.NotUnderRace(t, "one goroutine and a store of one process")
	enough := storetest.Lives(40)
	rapid.Check(t, func(r *rapid.T) {
		if enough() {
			return
		}
		l := &courseLife{t: r, outer: t, database: "sqlite"}
		if list := storetest.Databases(t); !slices.Contains(list, l.database) { // then there is no copy of a file, and no death within a transaction
			l.database = list[0]
		}
		n := &naiveCourse{
			from: ten, ended: map[string]bool{}, had: map[string]string{}, held: map[string]time.Time{}, on: true,
			dated: rapid.Bool().Draw(r, "dated"), person: rapid.Bool().Draw(r, "person"),
		}
		l.n, n.loc = n, l.zone()
		n.rule(r)
		l.start(storetest.URL(t, l.database), n.yaml(), ten)
		l.move()
		l.put()
		r.Logf("%s\n%s", ten, n.yaml())
		for range rapid.IntRange(5, 25).Draw(r, "steps") {
			now, deaths := l.Clock.Now(), l.deaths
			what := rapid.SampledFrom([]string{
				"wait", "wait", "wait", "down", "edit", "list", "list", "move", "move", "reset", "date", "until", "switch", "close", "cancel", "unrelated", "pause", "pause", "pause",
				"restart", "break", "break", "held", "held", "again", "copy",
			}).Draw(r, "what")
			l.dies = rapid.SampledFrom([]string{
				"", "", "", "", "", "", "", "", sender.BeforeIntent, sender.AfterIntent, sender.BeforeResult, fanout.AfterChunk, diesMaking, diesMaking, diesSending, diesEvaluating,
			}).Draw(r, "dies")
			if l.database != "sqlite" && (what == "copy" || strings.Contains(l.dies, " ")) {
				what, l.dies = "wait", ""
			}
			r.Logf("%s %s %s", now, what, l.dies)
			end := now
			if what == "wait" || what == "down" {
				end = now.Add(time.Duration(rapid.IntRange(1, 120).Draw(r, "hours")) * time.Hour)
			}
			switch {
			case what == "wait":
				l.until(end)
				l.n.live(now, end)
			case what == "down":
				if l.dies != "" { // what is late by exactly as much as is allowed would be too late for the next process
					end = end.Add(time.Minute)
				}
				l.Clock.Set(end)
			case what == "copy":
				l.copy()
			default:
				l.act(what)
				l.changed, l.twice = true, nil
			}
			l.settle()
			l.n.take(l.Clock.Now())
			l.survive(deaths)
			compare(r, l.world, l.n)
			for _, line := range l.twice {
				k, _, _ := strings.Cut(line, " ")
				if slices.ContainsFunc(l.n.sent, func(line string) bool { return strings.HasPrefix(line, k+" ") }) {
					r.Fatalf("%s was sent by the original, and by its copy", k)
				}
			}
		}
	})
}

func (w world) closed(name string, closed bool) {
	w.Helper()
	w.write(upsert.Merge, name, fmt.Sprintf(`{"closed": %v}`, closed))
}

func compare(t *rapid.T, w world, n *naiveCourse) {
	pending, err := w.Store.Instances(w.Context(), w.Workspace.ID, store.InstanceFilter{Status: instance.Pending}, store.Page{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for _, row := range pending {
		line := strings.TrimPrefix(row.Key, "reminder:w:patient:p:t:") + " " + row.DueAt.Format(time.RFC3339)
		if row.Held() && !row.Parked() {
			line += " held"
		}
		got = append(got, line)
	}
	if n.waits != "" {
		want = append(want, n.waits+" "+n.due.Format(time.RFC3339))
	}
	for k, due := range n.held {
		want = append(want, k+" "+due.UTC().Format(time.RFC3339)+" held")
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Fatalf("at %s wait\n%q, expected\n%q", w.Clock.Now(), got, want)
	}
	var sent []string
	rows, err := w.Store.Deliveries(w.Context(), w.Workspace.ID, store.DeliveryFilter{}, store.Page{Limit: 500})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range rows {
		if d.LastSentAt.IsZero() {
			continue // given up
		}
		k, _, _ := strings.Cut(strings.TrimPrefix(d.Key, "reminder:w:patient:p:t:"), "|")
		sent = append(sent, k+" "+d.LastSentAt.Format("01-02 15:04")+" "+fmt.Sprint(d.Message))
	}
	slices.Sort(sent)
	expected := slices.Sorted(slices.Values(n.sent))
	if !slices.Equal(sent, expected) {
		t.Fatalf("at %s were sent\n%v, expected\n%v", w.Clock.Now(), sent, expected)
	}
}
