// Package telemetry is what operators watch: the log, the metrics and, in a build of its own, traces.
//
// A line is a static message with snake_case attributes. What happened to messages is logged from the engine's
// journal, with the same words and reasons as everywhere else. Addresses, texts, payloads and secrets are never
// logged; keys name things, by the callers' own ids at most.
package telemetry

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/reason"
)

// NewLog makes a logger that writes lines of at least that level (debug, info, warn, error) as text or json, with
// times in UTC.
func NewLog(w io.Writer, level, format string) (*slog.Logger, error) {
	var least slog.Level
	if err := least.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("log level %q: not debug, info, warn or error", level)
	}
	options := &slog.HandlerOptions{Level: least, ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && a.Key == slog.TimeKey {
			return slog.Time(slog.TimeKey, a.Value.Time().UTC().Truncate(time.Millisecond))
		}
		return a
	}}
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(w, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, options)), nil
	}
	return nil, fmt.Errorf("log format %q: not text or json", format)
}

// LogJournal writes entries of the journal to the log: what needs a person's eye as warnings, what a person did as
// information, everything else for debugging.
func LogJournal(log *slog.Logger) journal.Writer {
	return func(e journal.Entry) {
		level := levelOf(e)
		if !log.Enabled(context.Background(), level) {
			return
		}
		log.LogAttrs(context.Background(), level, cmp.Or(e.Message, "journal"), attributes(e)...) //nolint:sloglint // a source's own words name the workflow (A20)
	}
}

func levelOf(e journal.Entry) slog.Level {
	if e.Reason == reason.WorkflowPaused || e.Reason == reason.WorkflowResumed { // a person has said so; it may be thousands
		return slog.LevelDebug
	}
	switch e.What {
	case journal.Failed, journal.Unknown, journal.Held, journal.PassedOver, journal.StaleRefused:
		return slog.LevelWarn
	case journal.Cancelled, journal.Released, journal.Forgotten, journal.Reclaimed, journal.Returned:
		return slog.LevelInfo
	case journal.Replied:
		if e.Reason == reason.UnknownSender {
			return slog.LevelInfo
		}
	case journal.Created: // with a word about it
		if e.Error != "" || e.Reason == reason.Repaired {
			return slog.LevelInfo
		}
	case journal.Throttled, journal.Skipped:
		if e.Record != "" && !e.Again { // what is wrong with a record, and nobody hears of it
			return slog.LevelInfo
		}
	default:
	}
	if info, ok := reason.Lookup(e.Reason); ok && info.Class == reason.Failure {
		return slog.LevelWarn
	}
	return slog.LevelDebug
}

func attributes(e journal.Entry) []slog.Attr {
	list := make([]slog.Attr, 0, 15)
	text := func(name, value string) {
		if value != "" {
			list = append(list, slog.String(name, value))
		}
	}
	number := func(name string, value int64) {
		if value != 0 {
			list = append(list, slog.Int64(name, value))
		}
	}
	text("what", string(e.What))
	text("workflow", e.Workflow)
	number("workflow_version", e.WorkflowVersion)
	text("trigger", e.Trigger)
	text("key", e.Key)
	text("record", e.Record)
	text("context", e.Context)
	text("channel", e.Channel)
	text("sink", e.Sink)
	if e.Sink != "" {
		text("type", e.Kind)
	}
	number("step", int64(e.Step))
	number("attempt", int64(e.Attempt))
	text("reason", string(e.Reason))
	if !e.Until.IsZero() {
		list = append(list, slog.Time("until", e.Until))
	}
	text("into", e.Into)
	text("provider_id", e.ProviderID)
	text("error", e.Error)
	return list
}
