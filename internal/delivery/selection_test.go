package delivery

import (
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/reason"
)

// Without a status neither a retry nor a cancel touches deliveries that were sent, and a retry does not touch those that are not yet due.
func TestSelection(t *testing.T) {
	t.Parallel()
	all := map[string]Row{
		"failed":            {Status: Failed},
		"failed, and again": {Status: Failed, Resent: true},
		"retried later":     {Status: Scheduled, SendAt: now.Add(time.Hour), EligibleAt: now},
		"without a channel": {Status: Scheduled, Hold: HoldNoChannel, Reason: reason.NoChannel, EligibleAt: now},
		"not yet due":       {Status: Scheduled, SendAt: now.Add(time.Hour)},
		"parked":            {Status: Scheduled, SendAt: now, Hold: HoldPaused},
		"sent":              {Status: Sent},
		"reminder to come":  {Status: Sent, SendAt: now.Add(time.Hour)},
		"reminder delayed":  {Status: Sent, SendAt: now.Add(time.Hour), EligibleAt: now},
		"unknown":           {Status: Unknown},
		"cancelled":         {Status: Cancelled},
		"responded":         {Status: Responded},
	}
	for _, c := range []struct {
		name          string
		selection     Selection
		retry, cancel []string
	}{
		{"of a workflow", Selection{Workflow: "w"}, []string{"failed", "retried later", "without a channel", "reminder delayed"}, []string{
			"retried later", "without a channel", "not yet due", "parked", "reminder to come", "reminder delayed",
		}},
		{"with a status", Selection{Workflow: "w", Statuses: []Status{Unknown, Sent}}, []string{"sent", "reminder to come", "reminder delayed", "unknown"}, []string{
			"sent", "reminder to come", "reminder delayed", "unknown",
		}},
		{"for a reason", Selection{Reason: reason.NoChannel}, []string{"without a channel"}, []string{"without a channel"}},
		{"of another workflow", Selection{Workflow: "v"}, nil, nil},
		{"of another channel", Selection{Channel: "sms:b"}, nil, nil},
		{"planned before", Selection{Until: now}, nil, nil},
		{"planned later", Selection{Since: now.Add(1)}, nil, nil},
		{"planned then", Selection{Since: now, Until: now.Add(1)}, []string{"failed", "retried later", "without a channel", "reminder delayed"}, []string{
			"retried later", "without a channel", "not yet due", "parked", "reminder to come", "reminder delayed",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for name, row := range all {
				row.Workflow, row.Channel, row.NotBefore = "w", "sms:a", now
				for verb, found := range map[string][2]bool{"retry": {c.selection.ToRetry(row), in(c.retry, name)}, "cancel": {c.selection.ToCancel(row), in(c.cancel, name)}} {
					if found[0] != found[1] {
						t.Errorf("%s of what is %s: %v", verb, name, found[0])
					}
				}
			}
		})
	}
	for want, s := range map[string]Selection{
		"name at least one of workflow, channel, reason, status, since and until": {},
		"until is not after since":          {Since: now, Until: now},
		`"late" is no status of a delivery`: {Statuses: []Status{"late"}},
		"":                                  {Reason: reason.NoChannel},
	} {
		if _, got := s.Check(); got != want {
			t.Errorf("%+v: %q, want %q", s, got, want)
		}
	}
	if got, want := (Selection{Channel: "sms:a", Reason: "no_channel", Statuses: []Status{Failed}, Since: now}).String(), "channel sms:a, reason no_channel, status failed, since "+now.Format(time.RFC3339); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func in(list []string, one string) bool {
	for _, s := range list {
		if s == one {
			return true
		}
	}
	return false
}
