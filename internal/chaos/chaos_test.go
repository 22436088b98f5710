package chaos_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/chaos"
	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/engine/stage/dispatch"
	"github.com/carillonhq/carillon/internal/engine/stage/fanout"
	"github.com/carillonhq/carillon/internal/engine/stage/sender"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// envOut names the environment variable with the file to which the reports are written as JSON.
const envOut = "CARILLON_RELIAB_OUT"

// limit ends a run that hangs. It is no measure of speed: on an idle machine the longest run takes half a minute.
const limit = 20 * time.Minute

func TestMain(m *testing.M) {
	if task := os.Getenv(chaos.EnvWorker); task != "" {
		os.Exit(chaos.Work(task, os.Stdin, os.Stderr))
	}
	status := m.Run()
	if err := errors.Join(all.publish(), os.RemoveAll(sabotaged.dir)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = 1
	}
	os.Exit(status)
}

// sabotaged is this test's binary with a store that can be broken on purpose.
var sabotaged binary //nolint:gochecknoglobals // built once for all tests

type binary struct {
	once sync.Once
	dir  string
	err  error
}

// path builds the binary at its first use.
func (b *binary) path(t *testing.T) string {
	t.Helper()
	storetest.NotUnderRace(t, "what is judged here is a binary built on the spot, without the detector")
	b.once.Do(func() {
		if b.dir, b.err = os.MkdirTemp("", "carillon-sabotage"); b.err != nil {
			return
		}
		out, err := exec.Command("go", "test", "-c", "-tags", "sabotage", "-ldflags=-w", "-o", b.name(), ".").CombinedOutput()
		if err != nil {
			b.err = fmt.Errorf("build what is to be broken: %w\n%s", err, out)
		}
	})
	if b.err != nil {
		t.Fatal(b.err)
	}
	return b.name()
}

func (b *binary) name() string { return filepath.Join(b.dir, "sabotage.test") }

// notTwice leaves a test to the run under the race detector when there is one: its processes are under it too.
func notTwice(t *testing.T, database string) {
	t.Helper()
	if !slices.Contains(storetest.Databases(t), database) {
		t.Skip("under the race detector, in the run that follows")
	}
}

// Processes are killed and frozen, and the provider fails: no message is lost and none comes twice. A store without the
// fence of results is found out.
//
// Shows: B9, B26, C52.
func TestReliability(t *testing.T) {
	t.Parallel()
	for _, database := range storetest.EveryDatabase(t) {
		t.Run("storm/"+database, func(t *testing.T) {
			t.Parallel()
			notTwice(t, database)
			check(t, run(t, options(t, chaos.Failures, database)))
		})
		t.Run("sabotage/"+database, func(t *testing.T) {
			t.Parallel()
			o := options(t, chaos.Failures, database)
			o.Events, o.Kills, o.Freezes = 400, 0, 2
			report := run(t, broken(t, o, "nofence"))
			if report.Count("unfenced") == 0 {
				t.Errorf("seed %d: a store without its fence was not found out: %v", o.Seed, report.Violations)
			}
			if n := report.Count("stale_refused"); n > 0 {
				t.Errorf("a store without its fence refused %v results: is the tag still there?", n)
			}
		})
		for _, point := range []string{sender.BeforeIntent, sender.AfterIntent, sender.BeforeResult} {
			t.Run(point+"/"+database, func(t *testing.T) {
				t.Parallel()
				notTwice(t, database)
				o := options(t, chaos.Failures, database)
				o.Name, o.Crash, o.Events = point, point, 100
				report := run(t, o)
				check(t, report)
				if sent := report.Count("open_intents") > 0; sent != (point == sender.BeforeResult) {
					t.Errorf("%v requests were sent by workers that ended there", report.Count("open_intents"))
				}
				if point == sender.BeforeResult && report.Count("repeats") == 0 {
					t.Error("no request was repeated")
				}
				if lost := report.Count("worker_lost") > report.Count("late"); lost != (point != sender.BeforeIntent) {
					t.Errorf("%v attempts have lost their worker, %v of them a live one", report.Count("worker_lost"), report.Count("late"))
				}
			})
		}
	}
}

// Four processes on one database send mails to a server that refuses, drops and delays. Every attempt is what the
// server's own log says it was, every delivery ended as its attempts say, and every mail reads as it was rendered.
//
// Shows: C49, P3, P4.
func TestMails(t *testing.T) {
	t.Parallel()
	notTwice(t, "postgres")
	o := options(t, chaos.Mails, "postgres")
	o.Events = mailEvents
	check(t, run(t, o))
}

