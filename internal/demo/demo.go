// Package demo shows Carillon at work on one machine, with nothing installed and nothing sent to anybody.
//
// It starts the same process as "carillon serve" on a SQLite file in a temporary folder, applies the example definitions, and posts
// events through the HTTP API: the package history of this host, and visits to a workshop. Then it writes records: an invoice with
// reminders, and this host itself, with thresholds that it exceeds at this moment. Every message goes to the built-in inbox channel
// and can be read in the console. Nothing is simulated: the clock is real, so a reminder for tomorrow is shown as planned, never as
// sent.
package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"time"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/examples"
	"github.com/carillonhq/carillon/internal/app"
	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/config"
)

const (
	// DefaultLog is where Debian and its derivatives keep the history of packages.
	DefaultLog = "/var/log/dpkg.log"
	// DefaultListen is tried first; when it is taken, a free port is used.
	DefaultListen = "127.0.0.1:8080"
	// DefaultPace is the time between two batches: slow enough to be read.
	DefaultPace = 700 * time.Millisecond
	// stopWithin bounds the end: nothing here is slow.
	stopWithin = 10 * time.Second
	// pollEvery is how often the package log is checked for new lines.
	pollEvery = 2 * time.Second
)

// Options are the settings of a demo.
type Options struct {
	For     time.Duration // how long it runs; 0 = until ctx ends
	Listen  string        // empty = DefaultListen, or a free port when that is taken
	Log     string        // the package log; empty = DefaultLog. If it does not exist, a shipped sample is posted
	Pace    time.Duration // between two batches; 0 = DefaultPace, or less when For is short
	Keep    bool          // keep the database at the end, and print its path
	Out     io.Writer
	Errors  *slog.Logger // where the process logs what went wrong; nil = nowhere
	Colour  bool
	Version string // of the program
}

// Run runs the demo until its time is over or ctx ends, both of which are no errors.
func Run(ctx context.Context, o Options) (err error) {
	if o.Log == "" {
		o.Log = DefaultLog
	}
	dir, err := os.MkdirTemp("", "carillon-demo-")
	if err != nil {
		return fmt.Errorf("make a folder for the demo: %w", err)
	}
	defer func() {
		if !o.Keep {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	packages, changes, err := open(o.Log)
	if err != nil {
		return err
	}
	d := &demo{Options: o, dir: dir, clock: &clock.System{}, packages: packages, printer: &printer{out: o.Out, colour: o.Colour}}
	if d.receiver, err = d.receive(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.receiver.Close()) }()
	if d.app, err = d.start(ctx); err != nil {
		return err
	}
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
		defer cancel()
		err = errors.Join(err, d.app.Stop(end))
	}()
	var act []batch
	if h, ok := readHost(); ok {
		d.host, act = &h, h.act()
	}
	return d.run(ctx, story(changes, d.clock.Now(), act))
}

type demo struct {
	Options
	dir      string
	clock    *clock.System
	app      *app.App
	api      *client.Client
	packages *source
	printer  *printer
	receiver *receiver
	host     *host // nil: it cannot be read
	guest    bool  // the console is open to everyone who can reach it
}

// start brings the process up, at the usual address when it is free.
func (d *demo) start(ctx context.Context) (*app.App, error) {
	listen := d.Listen
	if listen == "" {
		listen = DefaultListen
	}
	a, err := app.Start(ctx, d.config(listen))
	if d.Listen == "" && errors.Is(err, syscall.EADDRINUSE) {
		return app.Start(ctx, d.config("127.0.0.1:0"))
	}
	return a, err
}

func (d *demo) config(listen string) app.Config {
	c := app.Config{
		Server: config.Server{
			Database: config.Database{DB: d.database()}, Listen: listen, Workers: 2, Batch: 500, Work: true, Migrate: true,
			StopTimeout: stopWithin, SinkDir: d.dir, SecretDir: []string{d.dir}, OutboundAllow: []netip.Prefix{d.receiver.network},
		},
		Log: d.Errors, Version: d.Version, Journal: d.printer.entry,
		Notice: "A demo: everything is delivered to the inbox, nothing leaves this machine, and its data goes when it stops.",
	}
	if d.Keep {
		c.Notice = "A demo: everything is delivered to the inbox, and nothing leaves this machine."
	}
	if d.guest = loopback(listen); d.guest {
		c.Guest = app.DefaultWorkspace
	}
	return c
}

func (d *demo) database() string { return filepath.Join(d.dir, "carillon.db") }

