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
	"github.com/carillonhq/carillon/internal/engine/stage/sender"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// envOut names the environment variable with the file to which the reports are written as JSON.
const envOut = "CARILLON_RELIAB_OUT"

// limit bounds one run on a busy machine; on an idle one the longest takes half a minute.
const limit = 3 * time.Minute

func TestMain(m *testing.M) {
	if task := os.Getenv(chaos.EnvWorker); task != "" {
		os.Exit(chaos.Work(task, os.Stdin, os.Stderr))
	}
	status := m.Run()
	if err := os.RemoveAll(sabotaged.dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
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

// sabotage names what its workers break.
func sabotage(what string) []string { return []string{"CARILLON_SABOTAGE=" + what} }

// notTwice leaves a test to the run under the race detector when there is one: its processes are under it too.
func notTwice(t *testing.T, database string) {
	t.Helper()
	if !slices.Contains(storetest.Databases(t), database) {
		t.Skip("under the race detector, in the run that follows")
	}
}

// Shows: B9, B26, C52.
func TestReliability(t *testing.T) {
	t.Parallel()
	b := &board{}
	t.Cleanup(func() { b.publish(t) })
	for _, database := range storetest.EveryDatabase(t) {
		t.Run("storm/"+database, func(t *testing.T) {
			t.Parallel()
			notTwice(t, database)
			report, err := chaos.Storm(t.Context(), storm(t, database, os.Args[0]))
			check(t, report, err)
			b.add(report)
			if zero := report.Unproven(); len(zero) > 0 {
				t.Errorf("stayed at zero: %s", strings.Join(zero, ", "))
			}
		})
		t.Run("sabotage/"+database, func(t *testing.T) {
			t.Parallel()
			o := storm(t, database, sabotaged.path(t))
			o.Name, o.Env, o.Events, o.Kills, o.Freezes = "no fence", sabotage("nofence"), 400, 0, 2
			report, err := chaos.Storm(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			b.add(report)
			if report.Unfenced == 0 {
				t.Errorf("a store without its fence was not found out: %+v", report)
			}
			if report.StaleRefused > 0 {
				t.Errorf("a store without its fence refused %d results: is the tag still there?", report.StaleRefused)
			}
		})
		for _, point := range []string{sender.BeforeIntent, sender.AfterIntent, sender.BeforeResult} {
			t.Run(point+"/"+database, func(t *testing.T) {
				t.Parallel()
				notTwice(t, database)
				o := storm(t, database, os.Args[0])
				o.Name, o.Crash, o.Events = point, point, 100
				report, err := chaos.CrashPoint(t.Context(), o)
				check(t, report, err)
				b.add(report)
				if sent := report.Repeats > 0; sent != (point == sender.BeforeResult) {
					t.Errorf("%d requests were repeated", report.Repeats)
				}
				if lost := report.WorkerLost > 0; lost != (point != sender.BeforeIntent) {
					t.Errorf("%d attempts have lost their worker", report.WorkerLost)
				}
			})
		}
	}
}

func storm(t *testing.T, database, binary string) chaos.Options {
	t.Helper()
	o := chaos.Options{
		Name: "storm", DB: storetest.URL(t, database), Dialect: database, Dir: t.TempDir(), Binary: binary, Workers: 4,
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

func check(t *testing.T, r chaos.Report, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("seed %d: %v", r.Seed, err)
	}
	for _, v := range r.Violations {
		t.Errorf("seed %d: %s", r.Seed, v)
	}
	if r.ViolationCount > len(r.Violations) {
		t.Errorf("and %d more", r.ViolationCount-len(r.Violations))
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

// board collects the reports of all runs.
type board struct {
	mu      sync.Mutex
	reports []chaos.Report
}

func (b *board) add(r chaos.Report) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reports = append(b.reports, r)
}

// publish shows the reports as a table, and writes them to a file when asked to.
func (b *board) publish(t *testing.T) {
	order := []string{"storm", "no fence", sender.BeforeIntent, sender.AfterIntent, sender.BeforeResult}
	slices.SortFunc(b.reports, func(x, y chaos.Report) int {
		return cmp.Or(cmp.Compare(slices.Index(order, x.Name), slices.Index(order, y.Name)), cmp.Compare(x.Database, y.Database))
	})
	var table strings.Builder
	if err := chaos.Table(&table, b.reports); err != nil {
		t.Error(err)
	}
	t.Logf("\n%s", table.String())
	name := os.Getenv(envOut)
	if name == "" {
		return
	}
	raw, err := json.MarshalIndent(b.reports, "", "  ")
	if err := errors.Join(err, os.WriteFile(name, append(raw, '\n'), 0o644)); err != nil {
		t.Error(fmt.Errorf("write the report: %w", err))
	}
}
