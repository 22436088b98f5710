package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/carillonhq/carillon/client"
)

// The second act: this host is a record, and its present state shows how the trigger's cooldown and the contact's limits work.
const (
	hostType = "this-host"
	onCall   = "on-call" // the persona of the person who watches the demo
	// contextCooldown and personCooldown are short enough that both end during the demo.
	contextCooldown = 10 * time.Second
	personCooldown  = 20 * time.Second
	// evaluateWithin bounds the wait for the evaluation of a written record, which the write triggers.
	evaluateWithin = 30 * time.Second
)

// host holds figures from /proc.
type host struct {
	name   string
	memory float64 // percent in use
	tasks  int
}

// readHost reads the host; ok is false where there is no /proc to read.
func readHost() (h host, ok bool) {
	memory, err := os.ReadFile("/proc/meminfo")
	load, err2 := os.ReadFile("/proc/loadavg")
	name, err3 := os.Hostname()
	if errors.Join(err, err2, err3) != nil {
		return h, false
	}
	h.name = name
	return h, h.parse(string(memory), string(load))
}

func (h *host) parse(memory, load string) bool {
	kilobytes := map[string]float64{}
	for line := range strings.Lines(memory) {
		field, rest, _ := strings.Cut(line, ":")
		if words := strings.Fields(rest); len(words) > 0 {
			if n, err := strconv.ParseFloat(words[0], 64); err == nil {
				kilobytes[field] = n
			}
		}
	}
	words := strings.Fields(load)
	if len(words) < 4 || kilobytes["MemTotal"] == 0 {
		return false
	}
	_, all, _ := strings.Cut(words[3], "/")
	var err error
	h.tasks, err = strconv.Atoi(all)
	h.memory = float64(int(1000*(1-kilobytes["MemAvailable"]/kilobytes["MemTotal"]))) / 10
	return err == nil && h.tasks > 1 && h.memory > 1
}

// definitions returns definitions that watch the host with thresholds that it exceeds now: half of its present figures.
func (h host) definitions() client.File {
	return client.File{Name: "this-host.yaml", Text: fmt.Sprintf(`persona: %[1]s
cadence:
  cooldown: %[2]s
---
workflow: host-alert
type: alert
triggers:
  - id: busy
    record: %[3]s
    issues:
      MEMORY: record.memory_used_percent > %[4]d
      TASKS: record.tasks > %[5]d
    cooldown:
      length: %[6]s
audience:
  - persona: %[1]s
channel: inbox
message:
  inbox:
    subject: "{{ record.name }}: {{ issues | join: ', ' }}"
    text: |
      Memory in use: {{ record.memory_used_percent }} %%
`, onCall, personCooldown, hostType, h.memoryLimit(), h.tasksLimit(), contextCooldown)}
}

func (h host) memoryLimit() int { return int(h.memory / 2) }
func (h host) tasksLimit() int  { return h.tasks / 2 }

// act returns the writes of the second act, each with a note about what it shows.
func (h host) act() []batch {
	report := func(n int, tasks bool) *client.RecordInput {
		props := map[string]any{"name": h.name, "memory_used_percent": h.memory, "report": n}
		if tasks {
			props["tasks"] = h.tasks
		}
		return &client.RecordInput{Type: hostType, ID: h.name, Props: props}
	}
	over := report(3, true)
	over.Closed = new(true)
	return []batch{
		{
			note:   fmt.Sprintf("This host is a record: %.1f %% of its memory are in use, and host-alert warns about more than %d %%.", h.memory, h.memoryLimit()),
			record: report(1, false),
		},
		{note: fmt.Sprintf("It reports the same again: gate 1, the cooldown of %s of this alert.", contextCooldown), record: report(2, false)},
		{
			note:   fmt.Sprintf("It also runs %d tasks: another alert, which gate 1 lets through; gate 2 leaves you %s between two messages.", h.tasks, personCooldown),
			record: report(3, true),
		},
		{note: "The record is closed, so nothing more is made of it; what was planned still goes out.", record: over},
	}
}

// write writes a record and waits until it has been evaluated, so that the effects of two writes stay separate.
func (d *demo) write(ctx context.Context, in client.RecordInput) error {
	if _, err := d.api.PutRecord(ctx, in); err != nil {
		return fmt.Errorf("write a record: %w", err)
	}
	for limit := d.clock.Now().Add(evaluateWithin); d.clock.Now().Before(limit); {
		got, err := d.api.Record(ctx, in.Type, in.ID)
		if err != nil {
			return fmt.Errorf("read a record: %w", err)
		}
		if got.ChangedAt.IsZero() {
			return nil
		}
		if err := d.rest(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
	return errors.New("a record was not looked at")
}
