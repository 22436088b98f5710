package cli

import (
	"fmt"

	"github.com/carillonhq/carillon/client"
)

type sinksCmd struct {
	List    listSinksCmd   `cmd:"" help:"List the sinks that are defined or have events, and their state."`
	Show    showSinkCmd    `cmd:"" help:"Show a sink."`
	Pause   pauseSinkCmd   `cmd:"" help:"Stop the events of a sink until it is enabled."`
	Enable  enableSinkCmd  `cmd:"" help:"Let the events of a sink leave again."`
	Redrive redriveSinkCmd `cmd:"" help:"Have all events tried again that are dead at a sink."`
}

type listSinksCmd struct {
	remote
	output
}

// Help is the long help.
func (listSinksCmd) Help() string {
	return `state is active (events leave), paused (by a person) or disabled (it failed for days, or wants no event any more). Events
of a sink that is not active wait; dead ones are not tried again before somebody redrives them. next_at is when a sink with events is
tried next: one that fails rests for up to a minute after each failure, and a redrive ends that rest.`
}

// Run lists sinks.
func (c *listSinksCmd) Run(s *session) error {
	list, err := call(c.remote, func(api *client.Client) (client.Sinks, error) { return api.Sinks(s.ctx) })
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(s.Out, list)
	}
	rows := make([][]string, len(list.Items))
	for i, x := range list.Items {
		rows[i] = []string{x.Name, x.Provider, x.State, sinkCount(x.Pending), sinkCount(x.Dead), c.at(x.OldestAt), c.at(x.NextAt), c.at(x.FailingSince), x.Reason}
	}
	s.table([]string{"sink", "provider", "state", "pending", "dead", "oldest_at", "next_at", "failing_since", "reason"}, rows)
	return nil
}

// sinkCount is how many events wait or are dead at a sink; a + says that there may be more.
func sinkCount(n int64) string {
	if n >= client.MaxSinkCount {
		return fmt.Sprint(n, "+")
	}
	return fmt.Sprint(n)
}

type showSinkCmd struct {
	Names []string `arg:"" name:"sink" help:"The sink's name; several are shown one after the other."`
	remote
	output
}

// Run shows sinks.
func (c *showSinkCmd) Run(s *session) error {
	return oneByOne(s, c.remote, c.JSON, c.Names, func(api *client.Client, name string) (client.Sink, error) { return api.Sink(s.ctx, name) },
		parted(s, func(s *session, x client.Sink) error {
			s.fields("sink", x.Name, "provider", x.Provider, "state", x.State, "reason", because(x.Reason, x.Message), "pending", sinkCount(x.Pending),
				"dead", sinkCount(x.Dead), "oldest_at", c.at(x.OldestAt), "next_at", c.at(x.NextAt), "failing_since", c.at(x.FailingSince), "failed_at", c.at(x.FailedAt),
				"rest_until", c.at(x.RestUntil))
			return nil
		}))
}

// onSinks are the sinks that a command acts on.
type onSinks struct {
	Names []string `arg:"" name:"sink" help:"The sink's name; several are done one after the other."`
	remote
	jsonOnly
}

func (o onSinks) turn(s *session, done string, do func(*client.Client, string) (client.ChangedSink, error)) error {
	return oneByOne(s, o.remote, o.JSON, o.Names, do, func(x client.ChangedSink) error {
		if x.Changed {
			s.rows([][]string{{"~ " + done, x.Name}})
		} else {
			s.rows([][]string{{"=", x.Name, "it is " + x.State + " already"}})
		}
		return nil
	})
}

type pauseSinkCmd struct{ onSinks }

// Help is the long help.
func (pauseSinkCmd) Help() string {
	return `Its events wait and use up no tries until the sink is enabled, whatever is applied or restarted meanwhile. What is on its
way is not called back. Needs a key with the scope operate.`
}

// Run pauses sinks.
func (c *pauseSinkCmd) Run(s *session) error {
	return c.turn(s, "paused", func(api *client.Client, name string) (client.ChangedSink, error) { return api.PauseSink(s.ctx, name) })
}

type enableSinkCmd struct{ onSinks }

// Help is the long help.
func (enableSinkCmd) Help() string {
	return `Whether a person paused it, or it was disabled because it failed for days. What waits is tried at once. Needs a key with the
scope operate.`
}

// Run enables sinks.
func (c *enableSinkCmd) Run(s *session) error {
	return c.turn(s, "enabled", func(api *client.Client, name string) (client.ChangedSink, error) { return api.EnableSink(s.ctx, name) })
}

type redriveSinkCmd struct{ onSinks }

// Help is the long help.
func (redriveSinkCmd) Help() string {
	return `Events that are dead at the sink get all their tries again, under the same message ids: a receiver drops what it has. A
sink that rests is tried at once; enable one first that is disabled. Needs a key with the scope operate.`
}

// Run redrives sinks.
func (c *redriveSinkCmd) Run(s *session) error {
	return oneByOne(s, c.remote, c.JSON, c.Names, func(api *client.Client, name string) (client.RedrivenSink, error) {
		return api.RedriveSink(s.ctx, name)
	}, func(x client.RedrivenSink) error {
		if x.Events == 0 {
			s.rows([][]string{{"=", x.Name, "no event is dead there"}})
		} else {
			s.rows([][]string{{"~ redriven", x.Name, count(x.Events, "event")}})
		}
		return nil
	})
}
