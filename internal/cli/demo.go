package cli

import (
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/carillonhq/carillon/internal/demo"
	"github.com/carillonhq/carillon/internal/telemetry"
)

type demoCmd struct {
	For    time.Duration `name:"for" placeholder:"DURATION" help:"End after this long, such as 20s. Default: run until Ctrl-C."`
	Listen string        `name:"listen" placeholder:"HOST:PORT" help:"Where the API and the console listen. Default: 127.0.0.1:8080, or a free port when that is taken."`
	Log    string        `name:"log" placeholder:"FILE" help:"A log of dpkg to replay. Default: that of this host; a shipped sample where there is none."`
	Keep   bool          `name:"keep" help:"Leave the database there at the end, and say where."`
}

// Help is the long help.
func (demoCmd) Help() string {
	return `Starts everything on a temporary database, puts the example definitions in force and posts events: the package
history of this host and visits to a workshop. Then this host itself is a record, and limits are seen at work. Every
message is delivered to the inbox of the console; nothing leaves this machine. Prints one line for each thing that
happens, and a summary at the end.`
}

// Validate refuses a time that has passed.
func (c demoCmd) Validate() error {
	if c.For < 0 {
		return errors.New("--for: a demo runs for some time")
	}
	return nil
}

// Run runs the demo.
func (c *demoCmd) Run(s *session) error {
	// A reader that goes away (| head) is an error like any other, so that nothing is left behind.
	signal.Ignore(syscall.SIGPIPE)
	log, err := telemetry.NewLog(s.Err, "error", "text")
	if err != nil {
		return err
	}
	return demo.Run(s.ctx, demo.Options{
		For: c.For, Listen: c.Listen, Log: c.Log, Keep: c.Keep, Out: s.Out, Errors: log,
		Colour: s.Terminal && os.Getenv("NO_COLOR") == "", Version: version(),
	})
}
