package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/importer"
	"github.com/carillonhq/carillon/internal/rowreader"
)

const (
	// shownRows is how many rows a dry run shows, and shownRejected how many refused ones are printed.
	shownRows     = 5
	shownRejected = 20
	// reportEvery is how often an import says in a pipe how far it is.
	reportEvery = 5 * time.Second
)

// importing is what the commands that read files have in common.
type importing struct {
	File      string        `arg:"" help:"A CSV or NDJSON file; - is the standard input."`
	Map       []string      `name:"map" sep:"none" placeholder:"FIELD=COLUMN" help:"Into which field a column goes; as FIELD:TYPE=COLUMN it is read as number, bool, date or datetime. May be repeated."`
	Skip      []string      `name:"skip" sep:"none" placeholder:"COLUMN" help:"Leave a column out. May be repeated."`
	Format    string        `name:"format" enum:"csv,ndjson," default:"" placeholder:"FORMAT" help:"csv or ndjson, where the file's name does not say."`
	Delimiter delimiter     `name:"delimiter" default:"," placeholder:"CHARACTER" help:"Between the cells of CSV; tab is one."`
	Timezone  zone          `name:"timezone" default:"UTC" placeholder:"ZONE" help:"Of instants that are written without an offset."`
	DryRun    bool          `name:"dry-run" help:"Read the whole file, show the first rows as they would be sent, and send nothing."`
	Batch     batchSize     `name:"batch" default:"1000" placeholder:"N" help:"Rows in one request, at most 1000."`
	Parallel  parallel      `name:"parallel" default:"2" placeholder:"N" help:"Requests at a time, at most 4."`
	RetryFor  time.Duration `name:"retry-for" default:"2m" placeholder:"TIME" help:"How long a request is tried again while the server does not answer."`
	remote
	jsonOnly
}

// delimiter is one character.
type delimiter rune

// UnmarshalText reads the character.
func (d *delimiter) UnmarshalText(text []byte) error {
	if string(text) == "tab" || string(text) == `\t` {
		text = []byte("\t")
	}
	one := []rune(string(text))
	if len(one) != 1 || strings.ContainsRune("\"\r\n\uFFFD", one[0]) {
		return fmt.Errorf("%q is not a delimiter; write one character, or tab", text)
	}
	*d = delimiter(one[0])
	return nil
}

type batchSize int

// UnmarshalText reads the number.
func (b *batchSize) UnmarshalText(text []byte) error {
	return bounded((*int)(b), text, client.MaxEvents)
}

type parallel int

// UnmarshalText reads the number.
func (p *parallel) UnmarshalText(text []byte) error {
	return bounded((*int)(p), text, importer.MaxParallel)
}

func bounded(into *int, text []byte, most int) error {
	var l limit
	if err := l.UnmarshalText(text); err != nil {
		return err
	}
	if int(l) > most {
		return fmt.Errorf("%d is more than %d", l, most)
	}
	*into = int(l)
	return nil
}

// run imports the file. The column id holds the ids of the rows, where it is named; the constants are fields that a flag gives to all rows.
func (c *importing) run(s *session, kind importKind, id string, constants map[string]string) error {
	maps := c.Map
	if id != "" {
		maps = append(slices.Clone(maps), "id="+id)
	}
	mapping, err := rowreader.NewMapping(kind.shape, maps, c.Skip, constants, c.Timezone.Location)
	if err != nil {
		return err
	}
	in, name := s.In, "stdin"
	if c.File != "-" {
		file, err := os.Open(c.File)
		if err != nil {
			return err
		}
		defer file.Close()
		in, name = file, c.File
	}
	options, err := c.sheet(kind.shape, name)
	if err != nil {
		return err
	}
	if kind.lines != "" && options.Format == rowreader.CSV {
		return fmt.Errorf("%s is CSV: %s", name, kind.lines)
	}
	object := func(row rowreader.Row) (map[string]any, *rowreader.Fault) {
		object, fault := mapping.Object(row)
		if fault == nil && kind.finish != nil {
			kind.finish(row, object)
		}
		return object, fault
	}
	head := func(head []string) error {
		if err := mapping.Check(head); err != nil {
			return err
		}
		return kind.lacks(mapping.Fields(head), constants)
	}
	if c.DryRun {
		return c.dryRun(s, in, name, options, head, object)
	}
	api, err := c.client()
	if err != nil {
		return err
	}
	p := newProgress(s, in, name, kind.outcomes, c.JSON)
	var refused []importer.Rejection
	summary, err := importer.Run(s.ctx, importer.Config{
		Name: name, File: in, Sheet: options, Object: object, Head: head,
		Options: []any{s.command, c.Server, c.Map, c.Skip, maps, constants, c.Delimiter, c.Format, c.Timezone.String(), c.Batch},
		Send: func(ctx context.Context, key string, objects []json.RawMessage) ([]importer.Verdict, error) {
			return kind.post(ctx, api, key, objects)
		},
		Temporary: client.Temporary, Wait: client.RetryAfter, Batch: int(c.Batch), Parallel: int(c.Parallel), RetryFor: c.RetryFor, Clock: p.clock,
		Done: p.done, Retry: p.retry,
		Rejected: func(r importer.Rejection) {
			if as, ok := typeWanted(r.Message); ok && options.Format == rowreader.CSV {
				r.Hint = fmt.Sprintf("--map %s:%s=COLUMN; without a type a cell is a text", r.Field, as)
			}
			if len(refused) < shownRejected {
				refused = append(refused, r)
			}
		},
	})
	p.end()
	return c.report(s, name, kind, summary, refused, c.reachable(name, err))
}

