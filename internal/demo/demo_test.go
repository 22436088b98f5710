package demo

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
)

var update = flag.Bool("update", false, "write the goldens again")

// screen is an output that ends the demo when all of some texts have appeared, or breaks then.
type screen struct {
	mu     sync.Mutex
	text   bytes.Buffer
	until  []string
	end    context.CancelFunc
	breaks error
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text.Write(p)
	for _, text := range s.until {
		if !strings.Contains(s.text.String(), text) {
			return len(p), nil
		}
	}
	s.end()
	return len(p), s.breaks
}

// play runs the demo on the sample until these texts have appeared.
func play(t *testing.T, change func(*Options), until ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	out := &screen{until: until, end: cancel}
	o := Options{Listen: "127.0.0.1:0", Log: filepath.Join(t.TempDir(), "none.log"), Pace: time.Microsecond, Out: out}
	if change != nil {
		change(&o)
	}
	err := Run(ctx, o)
	out.mu.Lock()
	defer out.mu.Unlock()
	return out.text.String(), err
}

// TestRun plays the whole sample through the real process.
func TestRun(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	text, err := play(t, nil, "That was the sample.", "زيارة الخدمة (reminder in 1d)")
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := readHost(); ok {
		for _, want := range []string{
			`> sent       host-alert      you               \S+: MEMORY\n`, `~ throttled  host-alert      this-host/\S+ +throttled again in \d+s`,
			`~ deferred   host-alert      you               cooldown again in \d+s`,
		} {
			if !regexp.MustCompile(want).MatchString(text) {
				t.Errorf("nothing reads like %s", want)
			}
		}
	}
	for _, want := range []string{
		`\+ created    invoice-reminder invoice/INV-7     goes out in [23]d`, `- withdrawn  invoice-reminder invoice/INV-7     date_changed`,
		`- withdrawn  invoice-reminder invoice/INV-7     condition_cleared`,
		`\+ created    invoice-reminder invoice/INV-7     goes out in (9d|10d)`,
		`console      http://127\.0\.0\.1:\d+  no key`, `key          car_[a-z2-7]{52}`, `a shipped sample, since .*none\.log does not exist`,
		`> sent       package-changes operator          \S+ \S+ → \S+`, `= skipped    csi-gr          \+964 770 000 0001 duplicate`,
		`\. no_match   service-visit-closed -                 condition_false`, `~ planned    voc-new-vehicle \+964 770 000 0004 goes out in 5d`,
		`\+ responded  csi-gr          \+44 20 7946 0003  answered`, `\+ dispatched csi-gr          follow-up         response\.completed`,
		`\+ dispatched csi-gr          webhook:potential-complaints response\.completed`, `A webhook receiver got response\.completed d_\w+: \+44 20 7946 0003 rates 7`,
		`> sent       complaint       \+44 20 7946 0003  We are sorry`, `After \d+s:`, `events       \d+ kept, 1 known already`, `  next         20`, `\d\d  reminder 1 of csi-gr to \+964 770 000 0001`,
	} {
		if !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("nothing reads like %s", want)
		}
	}
	if first, _, _ := strings.Cut(text, "\n"); !strings.HasPrefix(first, "Carillon, as a demo") {
		t.Errorf("it begins with %s", first)
	}
	if regexp.MustCompile(`~ deferred   package-changes`).MatchString(text) {
		t.Error("a message about packages waits for a limit")
	}
	if t.Failed() {
		t.Log(text)
	}
	if strings.Contains(text, "\x1b") {
		t.Error("there is colour without a terminal")
	}
	if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

func TestKeep(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	text, err := play(t, func(o *Options) { o.Keep = true }, "= skipped")
	if err != nil {
		t.Fatal(err)
	}
	kept, err := filepath.Glob(filepath.Join(temporary, "carillon-demo-*", "carillon.db"))
	if err != nil || len(kept) != 1 || !strings.Contains(text, "carillon serve --db "+kept[0]) {
		t.Errorf("kept %v: %v\n%s", kept, err, text)
	}
}

// TestFor: the time that was asked for ends it by itself.
func TestFor(t *testing.T) {
	t.Parallel()
	text, err := play(t, func(o *Options) { o.For, o.Pace = 300*time.Millisecond, 0 }, "never")
	if err != nil || !strings.Contains(text, "deliveries   ") {
		t.Errorf("%v\n%s", err, text)
	}
}

