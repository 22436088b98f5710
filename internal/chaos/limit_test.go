package chaos_test

import (
	"os"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/internal/chaos"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// Eight processes on one database give few people more than their limits allow. By the provider's log no limit is
// broken, whatever fails and dies meanwhile, no message is lost without a reason, and none comes twice.
//
// Shows: A31, A32, A33, A34, A39, A5, A11.
func TestLimits(t *testing.T) {
	t.Parallel()
	for _, database := range storetest.EveryDatabase(t) {
		t.Run("storm/"+database, func(t *testing.T) {
			t.Parallel()
			notTwice(t, database)
			report := limitStorm(t, database, os.Args[0], nil)
			for _, v := range report.Violations {
				t.Errorf("seed %d: %s", report.Seed, v)
			}
			if n := report.Lost + report.Doubled + report.Broken + report.Overbooked + report.Refired; n > len(report.Violations) {
				t.Errorf("and %d more", n-len(report.Violations))
			}
			if zero := report.Unproven(); len(zero) > 0 {
				t.Errorf("stayed at zero: %s", strings.Join(zero, ", "))
			}
		})
	}
}

// A store whose processes do not wait for each other, or that counts no slots, is found out.
func TestLimitsSabotaged(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"nolock", "noslots"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			var report chaos.LimitReport
			for range 5 { // without a lock it is a matter of luck who meets whom
				report = limitStorm(t, "postgres", sabotaged.path(t), func(o *chaos.Options) {
					o.Name, o.Env, o.Workers, o.Events, o.Kills, o.Single = what, sabotage(what), 4, 300, 0, true
				})
				if report.Broken+report.Overbooked > 0 {
					return
				}
			}
			t.Errorf("seed %d: not found out: %+v", report.Seed, report)
		})
	}
}

func limitStorm(t *testing.T, database, binary string, change func(*chaos.Options)) chaos.LimitReport {
	t.Helper()
	o := storm(t, database, binary)
	o.Name, o.Events, o.Kills = "limits", limitEvents, limitKills
	if o.Workers > 1 {
		o.Workers = 8
	} else {
		o.Kills /= 2 // each stops all work
	}
	if change != nil {
		change(&o)
	}
	report, err := chaos.LimitStorm(t.Context(), o)
	if err != nil {
		t.Fatalf("seed %d: %v", o.Seed, err)
	}
	t.Logf("%s on %s, %d processes, seed %d: %d events, %d messages accepted, %d lost, %d doubled, %d beyond a limit, %d places beyond a limit, "+
		"%d alerts too soon; %d judged, %d in the last place of a window, %d unknown (%d late), %d repeats, %d alerts, %d kills, %d posts broken, %.1f s; waiting %v, ended %v, moods %v",
		report.Name, report.Database, report.Workers, report.Seed, report.Events, report.Accepted, report.Lost, report.Doubled, report.Broken, report.Overbooked,
		report.Refired, report.Judged, report.AtLimit, report.Unknown, report.Late, report.Repeats, report.Alerts, report.Kills, report.PostsLost, report.Seconds,
		report.Waiting, report.Endings, report.Moods)
	return report
}
