package store_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

func TestABacklogIsTakenUpFromWhereTheLastBatchEnded(t *testing.T) {
	t.Parallel()
	for _, database := range storetest.Databases(t) {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			url := storetest.URL(t, database)
			f, other := setup(t, storetest.Open(t, url)), setup(t, storetest.Open(t, url))
			names := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "k"}
			f.scheduled(len(names), func(i int, d *delivery.Row) { d.Key, d.SendAt = names[i], now.Add(-time.Hour) })
			overdue := func(f fixture, key string) {
				f.scheduled(1, func(_ int, d *delivery.Row) { d.Key, d.SendAt = key, now.Add(-2*time.Hour) })
			}
			later := now.Add(11 * time.Second) // late enough even if scans take long
			broken := errors.New("broken")
			steps := []struct {
				name string
				do   func()
				at   time.Time
				fail error
				want []string
			}{
				{name: "from the beginning", at: now, want: []string{"a", "b"}},
				{name: "past it", at: now, want: []string{"c", "d"}},
				{name: "what this process wrote before the cursor", do: func() { overdue(f, "ours") }, at: now, want: []string{"e", "ours"}},
				{name: "past it again", at: now, want: []string{"f", "g"}},
				{name: "a batch that fails", at: now, fail: broken},
				{name: "is read again", at: now, want: []string{"h", "i"}},
				{name: "what another process wrote there comes later", do: func() { overdue(other, "theirs") }, at: now, want: []string{"k"}},
				{name: "after the end the beginning", at: now, want: []string{"theirs"}},
				{name: "nothing is left", at: now},
				{
					name: "again a backlog", at: now, want: []string{"l", "m"},
					do: func() {
						f.scheduled(4, func(i int, d *delivery.Row) { d.Key, d.SendAt = string(rune('l'+i)), now.Add(-time.Hour) })
					},
				},
				{name: "and some seconds later its beginning", do: func() { overdue(other, "late") }, at: later, want: []string{"late", "n"}},
				{name: "the end", at: later, want: []string{"o"}},
				{
					name: "is a place too, and what another process has just committed is past it", at: later, want: []string{"fresh"},
					do: func() {
						overdue(other, "theirs again")
						other.scheduled(1, func(_ int, d *delivery.Row) { d.Key, d.SendAt = "fresh", later.Add(-50*time.Millisecond) })
					},
				},
				{name: "after it the beginning", at: later, want: []string{"theirs again"}},
				{name: "where nothing is left", at: later},
				{name: "what this process wrote before the end", do: func() { overdue(f, "ours again") }, at: later, want: []string{"ours again"}},
			}
			for _, step := range steps {
				if step.do != nil {
					step.do()
				}
				var got []string
				claims, err := claimDue(t.Context(), f.s, step.at, 2, func(*store.Tx, []delivery.Claim) (store.ClaimWrites, error) {
					return store.ClaimWrites{}, step.fail
				})
				f.mustBe(err, step.fail)
				for _, c := range claims {
					got = append(got, c.Key)
				}
				if diff := cmp.Diff(step.want, slices.Sorted(slices.Values(got))); diff != "" {
					t.Errorf("%s (-want +got)\n%s", step.name, diff)
				}
			}
		})
	}
}

// Scans from the beginning are rare if they take long, because dead entries cannot be removed. During the pause even a batch
// that finds nothing past the cursor does not scan from the beginning, and a row that becomes due before the cursor moves the
// cursor back to that row only.
func TestLongScansFromTheBeginningAreRare(t *testing.T) {
	t.Parallel()
	const slack = 100 * time.Millisecond
	for _, test := range []struct {
		took, rest time.Duration
	}{{0, time.Second}, {10 * time.Millisecond, time.Second}, {300 * time.Millisecond, 6 * time.Second}, {time.Minute, 10 * time.Second}} {
		var m store.Cursor
		m.Scanned(now, test.took)
		m.End(now)
		last, slow := now.Add(test.rest), test.took > time.Second
		for _, step := range []struct {
			name    string
			do      func()
			at      time.Time
			from    time.Time // zero: the beginning
			resting bool
		}{
			{name: "at once", at: now, from: now.Add(-slack), resting: slow},
			{name: "to the end", at: last, from: now.Add(-slack)},
			{
				name: "after what became due before it", do: func() { m.Due(now.Add(-time.Hour)) }, at: now.Add(time.Millisecond), resting: slow,
				from: map[bool]time.Time{true: now.Add(-time.Hour)}[slow],
			},
			{name: "past the rest", do: func() { m.End(now) }, at: last.Add(time.Microsecond)},
		} {
			if step.do != nil {
				step.do()
			}
			want := int64(0)
			if !step.from.IsZero() {
				want = step.from.UnixMicro()
			}
			if from, resting := m.Batch(step.at); from != want || resting != step.resting {
				t.Errorf("a look of %s, %s: from %d, resting %t; want %d, %t", test.took, step.name, from, resting, want, step.resting)
			}
		}
	}
}