// TestNobodyReads: a pipe whose reader has gone ends the demo with the error.
func TestNobodyReads(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	gone := errors.New("nobody reads")
	err := Run(ctx, Options{
		Listen: "127.0.0.1:0", Log: filepath.Join(t.TempDir(), "none.log"), Pace: time.Microsecond,
		Out: &screen{until: []string{"> sent"}, end: func() {}, breaks: gone},
	})
	if !errors.Is(err, gone) {
		t.Errorf("ended with %v", err)
	}
}

func TestListen(t *testing.T) {
	t.Parallel()
	for listen, want := range map[string]bool{
		"127.0.0.1:8080": true, "localhost:0": true, "[::1]:1": true, "0.0.0.0:8080": false, ":8080": false, "192.0.2.1:1": false, "nonsense": false,
	} {
		if got := loopback(listen); got != want {
			t.Errorf("%s: %v", listen, got)
		}
	}
	if err := Run(t.Context(), Options{Listen: "192.0.2.1:1", Out: &bytes.Buffer{}}); err == nil {
		t.Error("an address of another machine was listened to")
	}
}

// TestOutput compares every kind of line, and the summary, with what was agreed.
func TestOutput(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 5, 14, 5, 12, 34, 0, time.UTC)
	for _, colour := range []bool{false, true} {
		var out bytes.Buffer
		p := &printer{out: &out, colour: colour}
		p.begin()
		p.note(at, "A service visit is closed.")
		for _, e := range []journal.Entry{
			{What: journal.Created, Workflow: "voc-new-vehicle", Due: at.AddDate(0, 0, 5)},
			{What: journal.Planned, Workflow: "voc-new-vehicle", Address: "+964 770 000 0004", Until: at.Add(90 * time.Minute)},
			{What: journal.Planned, Workflow: "csi-gr", Address: "+964 770 000 0001", Until: at}, // is sent at once: not printed
			{What: journal.Sent, Workflow: "csi-gr", Address: "+964 770 000 0001", Subject: "Your visit", Text: "How was it?", Until: at.Add(24 * time.Hour)},
			{What: journal.Sent, Workflow: "a-workflow-with-a-long-name", Contact: "alice", Text: "No subject.\nTwo lines."},
			{What: journal.Skipped, Workflow: "csi-gr", Address: "+964 770 000 0001", Reason: reason.Duplicate},
			{What: journal.NoMatch, Kind: "service-visit-closed", Reason: reason.ConditionFalse},
			{What: journal.Deferred, Workflow: "csi-gr", Address: "bob", Reason: reason.CadenceCooldown, Until: at.Add(25 * time.Minute)},
			{What: journal.Retried, Workflow: "csi-gr", Address: "bob", Reason: reason.TemporaryError, Until: at.Add(5 * time.Second), Error: "connection refused"},
			{What: journal.Failed, Workflow: "csi-gr", Address: "a\x1b[31mb", Reason: reason.PermanentError},
			{What: journal.Unknown, Workflow: "csi-gr", Address: "bob", Reason: reason.ReplyLost},
			{What: journal.Cancelled, Workflow: "csi-gr", Address: "bob", Reason: reason.CancelledByPerson},
		} {
			e.At = at
			p.entry(e)
		}
		counts := store.Counts{
			Events:             204,
			InstancesByStatus:  map[instance.Status]int64{instance.Completed: 187},
			DeliveriesByStatus: map[delivery.Status]int64{delivery.Sent: 186, delivery.Scheduled: 1},
		}
		next := []delivery.Row{
			{Workflow: "csi-gr", Address: "+964 770 000 0001", Step: 1, SendAt: at.AddDate(0, 0, 1)},
			{Workflow: "voc-new-vehicle", Address: "+964 770 000 0004", SendAt: at.AddDate(0, 0, 5)},
		}
		for _, rows := range [][]string{summary(counts, 1, next, 20*time.Second), summary(store.Counts{}, 0, nil, 0)} {
			for _, row := range rows {
				p.line("%s", row)
			}
		}
		golden(t, map[bool]string{false: "plain", true: "colour"}[colour], out.String())
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got); -update writes it again:\n%s", path, diff)
	}
}
