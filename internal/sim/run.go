package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/loader"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/plumbing/channelpool"
	"github.com/carillonhq/carillon/internal/engine/plumbing/sinkpool"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/sink"
	"github.com/carillonhq/carillon/internal/sink/workflow"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

const (
	// maxRounds bounds the passes at one instant: a million deliveries of one second take 10,000 of them.
	maxRounds = 20_000
	// maxIdle is how many passes in a row may do nothing while the store reports due rows.
	maxIdle = 3
	// maxJumps bounds the instants between two steps: a message every minute for ten years.
	maxJumps = 10_000_000
)

// errCrashed ends a pass in which the process dies.
var errCrashed = errors.New("the simulated process died")

// ProblemsError says that a scenario's definitions cannot be used.
type ProblemsError []definition.Problem

func (e ProblemsError) Error() string {
	if len(e) == 1 {
		return e[0].String()
	}
	return fmt.Sprintf("%s\nand %d more", e[0], len(e)-1)
}

// Run runs a scenario on an engine and a store of its own. An error means that it could not be run; differences between expectations and
// observations are in the result.
func Run(ctx context.Context, s Scenario, o Options) (r Result, err error) {
	if problems := s.missing(); len(problems) > 0 {
		return Result{}, ProblemsError(problems)
	}
	elapsed := clock.Monotonic()
	w := &world{scenario: &s, providers: o.Providers, sinks: o.Sinks, functions: o.Functions, audiences: o.Audiences, clock: clock.NewManual(s.Start), crash: "none"}
	opened, closeStore, err := openStore(ctx, o.DB)
	if err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, closeStore()) }()
	w.store = opened
	if err := w.begin(ctx); err != nil {
		return Result{}, err
	}
	if !o.Update { // else they are replaced
		if err := w.checkNames(); err != nil {
			return Result{}, err
		}
	}
	for i := range s.Steps {
		step := &s.Steps[i]
		if err := w.step(ctx, step); err != nil {
			return Result{}, fmt.Errorf("%s:%d: step %d: %w", s.File, step.pos.Line, step.number, err)
		}
	}
	return Result{Scenario: &s, Journal: w.journal, Took: elapsed(), steps: w.results}, nil
}

// world is the state of one running scenario.
type world struct {
	scenario  *Scenario
	providers []channel.Provider
	sinks     []sink.Provider
	functions []*expr.Function
	audiences []*expr.Function
	clock     *clock.Manual
	store     *store.Store
	workspace store.Workspace
	wire      *wire
	engine    *engine.Engine // nil: stopped or dead
	second    *engine.Engine // a second worker on the same store; nil: none
	crash     point          // where the engine dies next
	docs      []document
	agenda    []appointment
	journal   []journal.Entry
	results   []stepResult

	answers []outcome // answers to actions since the step above
	seen    int       // messages that had been received at the step above
	replies int       // those without an id of their own
}

// appointment is an action on the agenda, with its instant.
type appointment struct {
	at time.Time
	do func(context.Context) error
}

// begin makes the workspace, puts the definitions in force, starts the engine and does what is given.
func (w *world) begin(ctx context.Context) (err error) {
	secret := make([]byte, 32) // always the same, so that ids, keys and draws are
	copy(secret, "the secret of every simulation")
	if w.workspace, err = w.store.EnsureWorkspace(ctx, "default", secret, w.clock.Now()); err != nil {
		return err
	}
	w.wire = newWire(w.clock)
	if err := w.start(); err != nil {
		return err
	}
	files, err := readDefinitions(w.scenario)
	if err != nil {
		return err
	}
	if err := w.apply(ctx, files); err != nil {
		return err
	}
	for i := range w.scenario.Given {
		if err := w.do(ctx, &w.scenario.Given[i]); err != nil {
			return err
		}
	}
	return w.settle(ctx)
}

// readDefinitions reads the files that a scenario names, and adds what it defines in place.
func readDefinitions(s *Scenario) ([]definition.File, error) {
	var files []definition.File
	for _, name := range s.Definitions {
		path := s.path(name)
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		files = append(files, definition.File{Name: path, Text: text})
	}
	return append(files, s.Define...), nil
}

