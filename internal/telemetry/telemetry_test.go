package telemetry_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/telemetry"
)

func TestLogJournal(t *testing.T) {
	t.Parallel()
	entry := journal.Entry{
		Workflow: "csi-gr", Key: "survey:csi-gr:event:1", Channel: "sms:twilio", Step: 1, Attempt: 2,
		Address: "+964 770 000 0001", Text: "your code is 1234", Subject: "private", Contact: "cust-123",
		Until: time.Date(2026, 5, 14, 5, 17, 0, 0, time.UTC),
	}
	tests := []struct {
		name   string
		what   journal.What
		reason reason.Reason
		level  string
		record string
	}{
		{"sent", journal.Sent, reason.Delivered, "DEBUG", ""},
		{"a retry is a warning by its reason", journal.Retried, reason.TemporaryError, "WARN", ""},
		{"held", journal.Held, reason.InputConflict, "WARN", ""},
		{"a person's action", journal.Cancelled, reason.CancelledByPerson, "INFO", ""},
		{"a skip is no warning", journal.Skipped, reason.Duplicate, "DEBUG", ""},
		{"who is not known", journal.Replied, reason.UnknownSender, "INFO", ""},
		{"a reply that is handed in again", journal.Replied, reason.Duplicate, "DEBUG", ""},
		{"what is wrong and nobody hears of", journal.Skipped, reason.NoRecipient, "INFO", "kiosk/1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			log, err := telemetry.NewLog(&out, "debug", "json")
			if err != nil {
				t.Fatal(err)
			}
			entry := entry
			entry.What, entry.Reason, entry.Record = tt.what, tt.reason, tt.record
			telemetry.LogJournal(log)(entry)
			var line map[string]any
			if err := json.Unmarshal(out.Bytes(), &line); err != nil {
				t.Fatal(err)
			}
			if line["level"] != tt.level || line["what"] != string(tt.what) || line["reason"] != string(tt.reason) ||
				line["key"] != entry.Key || line["until"] != "2026-05-14T05:17:00Z" {
				t.Errorf("got %v", line)
			}
			for _, private := range []string{entry.Address, entry.Text, entry.Subject, entry.Contact} {
				if strings.Contains(out.String(), private) {
					t.Errorf("the log holds %q: %s", private, out.String())
				}
			}
		})
	}
}

func TestNewLogRefuses(t *testing.T) {
	t.Parallel()
	for _, tt := range [][2]string{{"loud", "text"}, {"info", "xml"}} {
		if _, err := telemetry.NewLog(&bytes.Buffer{}, tt[0], tt[1]); err == nil {
			t.Errorf("%v was taken", tt)
		}
	}
}