// People answer surveys by the API, and a webhook gets their answers, while processes are killed, also between the claim
// of an outbox event and its result. Each answer that was taken is stored once and reaches the webhook under one id,
// and what was answered ends without a further reminder.
//
// Shows: C33, C34, C35, C37.
func TestAnswers(t *testing.T) {
	t.Parallel()
	for _, database := range storetest.EveryDatabase(t) {
		t.Run("storm/"+database, func(t *testing.T) {
			t.Parallel()
			notTwice(t, database)
			o := options(t, chaos.Answers, database)
			o.Events, o.Freezes = answerEvents, 0
			check(t, run(t, o))
		})
		for _, point := range []string{dispatch.AfterClaim, dispatch.BeforeDone} {
			t.Run(point+"/"+database, func(t *testing.T) {
				t.Parallel()
				notTwice(t, database)
				o := options(t, chaos.Answers, database)
				o.Name, o.Crash, o.Events = point, point, 100
				report := run(t, o)
				check(t, report)
				if n := report.Count("open tries"); n == 0 {
					t.Error("no try has lost its worker")
				}
				if again := report.Count("came again") > 0; again != (point == dispatch.BeforeDone) {
					t.Errorf("%v outbox events came again", report.Count("came again"))
				}
			})
		}
	}
}

// Eight processes on one database, four under the race detector, give few people more than their limits allow. By the provider's log no limit is
// broken, whatever fails and dies meanwhile, no message is lost without a reason, and none comes twice.
//
// Shows: A31, A32, A33, A34, A39, A5, A11.
func TestLimits(t *testing.T) {
	t.Parallel()
	for _, database := range storetest.EveryDatabase(t) {
		t.Run("storm/"+database, func(t *testing.T) {
			t.Parallel()
			notTwice(t, database)
			o := options(t, chaos.Limits, database)
			o.Events, o.Kills = limitEvents, limitKills
			if o.Workers > 1 {
				o.Workers = limitWorkers
			} else {
				o.Kills /= 2 // each stops all work
			}
			check(t, run(t, o))
		})
	}
}

// A store whose processes do not wait for each other, or that counts no slots, is found out.
func TestLimitsSabotaged(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"nolock", "noslots"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			for range 5 { // without a lock it is a matter of luck who meets whom
				o := options(t, chaos.Limits, "postgres")
				o.Events, o.Kills, o.Single = 300, 0, true
				report := run(t, broken(t, o, what))
				if report.Count("broken")+report.Count("overbooked") > 0 {
					return
				}
			}
			t.Error("not found out")
		})
	}
}

// Records have courses whose messages come a second apart. They are written, moved, begun again, closed and deleted while processes are killed
// and frozen, and end in the middle of a fan-out. Each message that was due arrived once, in order, none arrived that nothing asked for, and
// each course that goes on has one message that waits. A store that makes the next message in a transaction of its own is found out.
//
// Shows: D16, D20, D21, D22, R3, R10.
func TestCourses(t *testing.T) {
	t.Parallel()
	for _, database := range storetest.EveryDatabase(t) {
		t.Run("storm/"+database, func(t *testing.T) {
			t.Parallel()
			notTwice(t, database)
			o := options(t, chaos.Courses, database)
			if o.Events = courseRecords; o.Workers == 1 {
				o.Freezes = 0 // a frozen process would write what is out of date by then
			}
			check(t, run(t, o))
		})
		for _, point := range []string{fanout.AfterTaken, fanout.BeforeCommit, fanout.AfterChunk} {
			t.Run(point+"/"+database, func(t *testing.T) {
				t.Parallel()
				notTwice(t, database)
				o := options(t, chaos.Courses, database)
				o.Name, o.Crash, o.Events = point, point, courseCrashed
				report := run(t, o)
				check(t, report)
				if lost := report.Count("crashed with an instance") > 0; lost != (point == fanout.AfterTaken) {
					t.Errorf("%v instances have lost their worker", report.Count("crashed with an instance"))
				}
			})
		}
	}
	t.Run("sabotage", func(t *testing.T) {
		t.Parallel()
		o := options(t, chaos.Courses, "postgres")
		o.Events, o.Freezes = courseRecords, 0
		report := run(t, broken(t, o, "nonext"))
		if report.Count("stopped")+report.Count("two wait") == 0 {
			t.Errorf("seed %d: a store that makes the next message apart was not found out: %v", o.Seed, report.Violations)
		}
	})
}