// start makes a new engine over the store, as a new process would. Beside one that runs it is a second worker.
func (w *world) start() (err error) {
	if w.engine != nil {
		w.second, err = w.open()
		return err
	}
	w.engine, err = w.open()
	return err
}

func (w *world) open() (*engine.Engine, error) {
	return engine.New(engine.Config{
		Store: w.store, Clock: w.clock, Providers: w.wire.stand(w.providers), Sinks: w.wire.standSinks(w.sinks), Documents: w.wire, Journal: w.note, Concurrency: 1, NoJitter: true,
		Secret:      func(subject.WorkspaceID, definition.Setting) (string, error) { return "simulated", nil },
		Definitions: w.options(), Failpoint: w.reach, PublicURL: "https://carillon.example", Links: linkKeys(),
	})
}

// options returns the loader's options with the simulated providers.
func (w *world) options() loader.Options {
	return loader.Options{
		Providers: channelpool.Providers(w.providers), Sinks: sinkpool.Providers(append(slices.Clone(w.sinks), workflow.Provider(nil))),
		Functions: w.functions, Audiences: append([]*expr.Function{}, w.audiences...),
	}
}

func (w *world) note(e journal.Entry) { w.journal = append(w.journal, e) }

// reach ends the step at the point where the scenario crashes the engine.
func (w *world) reach(at string) error {
	if string(w.crash) != at {
		return nil
	}
	return errCrashed
}

// step advances to its instant, performs its actions, and compares.
func (w *world) step(ctx context.Context, s *Step) error {
	from := len(w.journal)
	if len(w.results) == 0 {
		from = 0 // entries from the setup belong to the first step
	}
	if err := w.live(ctx, s.At); err != nil {
		return err
	}
	for i := range s.Do {
		if err := w.do(ctx, &s.Do[i]); err != nil {
			return err
		}
	}
	if s.Tick {
		if err := w.pass(ctx, nil); err != nil {
			return err
		}
	}
	if err := w.settle(ctx); err != nil {
		return err
	}
	outcomes, err := w.compare(ctx, s, from)
	if err != nil {
		return err
	}
	result := stepResult{Step: s, outcomes: append(w.answers, outcomes...), from: from, to: len(w.journal)}
	if !result.held() {
		if result.waits, err = w.waits(ctx); err != nil {
			return err
		}
	}
	w.results = append(w.results, result)
	w.answers, w.seen = nil, len(w.wire.received)
	return nil
}

// live advances the clock to an instant and processes all rows that are due before it.
func (w *world) live(ctx context.Context, until time.Time) error {
	for range maxJumps {
		now := w.clock.Now()
		next, err := w.next(ctx)
		if err != nil {
			return err
		}
		if next.IsZero() || !next.Before(until) {
			w.clock.Set(until)
			return nil
		}
		if !next.After(now) {
			return fmt.Errorf("at %s something is due and nothing takes it up", w.local(now))
		}
		w.clock.Set(next)
		if err := w.keep(ctx); err != nil {
			return err
		}
		if err := w.settle(ctx); err != nil {
			return err
		}
	}
	return fmt.Errorf("more than %d instants lie before %s", maxJumps, w.local(until))
}

// next returns the next instant at which a row is due; none: no row will be.
func (w *world) next(ctx context.Context) (next time.Time, err error) {
	if w.engine != nil && !w.scenario.Manual {
		if next, err = w.engine.NextDue(ctx); err != nil {
			return next, err
		}
	}
	if len(w.agenda) > 0 && (next.IsZero() || w.agenda[0].at.Before(next)) {
		next = w.agenda[0].at
	}
	return next, nil
}

// keep performs the actions on the agenda for this instant.
func (w *world) keep(ctx context.Context) error {
	for len(w.agenda) > 0 && !w.agenda[0].at.After(w.clock.Now()) {
		first := w.agenda[0]
		w.agenda = w.agenda[1:]
		if err := first.do(ctx); err != nil {
			return err
		}
	}
	return nil
}

// later puts an action on the agenda, behind those of the same instant.
func (w *world) later(at time.Time, do func(context.Context) error) {
	i, _ := slices.BinarySearchFunc(w.agenda, at, func(a appointment, at time.Time) int {
		return cmp.Or(a.at.Compare(at), -1)
	})
	w.agenda = slices.Insert(w.agenda, i, appointment{at, do})
}

