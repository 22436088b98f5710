// Command bench sets Carillon beside its peers and beside what the databases can do at all, on this machine.
//
// All sides run in turn, round after round, so that other load on the machine meets each of them; what is compared
// is the ratio of two figures of the same round. CPU time is measured besides: it moves less than the clock does on
// a machine that others use too. It is a module of its own, so that the peers are no dependencies of the product.
// "make bench" at the top runs it and writes the tables of docs/reference/performance.md.
//
//	contender (ours, a peer, a limit) ──figures──▶ series ──ratios──▶ tables
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// Sizes are chosen so that a measurement takes a few seconds and the whole about a quarter of an hour on two cores.
const (
	defaultRounds  = 3
	defaultRows    = 40000
	defaultSQLite  = 20000
	defaultPending = 1_000_000
	defaultRecords = 200_000
	defaultPlanned = 50_000
	defaultPeople  = 100_000
	defaultIdle    = 30 * time.Second
	defaultChurn   = 20 * time.Second
	defaultPurge   = 25 * time.Minute
	defaultWithin  = 30 * time.Minute
	workers        = 4
	batch          = 500
)

// gcPercent is for every side that runs in this process.
const gcPercent = 400

type settings struct {
	rounds, rows, sqliteRows int
	pending, records         int
	planned, people          int
	idle, churn, purge       time.Duration
	within                   time.Duration
	only                     []string
	write                    string
	profile                  string
	source                   string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	debug.SetGCPercent(gcPercent)
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out, progress io.Writer) error {
	var s settings
	var only, idleRiver string
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.IntVar(&s.rounds, "rounds", defaultRounds, "how often every side is measured")
	flags.IntVar(&s.rows, "rows", defaultRows, "rows of one measurement on PostgreSQL")
	flags.IntVar(&s.sqliteRows, "sqlite-rows", defaultSQLite, "rows of one measurement on SQLite")
	flags.IntVar(&s.pending, "pending", defaultPending, "rows that wait while the idle CPU time is measured (T7), and what is due among them (T8)")
	flags.IntVar(&s.records, "records", defaultRecords, "records that a run goes over (T10)")
	flags.IntVar(&s.planned, "planned", defaultPlanned, "records of which an edit plans (T16, T17, T19)")
	flags.IntVar(&s.people, "people", defaultPeople, "people that a broadcast, a digest or an item reaches, or that have a message in line (T11, T12, T22, T25 to T27)")
	flags.DurationVar(&s.idle, "idle", defaultIdle, "for how long in all the idle CPU time of a side is measured (T7)")
	flags.DurationVar(&s.churn, "churn", defaultChurn, "for how long rows come and go before claims are measured, and for a third of it again under an open snapshot (T9)")
	flags.DurationVar(&s.purge, "purge", defaultPurge, "for how long, at most, old messages are deleted (T27)")
	flags.DurationVar(&s.within, "within", defaultWithin, "when a bench that is not done is given up")
	flags.StringVar(&only, "only", "", "rows of the table to measure, such as T3,T4; empty: all")
	flags.StringVar(&s.write, "write", "", "page whose tables are written again, but for the rows that are not measured")
	flags.StringVar(&s.profile, "profile", "", "folder for CPU profiles of our side (T1, T2, T3, T4, T10, T11, T13)")
	flags.StringVar(&s.source, "source", "..", "folder of the product, whose binary is built")
	flags.StringVar(&idleRiver, "river", "", "be an idle River on the database of this address: the bench starts itself so")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if idleRiver != "" {
		return beIdleRiver(ctx, idleRiver, out)
	}
	if s.rounds < 1 || s.rows < 1 || s.sqliteRows < 1 || s.pending < 1 || s.records < 1000 || s.planned < 1 || s.people < broadcastLess*groupSize || s.idle < time.Second || s.churn < time.Second || s.purge < time.Second || flags.NArg() > 0 {
		return errors.New("rounds and rows are whole numbers from 1, records and people from 1000, idle, churn and purge are at least 1s; there are no other arguments")
	}
	known := ids()
	for id := range strings.SplitSeq(only, ",") {
		if id = strings.TrimSpace(id); id == "" {
			continue
		} else if !slices.Contains(known, id) {
			return fmt.Errorf("-only names %q; there are %s", id, strings.Join(known, ", "))
		}
		s.only = append(s.only, id)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.within, fmt.Errorf("not done within %s", s.within))
	defer cancel()
	found, err := measure(ctx, s, progress)
	if err != nil {
		return err
	}
	fmt.Fprint(out, "\n", newReport(found, ""))
	if s.write == "" {
		return nil
	}
	return writeInto(s.write, found)
}

// wants reports whether one of the rows is to be measured.
func (s settings) wants(rows ...string) bool {
	return len(s.only) == 0 || slices.ContainsFunc(rows, func(id string) bool { return slices.Contains(s.only, id) })
}
