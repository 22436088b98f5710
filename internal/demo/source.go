package demo

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/carillonhq/carillon/client"
)

// history is how many changes of the log are posted: half a minute at the usual pace.
const history = 200

//go:embed sample.log
var sample []byte

// source is where changes of packages come from: the log of this host, or the shipped sample.
type source struct {
	path string // empty: the sample
	read int64  // bytes of the file that have been posted
}

// open reads the changes in the log so far.
func open(path string) (*source, []change, error) {
	f, err := os.Open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		changes, _, err := lastChanges(bytes.NewReader(sample), history)
		return &source{}, changes, err
	case err != nil:
		return nil, nil, fmt.Errorf("open the log of packages: %w", err)
	}
	defer f.Close()
	changes, read, err := lastChanges(f, history)
	if err == nil && len(changes) == 0 {
		changes, _, err = lastChanges(bytes.NewReader(sample), history)
		return &source{}, changes, err
	}
	return &source{path: path, read: read}, changes, err
}

// more returns the changes that were written to the log since the last call. A log that was rotated is read from its beginning.
func (s *source) more() ([]change, error) {
	if s.path == "" {
		return nil, nil
	}
	f, err := os.Open(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // it is being rotated
	}
	if err != nil {
		return nil, fmt.Errorf("open the log of packages: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("look at the log of packages: %w", err)
	}
	if info.Size() < s.read {
		s.read = 0
	}
	const most = 1 << 20
	text := make([]byte, min(info.Size()-s.read, most))
	n, err := f.ReadAt(text, s.read)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read the log of packages: %w", err)
	}
	whole := bytes.LastIndexByte(text[:n], '\n') + 1 // a line that is still being written waits
	changes, _, err := lastChanges(bytes.NewReader(text[:whole]), client.MaxEvents)
	s.read += int64(whole)
	return changes, err
}

// batch is posted in one request, after a comment.
type batch struct {
	note   string
	events []client.Event
	record *client.RecordInput // instead of events
	answer bool                // instead of events: somebody answers a survey
}

// How many package changes are posted at once: few, so that they can be followed, and fewer between the parts of the story.
const (
	batchSize  = 4
	firstBatch = 2
)

// story returns the batches of the demo: the package changes in small batches and, between them, visits to a workshop (one of them
// twice, one that matches no workflow), a car that was sold 55 days ago, and an invoice whose date moves. The second act follows.
func story(changes []change, now time.Time, act []batch) []batch {
	visit := func(note, wip, jobType, address, locale, ref string) batch {
		return batch{note: note, events: []client.Event{{
			Kind:      "service-visit-closed",
			Payload:   map[string]string{"wip": wip, "dealerId": "1", "jobType": jobType},
			Recipient: &client.Recipient{Address: address, Locale: locale, CustomerRef: ref},
		}}}
	}
	asides := []batch{
		visit("A service visit is closed: a survey now, a reminder tomorrow.", "40956", "GR", "+964 770 000 0001", "ar", "cust-123"),
		visit("The same visit is reported again.", "40956", "GR", "+964 770 000 0001", "ar", "cust-123"),
		visit("A visit of job type PM, which the workflow filters out.", "40957", "PM", "+964 770 000 0002", "ar", "cust-124"),
		visit("Another visit, of somebody who reads English.", "40958", "GR", "+44 20 7946 0003", "en", "cust-125"),
		{note: "A car that was invoiced 55 days ago: the survey goes out on the 60th day.", events: []client.Event{{
			Kind: "vehicle-invoiced", OccurredAt: now.AddDate(0, 0, -55).Truncate(time.Second),
			Payload:   map[string]string{"dealerId": "1", "salesInvoiceNumber": "SI-7001"},
			Recipient: &client.Recipient{Address: "+964 770 000 0004", Locale: "en", CustomerRef: "cust-126"},
		}}},
	}
	asides = append(slices.Concat(asides, invoice(now)), act...)
	asides = append(asides, batch{note: "The second visitor answers the survey with a complaint, which the workflow routes to three sinks.", answer: true})
	var out []batch
	for i := 0; len(changes) > 0 || i < len(asides); i++ {
		n := min(batchSize, len(changes))
		if i < len(asides) {
			n = min(firstBatch, len(changes))
		}
		if n > 0 {
			b := batch{}
			for _, c := range changes[:n] {
				b.events = append(b.events, c.event())
			}
			changes = changes[n:]
			out = append(out, b)
		}
		if i < len(asides) {
			out = append(out, asides[i])
		}
	}
	return out
}

// invoice returns the writes of an invoice, whose reminders follow its date.
func invoice(now time.Time) []batch {
	write := func(note, status string, days int) batch {
		return batch{note: note, record: &client.RecordInput{Type: "invoice", ID: "INV-7", Props: map[string]any{
			"number": "INV-7", "status": status, "amount": 120, "payer_id": "cust-127", "centre": "berlin",
			"due_date": now.AddDate(0, 0, days).Format(time.DateOnly),
		}}}
	}
	return []batch{
		{
			note:   "A business unit that the next record names: its reminders are sent at 08:30 there.",
			record: &client.RecordInput{Type: "centre", ID: "berlin", Props: map[string]any{"name": "Berlin", "timezone": "Europe/Berlin"}},
		},
		write("An invoice that is due in 10 days: reminders are planned, 7 days before and 3 days after.", "open", 10),
		write("Its due date moves by a week: the planned reminders are withdrawn and planned again.", "open", 17),
		write("It is paid: nothing is left to remind of.", "paid", 17),
	}
}

// follow posts new changes from the log until ctx ends.
func (s *source) follow(ctx context.Context, wait func(context.Context) error, post func(context.Context, batch) error) error {
	for wait(ctx) == nil {
		changes, err := s.more()
		if err != nil {
			return err
		}
		for len(changes) > 0 {
			n := min(client.MaxEvents, len(changes))
			b := batch{}
			for _, c := range changes[:n] {
				b.events = append(b.events, c.event())
			}
			changes = changes[n:]
			if err := post(ctx, b); err != nil {
				return err
			}
		}
	}
	return nil
}