// A broadcast is expanded while all its processes are killed at once, again and again, and while one process after the other ends in a step of the
// expansion: before its commit, or after it. Each person of the audience has one delivery and got one message.
//
// Shows: P2, D2.
func TestBroadcast(t *testing.T) {
	t.Parallel()
	for _, database := range storetest.EveryDatabase(t) {
		for name, leased := range map[string]bool{"storm": false, "leased": true} {
			t.Run(name+"/"+database, func(t *testing.T) {
				t.Parallel()
				notTwice(t, database)
				o := options(t, chaos.Broadcast, database)
				o.Name, o.Leased, o.Events, o.Kills, o.Freezes = name, leased, readers, readersKills, 0
				check(t, run(t, o))
			})
		}
		for _, point := range []string{fanout.BeforeCommit, fanout.AfterChunk} {
			t.Run(point+"/"+database, func(t *testing.T) {
				t.Parallel()
				notTwice(t, database)
				o := options(t, chaos.Broadcast, database)
				o.Name, o.Crash, o.Events, o.Kills, o.Freezes = point, point, readersCrash, 0, 0
				check(t, run(t, o))
			})
		}
	}
}

func options(t *testing.T, profile chaos.Profile, database string) chaos.Options {
	t.Helper()
	o := chaos.Options{
		Profile: profile, Name: "storm", DB: storetest.URL(t, database), Dialect: database, Dir: t.TempDir(), Binary: os.Args[0], Workers: 4,
		Events: stormEvents, Kills: stormKills, Freezes: stormFreezes,
		Seed: uint64((&clock.System{}).Now().UnixNano()), Limit: limit,
	}
	if database == "sqlite" {
		o.Workers, o.Kills = 1, stormKills/2 // each kill stops all work
	}
	t.Cleanup(func() {
		if t.Failed() {
			showLogs(t, o.Dir)
		}
	})
	return o
}

// broken has the workers break their store.
func broken(t *testing.T, o chaos.Options, what string) chaos.Options {
	t.Helper()
	o.Name, o.Binary, o.Env = what, sabotaged.path(t), []string{"CARILLON_SABOTAGE=" + what}
	return o
}

func run(t *testing.T, o chaos.Options) *chaos.Report {
	t.Helper()
	report, err := chaos.Run(t.Context(), o)
	if err != nil {
		t.Fatalf("seed %d: %v", o.Seed, err)
	}
	all.add(report)
	return report
}

func check(t *testing.T, r *chaos.Report) {
	t.Helper()
	for _, v := range r.Violations {
		t.Errorf("seed %d: %s", r.Seed, v)
	}
	if r.ViolationCount > len(r.Violations) {
		t.Errorf("and %d more", r.ViolationCount-len(r.Violations))
	}
	if zero := r.Unproven(); len(zero) > 0 && proves {
		t.Errorf("seed %d: stayed at zero: %s", r.Seed, strings.Join(zero, ", "))
	}
}

// showLogs repeats the end of what the workers said.
func showLogs(t *testing.T, dir string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "worker-*.log"))
	if err != nil {
		t.Error(err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Error(err)
		}
		if len(text) > 0 {
			t.Logf("%s:\n%s", filepath.Base(name), text[max(0, len(text)-4096):])
		}
	}
}

// all collects the reports of all runs.
var all board //nolint:gochecknoglobals // of all tests

type board struct {
	mu      sync.Mutex
	reports []*chaos.Report
}

func (b *board) add(r *chaos.Report) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reports = append(b.reports, r)
}

// publish shows the reports as tables, and writes them to a file when asked to.
func (b *board) publish() error {
	slices.SortFunc(b.reports, func(x, y *chaos.Report) int {
		return cmp.Or(cmp.Compare(x.Profile, y.Profile), cmp.Compare(x.Name, y.Name), cmp.Compare(x.Database, y.Database))
	})
	var errs []error
	for _, profile := range []chaos.Profile{chaos.Failures, chaos.Answers, chaos.Mails, chaos.Limits, chaos.Courses, chaos.Broadcast} {
		of := slices.DeleteFunc(slices.Clone(b.reports), func(r *chaos.Report) bool { return r.Profile != profile })
		errs = append(errs, chaos.Table(os.Stdout, of))
	}
	if name := os.Getenv(envOut); name != "" {
		raw, err := json.MarshalIndent(b.reports, "", "  ")
		errs = append(errs, err, os.WriteFile(name, append(raw, '\n'), 0o644))
	}
	return errors.Join(errs...)
}