func (c *importing) sheet(shape rowreader.Shape, name string) (rowreader.Options, error) {
	o := rowreader.Options{Format: rowreader.Format(c.Format), Delimiter: rune(c.Delimiter), Objects: shape.Objects()}
	if o.Format == "" {
		var ok bool
		if o.Format, ok = rowreader.FormatOf(name); !ok {
			return o, fmt.Errorf("what is in %s? --format csv or --format ndjson", name)
		}
	}
	if strings.HasSuffix(strings.ToLower(name), ".tsv") && o.Delimiter == ',' {
		o.Delimiter = '\t'
	}
	return o, nil
}

// reachable words what ended a run.
func (c *importing) reachable(name string, err error) error {
	var fault *rowreader.Fault
	if errors.As(err, &fault) {
		err = fmt.Errorf("%s:%d: %s", name, fault.Line, strings.TrimPrefix(fault.Error(), fmt.Sprintf("line %d: ", fault.Line)))
		if fault.Hint != "" {
			err = fmt.Errorf("%w\n    %s", err, fault.Hint)
		}
		return err
	}
	_, err = call(c.remote, func(*client.Client) (struct{}, error) { return struct{}{}, err })
	return err
}

// report prints what was refused and how many rows came to what.
func (c *importing) report(s *session, name string, kind importKind, summary importer.Summary, refused []importer.Rejection, err error) error {
	if c.JSON {
		out := struct {
			importer.Progress
			Resumed      bool                 `json:"resumed"`
			Complete     bool                 `json:"complete"`
			RejectedFile string               `json:"rejected_file,omitempty"`
			FirstRefused []importer.Rejection `json:"first_rejected,omitempty"`
		}{summary.Progress, summary.Resumed, err == nil, summary.RejectedFile, refused}
		if wrong := printJSON(s.Out, out); wrong != nil {
			return wrong
		}
	} else {
		var rows [][]string
		for _, r := range refused {
			rows = append(rows, []string{fmt.Sprintf("! %s:%d", name, r.Line), r.Reason, r.Field, withHint(r.Message, r.Hint)})
		}
		s.rows(rows)
		if more := summary.Rejected - len(refused); more > 0 && len(refused) > 0 {
			s.note("… and %d more", more)
		}
		if summary.Resumed {
			s.note("resumed where an earlier run had stopped")
		}
		if summary.Discarded {
			s.note("an earlier run had other contents or options: started from the beginning")
		}
		if summary.Rows > 0 || err == nil {
			s.note("%s", counted(summary.Progress, kind.outcomes))
		}
		if summary.RejectedFile != "" {
			s.note("rejected rows: %s", summary.RejectedFile)
		}
	}
	if err != nil && summary.StateFile != "" {
		return fmt.Errorf("%w\n    the same command goes on after row %d; %s remembers that", err, summary.Rows, summary.StateFile)
	}
	if err == nil && summary.Rejected > 0 {
		return exit(ExitFailed)
	}
	return err
}

func withHint(message, hint string) string {
	if hint == "" {
		return message
	}
	return message + " (" + hint + ")"
}

func counted(p importer.Progress, outcomes []string) string {
	parts := []string{count(p.Rows, "row")}
	for _, outcome := range outcomes {
		parts = append(parts, fmt.Sprintf("%d %s", p.Outcomes[outcome], outcome))
	}
	return strings.Join(append(parts, fmt.Sprintf("%d rejected", p.Rejected)), ", ")
}

