package outbox

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/carillonhq/carillon/internal/reason"
)

var now = time.Date(2026, 5, 14, 5, 12, 34, 0, time.UTC)

// none is the draw of a test without jitter.
func none(uint64) uint64 { return 0 }

// most is the largest draw.
func most(limit uint64) uint64 { return limit - 1 }

// tried is a row in its nth try.
func tried(n int) Row {
	return Row{EventID: 7, Sink: "hook", Group: 1, Status: Pending, Attempts: n, AttemptNo: n, NextAt: now.Add(time.Minute)}
}

var (
	accepted  = Result{Outcome: Accepted}
	temporary = Result{Outcome: Temporary, Reason: reason.TemporaryError}
	lost      = Result{Outcome: Temporary, Reason: reason.ReplyLost}
	permanent = Result{Outcome: Permanent, Reason: reason.PermanentError}
	gone      = Result{Outcome: Gone, Reason: reason.Gone}
)

func asking(after time.Duration) Result {
	return Result{Outcome: Temporary, Reason: reason.TemporaryError, RetryAfter: after}
}

// Shows: C35, C38.
func TestDecide(t *testing.T) {
	t.Parallel()
	listed := Policy{Backoff: []time.Duration{10 * time.Second, time.Minute}}
	waits := func(n int, why reason.Reason, wait time.Duration) Patch {
		return Patch{Status: Pending, Attempts: n, AttemptNo: n, Reason: why, NextAt: now.Add(wait)}
	}
	dead := func(n int, why reason.Reason) Patch {
		return Patch{Status: Dead, Attempts: n, AttemptNo: n, Reason: why}
	}
	uncounted := func(n int) Patch { // the sink is disabled; the event waits for it
		return Patch{Status: Pending, Attempts: n - 1, AttemptNo: n, Reason: reason.Gone, NextAt: now}
	}
	redriven := tried(1)
	redriven.AttemptNo = 9
	over := func(s Status) Row {
		r := tried(3)
		r.Status, r.NextAt, r.Reason = s, time.Time{}, reason.RetriesUsedUp
		return r
	}
	tests := []struct {
		name   string
		row    Row
		policy Policy
		result Result
		draw   func(uint64) uint64
		want   Patch
	}{
		{"accepted", tried(1), Policy{}, accepted, none, Patch{Status: Dispatched, Attempts: 1, AttemptNo: 1, Reason: reason.Delivered}},
		{"accepted at last", tried(8), Policy{}, accepted, none, Patch{Status: Dispatched, Attempts: 8, AttemptNo: 8, Reason: reason.Delivered}},
		{"the first failure", tried(1), Policy{}, temporary, none, waits(1, reason.TemporaryError, 10*time.Second)},
		{"the second", tried(2), Policy{}, temporary, none, waits(2, reason.TemporaryError, 40*time.Second)},
		{"the sixth", tried(6), Policy{}, temporary, none, waits(6, reason.TemporaryError, 10240*time.Second)},
		{"the seventh", tried(7), Policy{}, temporary, none, waits(7, reason.TemporaryError, 40960*time.Second)},
		{"no wait is longer than 12 hours", tried(30), Policy{Attempts: 40}, temporary, none, waits(30, reason.TemporaryError, 12*time.Hour)},
		{"the eighth is the last", tried(8), Policy{}, temporary, none, dead(8, reason.RetriesUsedUp)},
		{"C38 attempts 1: dead after one", tried(1), Policy{Attempts: 1}, temporary, none, dead(1, reason.RetriesUsedUp)},
		{"a lost reply is tried again", tried(1), Policy{}, lost, none, waits(1, reason.ReplyLost, 10*time.Second)},
		{"the list of the definition", tried(2), listed, temporary, none, waits(2, reason.TemporaryError, time.Minute)},
		{"its last wait repeats", tried(5), listed, temporary, none, waits(5, reason.TemporaryError, time.Minute)},
		{"jitter of nothing", tried(1), Policy{Jitter: 20}, temporary, none, waits(1, reason.TemporaryError, 10*time.Second)},
		{"jitter at most", tried(1), Policy{Jitter: 20}, temporary, most, waits(1, reason.TemporaryError, 10*time.Second+1998*time.Millisecond)},
		{"a wish that is longer", tried(1), Policy{}, asking(time.Hour), none, waits(1, reason.TemporaryError, time.Hour)},
		{"a wish that is shorter", tried(3), Policy{}, asking(time.Second), none, waits(3, reason.TemporaryError, 160*time.Second)},
		{"a wish of more than a day", tried(1), Policy{}, asking(1000 * time.Hour), none, waits(1, reason.TemporaryError, 24*time.Hour)},
		{"a wish gives no further try", tried(8), Policy{}, asking(time.Hour), none, dead(8, reason.RetriesUsedUp)},
		{"rounded up to what is stored", tried(1), Policy{}, asking(time.Hour + time.Nanosecond), none, waits(1, reason.TemporaryError, time.Hour+time.Microsecond)},
		{"refused for good", tried(1), Policy{}, permanent, none, dead(1, reason.PermanentError)},
		{"gone: it waits for the sink", tried(1), Policy{}, gone, none, uncounted(1)},
		{"gone, and no try is left", tried(1), Policy{Attempts: 1}, gone, none, uncounted(1)},
		{
			"tries count from the redrive", redriven,
			Policy{},
			temporary, none,
			Patch{Status: Pending, Attempts: 1, AttemptNo: 9, Reason: reason.TemporaryError, NextAt: now.Add(10 * time.Second)},
		},
		{"a late result changes no dead row", over(Dead), Policy{}, accepted, none, over(Dead).same()},
		{"nor a dispatched one", over(Dispatched), Policy{}, permanent, none, over(Dispatched).same()},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, Decide(tt.row, tt.result, tt.policy, now, tt.draw)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestBegin(t *testing.T) {
	t.Parallel()
	fresh := Row{EventID: 7, Sink: "hook", Status: Pending}
	p, send := Begin(fresh, Policy{}, now, time.Minute)
	if want := (Patch{Status: Pending, Attempts: 1, AttemptNo: 1, NextAt: now.Add(time.Minute)}); !send || p != want {
		t.Errorf("got %+v, %t, want %+v", p, send, want)
	}
	// The process of the last try died before it wrote a result.
	p, send = Begin(tried(8), Policy{}, now, time.Minute)
	if want := (Patch{Status: Dead, Attempts: 8, AttemptNo: 8, Reason: reason.WorkerLost}); send || p != want {
		t.Errorf("got %+v, %t, want %+v", p, send, want)
	}
	for _, s := range []Status{Dispatched, Dead} {
		row := tried(1)
		row.Status = s
		if p, send := Begin(row, Policy{}, now, time.Minute); send || p != row.same() {
			t.Errorf("%s: got %+v, %t", s, p, send)
		}
	}
	for name, behind := range map[string]struct{ at, want time.Time }{
		"behind one that waits":  {now.Add(time.Hour), now.Add(time.Hour + time.Microsecond)},
		"behind one that is due": {now, now.Add(time.Minute + time.Microsecond)},
	} {
		row := tried(0)
		row.Behind = behind.at
		if p, send := Begin(row, Policy{}, now, time.Minute); send || p != (Patch{Status: Pending, NextAt: behind.want}) {
			t.Errorf("%s: got %+v, %t", name, p, send)
		}
	}
}

func TestWithoutSink(t *testing.T) {
	t.Parallel()
	with := func(r Row, change func(*Row)) Row { change(&r); return r }
	dead := func(n, no int) Patch { return Patch{Status: Dead, Attempts: n, AttemptNo: no, Reason: reason.NoSink} }
	dispatched := with(tried(1), func(r *Row) { r.Status, r.NextAt, r.Reason = Dispatched, time.Time{}, reason.Delivered })
	usedUp := with(tried(8), func(r *Row) { r.Status, r.NextAt, r.Reason = Dead, time.Time{}, reason.RetriesUsedUp })
	tests := []struct {
		name string
		row  Row
		want Patch
	}{
		{"never tried", tried(0), dead(0, 0)},
		{"its tries stay counted", with(tried(3), func(r *Row) { r.Reason = reason.TemporaryError }), dead(3, 3)},
		{"also those before a redrive", with(tried(2), func(r *Row) { r.AttemptNo = 9 }), dead(2, 9)},
		{"one whose tries are used up", tried(8), dead(8, 8)},
		{"behind another one", with(tried(0), func(r *Row) { r.Behind = now.Add(time.Hour) }), dead(0, 0)},
		{"a dispatched one stays as it is", dispatched, dispatched.same()},
		{"a dead one stays as it is", usedUp, usedUp.same()},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, WithoutSink(tt.row)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Shows: C38.
func TestRedrive(t *testing.T) {
	t.Parallel()
	row := tried(8)
	row.Status, row.NextAt, row.Reason = Dead, time.Time{}, reason.RetriesUsedUp
	p, ok := Redrive(row, now)
	if want := (Patch{Status: Pending, AttemptNo: 8, NextAt: now, Reason: reason.RetryByOperator}); !ok || p != want {
		t.Errorf("got %+v, %t, want %+v", p, ok, want)
	}
	for _, s := range []Status{Pending, Dispatched} {
		row.Status = s
		if p, ok := Redrive(row, now); ok || p != row.same() {
			t.Errorf("%s: got %+v, %t", s, p, ok)
		}
	}
}

func anyResult() *rapid.Generator[Result] {
	return rapid.Custom(func(t *rapid.T) Result {
		return Result{
			Outcome:    rapid.SampledFrom([]Outcome{Accepted, Temporary, Temporary, Temporary, Permanent, Gone}).Draw(t, "outcome"),
			Reason:     reason.TemporaryError,
			RetryAfter: time.Duration(rapid.Int64Range(0, int64(48*time.Hour)).Draw(t, "retry after")),
		}
	})
}

// Whatever happens to a row: its tries are bounded, no try begins before its wait and the sink's wish are over, and only a redrive changes a
// row that is dead or dispatched.
func TestTries(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		policy := Policy{
			Attempts: rapid.IntRange(0, 10).Draw(t, "attempts"), Jitter: rapid.IntRange(0, 100).Draw(t, "jitter"),
			Backoff: rapid.SliceOfN(rapid.Map(rapid.Int64Range(1, int64(time.Hour)), func(n int64) time.Duration { return time.Duration(n) }), 0, 4).Draw(t, "backoff"),
		}
		draw := func(limit uint64) uint64 { return rapid.Uint64Range(0, limit-1).Draw(t, "jitter draw") }
		bound := policy.Attempts
		if bound == 0 {
			bound = 8
		}
		row, at, tries, noted := Row{EventID: 1, Sink: "hook", Status: Pending}, now, 0, Row{}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			over := row.Status != Pending
			switch step := rapid.SampledFrom([]string{"try", "try", "try", "crash", "late", "redrive"}).Draw(t, "step"); step {
			case "try", "crash":
				at = at.Add(time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "later")))
				if row.NextAt.After(at) {
					at = row.NextAt
				}
				p, send := Begin(row, policy, at, time.Minute)
				if over && (send || p != row.same()) {
					t.Fatalf("a %s row began a try: %+v", row.Status, p)
				}
				if row = row.With(p); !send {
					continue
				}
				if tries++; tries > bound {
					t.Fatalf("try %d of %d", tries, bound)
				}
				if noted = row; step == "crash" {
					continue
				}
				result := anyResult().Draw(t, "result")
				row = row.With(Decide(row, result, policy, at, draw))
				if result.Outcome == Gone {
					tries--
				}
				if row.Status != Pending {
					if !row.NextAt.IsZero() {
						t.Fatalf("%s, and due at %s", row.Status, row.NextAt)
					}
					continue
				}
				wish := min(result.RetryAfter, MaxRetryAfter)
				if result.Outcome == Temporary && row.NextAt.Before(at.Add(wish)) {
					t.Fatalf("due %s after the failure, asked for %s", row.NextAt.Sub(at), wish)
				}
				if len(policy.Backoff) > 0 && result.Outcome == Temporary && row.NextAt.Before(at.Add(policy.Backoff[min(row.Attempts, len(policy.Backoff))-1])) {
					t.Fatalf("due %s after the failure", row.NextAt.Sub(at))
				}
			case "late":
				result := anyResult().Draw(t, "late result")
				p := Decide(row, result, policy, at, draw)
				if over && p != row.same() {
					t.Fatalf("a late result changed a %s row: %+v", row.Status, p)
				}
				if noted.AttemptNo == row.AttemptNo && noted.Attempts > 0 {
					if result.Outcome == Gone && !over && row.Attempts > 0 {
						tries--
					}
					row = row.With(p)
				}
			case "redrive":
				p, ok := Redrive(row, at)
				if ok != (row.Status == Dead) {
					t.Fatalf("redrive of a %s row: %t", row.Status, ok)
				}
				if ok {
					tries = 0
				}
				row = row.With(p)
			}
		}
	})
}

// Each wait of the default is at least the one before, and all of them last a night.
func TestDefaultWaits(t *testing.T) {
	t.Parallel()
	var all, before time.Duration
	for n := 1; n < DefaultAttempts; n++ {
		wait := Policy{}.wait(n, none)
		if wait < before {
			t.Errorf("wait %d is %s after %s", n, wait, before)
		}
		before, all = wait, all+wait
	}
	if all < 15*time.Hour || all > 16*time.Hour {
		t.Errorf("the last try begins after %s", all)
	}
	if got := (Policy{}).wait(1<<40, none); got != longestWait {
		t.Errorf("after very many tries: %s", got)
	}
}