// loopback reports whether only this machine reaches an address.
func loopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (d *demo) run(ctx context.Context, batches []batch) error {
	elapsed := clock.Monotonic()
	key, err := app.CreateKey(ctx, d.app.Store(), d.app.Workspace(), "demo", []string{"admin"}, d.clock.Now())
	if err != nil {
		return err
	}
	if d.api, err = client.New(d.app.URL(), key); err != nil {
		return err
	}
	files, err := definitions(d.receiver.url)
	if err != nil {
		return err
	}
	if d.host != nil {
		files = append(files, d.host.definitions())
	}
	applied, err := d.api.Apply(ctx, files)
	if err != nil {
		return fmt.Errorf("put the examples in force: %w", err)
	}
	if d.host != nil {
		you := client.ContactInput{ID: "you", Persona: onCall, Addresses: map[string]string{"inbox": "you"}}
		if _, err := d.api.PutContact(ctx, you); err != nil {
			return fmt.Errorf("create the contact who watches: %w", err)
		}
	}
	d.welcome(key, len(applied.Changes))

	limited, cancel := ctx, context.CancelFunc(func() {})
	if d.For > 0 {
		limited, cancel = context.WithTimeout(ctx, d.For)
	}
	defer cancel()
	if err := d.print(limited, batches); err != nil {
		return err
	}
	return d.farewell(context.WithoutCancel(ctx), elapsed())
}

// print posts the story, and then new changes from the package log, until ctx ends.
func (d *demo) print(ctx context.Context, batches []batch) error {
	pace := d.Pace
	if pace == 0 {
		pace = DefaultPace
		if d.For > 0 { // three quarters of the time for the story, so that its end is seen too
			pace = min(pace, d.For*3/4/time.Duration(len(batches)))
		}
	}
	for _, b := range batches {
		if err := d.post(ctx, b); err != nil || d.rest(ctx, pace) != nil {
			return d.unless(ctx, err)
		}
	}
	if d.packages.path != "" {
		d.printer.note(d.clock.Now(), "That was the history. What is installed or removed from now on appears as it happens.")
	} else {
		d.printer.note(d.clock.Now(), "That was the sample. Post events of your own; the page stays up.")
	}
	return d.unless(ctx, d.packages.follow(ctx, func(ctx context.Context) error { return d.rest(ctx, pollEvery) }, d.post))
}

// unless returns the error, or nil when ctx has ended: the error is then only a consequence.
func (d *demo) unless(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		err = nil
	}
	return errors.Join(err, d.printer.failed())
}

// rest waits. It returns early with an error when ctx ends, the process fails, or the output has no reader.
func (d *demo) rest(ctx context.Context, pause time.Duration) error {
	if err := d.printer.failed(); err != nil {
		return err
	}
	return d.clock.Sleep(ctx, d.clock.Now().Add(pause))
}

func (d *demo) post(ctx context.Context, b batch) error {
	if b.note != "" {
		d.printer.note(d.clock.Now(), b.note)
	}
	if b.record != nil {
		return d.write(ctx, *b.record)
	}
	if b.answer {
		return d.answer(ctx)
	}
	answer, err := d.api.PostEvents(ctx, b.events...)
	if err != nil {
		return fmt.Errorf("post events: %w", err)
	}
	for _, item := range answer.Items {
		if item.Outcome == "failed" {
			return fmt.Errorf("an event of the demo was refused: %s: %s", item.Field, item.Message)
		}
	}
	return nil
}

// definitions returns the example definitions. Their channels deliver to the inbox, so that every message can be read and none leaves
// this machine. Public links begin with this process's own address, and its sinks are a file and the webhook receiver of the demo.
func definitions(hook string) ([]client.File, error) {
	names, err := fs.Glob(examples.Files, "*.yaml")
	if err != nil {
		return nil, fmt.Errorf("list the examples: %w", err)
	}
	var files []client.File
	for _, name := range names {
		text, err := examples.Files.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read an example: %w", err)
		}
		if name == "sinks.yaml" {
			text = sinks(hook)
		}
		if name == "channels.yaml" {
			text = regexp.MustCompile(`(?ms)^provider: (?:http|smtp)$.*?(^---$|\z)`).ReplaceAll(text, []byte("provider: inbox\n$1"))
		}
		text = regexp.MustCompile(`(?m)^channel: (memory|whatsapp)$`).ReplaceAll(text, []byte("channel: inbox"))
		text = regexp.MustCompile(`(?m)^base_url: .*\n`).ReplaceAll(text, nil)
		files = append(files, client.File{Name: name, Text: string(bytes.TrimSpace(text)) + "\n"})
	}
	return files, nil
}