// dryRun shows what would be sent.
func (c *importing) dryRun(s *session, in io.Reader, name string, o rowreader.Options, check func([]string) error, object func(rowreader.Row) (map[string]any, *rowreader.Fault)) error {
	reader, err := rowreader.New(in, o)
	if err != nil {
		return c.reachable(name, err)
	}
	if head := reader.Head(); head != nil {
		if err := check(head); err != nil {
			return err
		}
	}
	rows, rejected := 0, 0
	for s.ctx.Err() == nil {
		row, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return c.reachable(name, err)
		}
		rows++
		fault := row.Fault
		var made map[string]any
		if fault == nil {
			made, fault = object(row)
		}
		switch {
		case fault != nil:
			if rejected++; rejected <= shownRejected {
				s.rows([][]string{{fmt.Sprintf("! %s:%d", name, row.Line), string(fault.Reason), fault.Field, withHint(fault.Message, fault.Hint)}})
			}
		case rows-rejected <= shownRows:
			if err := printJSON(s.Out, made); err != nil {
				return err
			}
		}
	}
	s.note("%s, %d rejected; nothing was sent", count(rows, "row"), rejected)
	if rejected > 0 {
		return exit(ExitFailed)
	}
	return context.Cause(s.ctx)
}

// progress shows the progress of an import: a bar on a terminal, a line every few seconds in a pipe.
type progress struct {
	*session
	size     int64 // 0: not known
	clock    clock.Clock
	outcomes []string
	quiet    bool
	bar      *progressbar.ProgressBar
	reported time.Time
	retried  time.Time // when a wait was last reported
}

func newProgress(s *session, in io.Reader, name string, outcomes []string, quiet bool) *progress {
	p := &progress{session: s, clock: &clock.System{}, outcomes: outcomes, quiet: quiet}
	if file, ok := in.(*os.File); ok {
		if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
			p.size = info.Size()
		}
	}
	if s.Terminal && p.size > 0 && !quiet {
		p.bar = progressbar.NewOptions64(p.size, progressbar.OptionSetWriter(s.Err), progressbar.OptionShowBytes(true),
			progressbar.OptionSetDescription(filepath.Base(name)), progressbar.OptionFullWidth(), progressbar.OptionClearOnFinish(),
			progressbar.OptionThrottle(100*time.Millisecond))
		_ = p.bar.RenderBlank() // a bar that cannot be drawn stops no import
	}
	return p
}

func (p *progress) done(at importer.Progress) {
	now := p.clock.Now()
	switch {
	case p.quiet:
	case p.bar != nil:
		_ = p.bar.Set64(at.Bytes)
	case p.reported.IsZero():
		p.reported = now
	case now.Sub(p.reported) >= reportEvery:
		p.reported = now
		if p.size > 0 {
			p.note("%d %%: %s", 100*at.Bytes/p.size, counted(at, p.outcomes))
			return
		}
		p.note("%s", counted(at, p.outcomes))
	}
}

// retry reports a wait. Several requests wait at once, and one line is enough for all.
func (p *progress) retry(err error, wait time.Duration) {
	now := p.clock.Now()
	if !p.retried.IsZero() && now.Sub(p.retried) < reportEvery {
		return
	}
	p.retried = now
	p.note("the server does not take it now, again in %s: %v", wait, err)
}

func (p *progress) end() {
	if p.bar != nil {
		_ = p.bar.Finish()
	}
}

type ingestCmd struct {
	importing
	Kind string `name:"kind" placeholder:"KIND" help:"What happened, for all rows; without it, a column kind says it."`
	ID   string `name:"id" placeholder:"COLUMN" help:"The column with your id of each event; without one, ids are made of each row's contents and line."`
}

// Help is the long help.
func (ingestCmd) Help() string {
	return `Every row becomes an event. Columns named like a field (id, kind, occurred_at, recipient.address, recipient.locale,
recipient.customer_ref, payload.NAME) go there; --map says it for others; the rest goes into the payload under its own
name, as text unless a type is given. Empty cells are left out. NDJSON holds one object a line, whose values keep their
types; events as the API takes them are read as they are.

  carillon ingest visits.csv --kind visit-closed --map recipient.address=phone --map payload.age:number=age

The same file again makes nothing twice. An import that was interrupted goes on where it was when the same command is
given again. Refused rows go into visits.rejected.csv with their reasons, and stop no others.

Exit status: 0 all were taken in · 1 rows were refused, or the file was not finished.`
}

// Run ingests a file.
func (c *ingestCmd) Run(s *session) error {
	return c.run(s, importOfEvents(), c.ID, given("kind", c.Kind))
}