// settle lets the engine run at this instant until nothing more is due.
func (w *world) settle(ctx context.Context) error {
	if err := w.keep(ctx); err != nil {
		return err
	}
	if w.scenario.Manual {
		return nil
	}
	idle := 0
	var did progress
	for range maxRounds {
		if w.engine == nil {
			return nil
		}
		if !did.more {
			due, err := w.engine.NextDue(ctx)
			if err != nil {
				return err
			}
			if due.IsZero() || due.After(w.clock.Now()) {
				return nil
			}
		}
		did = progress{}
		if err := w.pass(ctx, &did); err != nil {
			return err
		}
		idle++
		if did.any {
			idle = 0
		}
		if idle == maxIdle {
			break
		}
	}
	return fmt.Errorf("it does not settle: at %s something stays due", w.local(w.clock.Now()))
}

// progress says whether a pass did anything, and whether a job continues.
type progress struct{ any, more bool }

// pass runs every stage of each worker once. After a crash the engine is dead and the store holds what was committed.
func (w *world) pass(ctx context.Context, result *progress) error {
	for _, worker := range []*engine.Engine{w.engine, w.second} {
		if worker == nil {
			continue
		}
		did, err := worker.Tick(ctx)
		if errors.Is(err, errCrashed) {
			w.crash = "none"
			w.end(worker)
			continue
		}
		if err != nil {
			return err
		}
		if result != nil {
			result.any, result.more = result.any || did.Any(), result.more || did.More()
		}
	}
	return w.bounce(ctx)
}

// end stops a worker. The other one, if any, continues.
func (w *world) end(worker *engine.Engine) {
	if worker == w.engine {
		w.engine = w.second
	}
	w.second = nil
}

// compare holds a step's lists against the journal, the wire and the store.
func (w *world) compare(ctx context.Context, s *Step, from int) ([]outcome, error) {
	happened := map[string][]row{}
	for _, e := range w.journal[from:] {
		for _, name := range listsOf(e) {
			happened[name] = append(happened[name], entryRow(e))
		}
	}
	if slices.ContainsFunc(s.expect, func(e expectation) bool { return e.spec.name == "received" }) {
		rows, err := w.receivedRows(ctx)
		if err != nil {
			return nil, err
		}
		happened["received"] = rows
	}
	var outcomes []outcome
	for _, e := range s.expect {
		outcomes = append(outcomes, compare(e, happened[e.spec.name]))
	}
	if len(s.state) == 0 {
		return outcomes, nil
	}
	present, err := w.state(ctx, s.state)
	if err != nil {
		return nil, err
	}
	for _, e := range s.state {
		outcomes = append(outcomes, compare(e, present[e.spec.name]))
	}
	return outcomes, nil
}

// receivedRows returns the messages that were delivered since the step above. The wire knows only addresses; the contact is in the
// delivery.
func (w *world) receivedRows(ctx context.Context) ([]row, error) {
	received := w.wire.received[w.seen:]
	if len(received) == 0 {
		return nil, nil
	}
	deliveries, err := w.deliveries(ctx, store.DeliveryFilter{})
	if err != nil {
		return nil, err
	}
	contacts := make(map[int64]string, len(deliveries))
	for _, d := range deliveries {
		contacts[int64(d.ID)] = contactOf(d.Key)
	}
	ids := engine.PublicIDs(w.workspace)
	rows := make([]row, len(received))
	for i, d := range received {
		_, _, id, _ := ids.Decode(d.DeliveryID)
		rows[i] = deliveredRow(d, contacts[id])
	}
	return rows, nil
}

// waits returns, for each delivery that limits have moved, which limits these are now.
func (w *world) waits(ctx context.Context) (map[int64]string, error) {
	present, err := w.state(ctx, nil)
	if err != nil {
		return nil, err
	}
	waits := map[int64]string{}
	for _, r := range present["explain"] {
		waits[r.delivery] = strings.ReplaceAll(r.cells["says"].text, "\n", "; ")
	}
	return waits, nil
}

func (w *world) local(t time.Time) string {
	return t.In(w.scenario.Zone).Format("2006-01-02 15:04:05 MST")
}
