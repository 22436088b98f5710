package api_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/app"
	"github.com/carillonhq/carillon/internal/store"
)

// A key is refused from its end on, to the second, and says so.
func TestExpiredKey(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bundle) {
		key, err := app.CreateKeyUntil(t.Context(), b.app.Store(), b.app.Workspace(), "short", []string{"read"}, start, start.Add(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		for _, tc := range []struct {
			after  time.Duration
			status int
			says   string
		}{
			{0, http.StatusOK, ""},
			{time.Hour - time.Second, http.StatusOK, ""},
			{time.Hour, http.StatusUnauthorized, "the API key has expired"},
			{48 * time.Hour, http.StatusUnauthorized, "the API key has expired"},
		} {
			b.clock.Set(start.Add(tc.after))
			if status, text := b.askAs(key, http.MethodGet, "/v1/reasons", ""); status != tc.status || !strings.Contains(text, tc.says) {
				t.Errorf("after %s: got %d %s", tc.after, status, text)
			}
		}
		if _, _, err := app.RotateKey(t.Context(), b.app.Store(), b.app.Workspace(), "short", b.clock.Now(), app.RotationGrace, time.Time{}); err == nil || !strings.Contains(err.Error(), "--expires") {
			t.Errorf("an expired key was rotated without a new end: %v", err)
		}
		again, k, err := app.RotateKey(t.Context(), b.app.Store(), b.app.Workspace(), "short", b.clock.Now(), app.RotationGrace, b.clock.Now().Add(time.Hour))
		if err != nil || k.OldHash != "" {
			t.Fatalf("%+v, %v: an expired secret has no grace", k, err)
		}
		for secret, want := range map[string]int{key: http.StatusUnauthorized, again: http.StatusOK} {
			if status, text := b.askAs(secret, http.MethodGet, "/v1/reasons", ""); status != want {
				t.Errorf("after a rotation with a new end: got %d %s, want %d", status, text, want)
			}
		}
	})
}

// A rotated key is accepted by its new secret at once and by the former one until the grace is over; one before that has ended.
func TestRotatedKey(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bundle) {
		rotate := func(grace time.Duration) string {
			t.Helper()
			key, _, err := app.RotateKey(t.Context(), b.app.Store(), b.app.Workspace(), "ci", b.clock.Now(), grace, time.Time{})
			if err != nil {
				t.Fatal(err)
			}
			return key
		}
		expect := func(when string, want map[string]int) {
			t.Helper()
			for key, want := range want {
				if status, text := b.askAs(key, http.MethodGet, "/v1/reasons", ""); status != want {
					t.Errorf("%s: got %d %s, want %d", when, status, text, want)
				}
			}
		}
		const yes, no = http.StatusOK, http.StatusUnauthorized
		first := b.newKey(b.app.Workspace(), "ci", "read")
		expect("new", map[string]int{first: yes})
		second := rotate(app.RotationGrace)
		expect("rotated", map[string]int{first: yes, second: yes})
		b.clock.Set(start.Add(app.RotationGrace - time.Second))
		expect("before the end of the grace", map[string]int{first: yes, second: yes})
		b.clock.Set(start.Add(app.RotationGrace))
		expect("at the end of the grace", map[string]int{first: no, second: yes})
		third := rotate(time.Hour)
		fourth := rotate(time.Hour)
		b.clock.Set(b.clock.Now().Add(time.Minute)) // a secret that was just asked for is remembered for some seconds
		expect("rotated twice", map[string]int{first: no, second: no, third: yes, fourth: yes})
		fifth := rotate(0)
		b.clock.Set(b.clock.Now().Add(time.Minute))
		expect("rotated without grace", map[string]int{third: no, fourth: no, fifth: yes})
		if ended, err := b.app.Store().RevokeKey(t.Context(), b.app.Workspace().ID, "ci", b.clock.Now()); err != nil || !ended {
			t.Fatal(ended, err)
		}
		b.clock.Set(b.clock.Now().Add(time.Minute))
		expect("revoked", map[string]int{fifth: no})
	})
}

// The last use of a key is known to the minute, and written at most once in it.
func TestLastUseOfAKey(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bundle) {
		key := b.newKey(b.app.Workspace(), "watched", "read")
		used := func() time.Time {
			t.Helper()
			keys, err := b.app.Store().Keys(t.Context(), b.app.Workspace().ID)
			if err != nil {
				t.Fatal(err)
			}
			for _, k := range keys {
				if k.Name == "watched" {
					return k.UsedAt
				}
			}
			return time.Time{}
		}
		if at := used(); !at.IsZero() {
			t.Errorf("a new key was used at %s", at)
		}
		for _, tc := range []struct{ at, want time.Duration }{
			{0, 0}, {30 * time.Second, 0}, {50 * time.Second, 0}, {time.Minute, time.Minute}, {100 * time.Second, time.Minute}, {time.Hour, time.Hour},
		} {
			b.clock.Set(start.Add(tc.at))
			if status, text := b.askAs(key, http.MethodGet, "/v1/reasons", ""); status != http.StatusOK {
				t.Fatalf("got %d %s", status, text)
			}
			if got := used(); !got.Equal(start.Add(tc.want)) {
				t.Errorf("asked after %s: last use %s, want %s", tc.at, got, start.Add(tc.want))
			}
		}
		row, ok, err := b.app.Store().KeyByHash(t.Context(), "no such hash")
		if ok || err != nil || row.Ended("no such hash", start) != store.KeyRotated {
			t.Errorf("%+v %v %v", row, ok, err)
		}
	})
}
