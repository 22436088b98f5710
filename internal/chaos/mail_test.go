package chaos_test

import (
	"os"
	"testing"

	"github.com/carillonhq/carillon/internal/chaos"
	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// Four processes on one database send mails to a server that refuses, drops and delays. Every attempt is what the
// server's own log says it was, every delivery ended as its attempts say, and every mail reads as it was rendered.
//
// Shows: C49, P3, P4.
func TestMails(t *testing.T) {
	t.Parallel()
	o := chaos.Options{
		DB: storetest.URL(t, "postgres"), Dialect: "postgres", Dir: t.TempDir(), Binary: os.Args[0], Workers: 4, Events: mailEvents,
		Seed: uint64((&clock.System{}).Now().UnixNano()), Limit: limit,
	}
	report, err := chaos.MailStorm(t.Context(), o)
	if err != nil || len(report.Violations) > 0 {
		showLogs(t, o.Dir)
	}
	if err != nil {
		t.Fatalf("seed %d: %v", o.Seed, err)
	}
	for i, v := range report.Violations {
		if i == 20 {
			t.Errorf("and %d more", len(report.Violations)-i)
			break
		}
		t.Errorf("seed %d: %s", o.Seed, v)
	}
	t.Logf("%d mails, %d tries, %d connections of which %d were turned away: %d sent, %d failed, %d unknown, %d copies, %d signatures hold, %.1f s; %v",
		report.Mails, report.Tries, report.Connections, report.TurnedAway, report.Sent, report.Failed, report.Unknown, report.Copies,
		report.Signed, report.Seconds, report.Turns)
	if len(report.Turns) < 10 || report.Unknown == 0 || report.Failed == 0 || report.Copies == 0 || report.TurnedAway == 0 {
		t.Errorf("the server's moods do not show: %+v", report)
	}
}
