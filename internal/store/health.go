package store

import (
	"cmp"
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/subject"
)

// Queries about the health of a workspace. Their cost is bounded, however large the tables are.

// MaxRecent is how many of the newest deliveries Recent counts.
const MaxRecent = 50_000

// RecentCount is how many of the newest deliveries of a workflow on a channel are in a state, for a reason.
type RecentCount struct {
	Workflow, Channel string
	Status            delivery.Status
	Reason            reason.Reason
	N                 int64
	Resent            int64 // how many of them a person has sent again, as another delivery
}

const recentDeliveries = `
SELECT a.workflow, a.channel, a.status, a.reason, COUNT(*), COUNT(CASE WHEN a.resent = 1 THEN 1 END)
FROM (SELECT d.workflow, d.channel, ` + shownStatus + ` AS status, ` + shownReason + ` AS reason, d.resent FROM delivery AS d WHERE d.ws = $1 AND d.id >= $2 ORDER BY d.id DESC LIMIT $3) AS a
GROUP BY a.workflow, a.channel, a.status, a.reason
ORDER BY a.workflow, a.channel, a.status, a.reason`

// RecentCounts are the newest deliveries of a workspace, counted.
type RecentCounts struct {
	Counts []RecentCount
	More   bool // counting has stopped at MaxRecent deliveries: each number is a lower bound, and lines can be missing
}

// Recent counts the deliveries that were made at or after since, the newest MaxRecent of them.
func (s *Store) Recent(ctx context.Context, ws subject.WorkspaceID, since time.Time) (RecentCounts, error) {
	counts, err := all(ctx, s, "count the newest deliveries", func(rows *sql.Rows) (c RecentCount, err error) {
		return c, rows.Scan(&c.Workflow, &c.Channel, &c.Status, &c.Reason, &c.N, &c.Resent)
	}, recentDeliveries, int64(ws), floorID(since), s.recent)
	n := int64(0)
	for _, c := range counts {
		n += c.N
	}
	return RecentCounts{counts, n >= s.recent}, err
}

// Failures are the deliveries of a channel that have failed for one reason and that no person has sent again.
type Failures struct {
	Channel string
	Reason  reason.Reason
	N       int64
}

// Final reports whether another try would fail too.
func (f Failures) Final() bool { return f.Reason == reason.PermanentError }

// FailuresOf sums up the failed deliveries by channel and reason.
func FailuresOf(recent []RecentCount) []Failures {
	type of struct {
		channel string
		why     reason.Reason
	}
	sums := map[of]int64{}
	for _, r := range recent {
		if n := r.N - r.Resent; r.Status == delivery.Failed && n > 0 {
			sums[of{r.Channel, r.Reason}] += n
		}
	}
	out := make([]Failures, 0, len(sums))
	for k, n := range sums {
		out = append(out, Failures{k.channel, k.why, n})
	}
	slices.SortFunc(out, func(a, b Failures) int {
		return cmp.Or(cmp.Compare(a.Channel, b.Channel), cmp.Compare(a.Reason, b.Reason))
	})
	return out
}

// WaitingCount is how many deliveries of a workflow on a channel could have left and have not, for one reason.
type WaitingCount struct {
	Workflow, Channel string
	Reason            reason.Reason // why they were delayed last; empty: they were not delayed
	N                 int64
	Oldest            time.Time   // when the oldest of them could have left
	Example           delivery.ID // the one of them that was made first
}

// The limits ($3) bound the rows of all workspaces together, because the indexes hold all workspaces. So what is read of others is counted too, in one line:
// it shows whether a limit was reached.
const waitingLines = `
SELECT b.own, b.channel, b.workflow, b.reason, COUNT(*), SUM(b.delayed), MIN(b.since), MIN(b.id)
FROM (
  SELECT a.own, a.delayed, a.since, a.id, CASE WHEN a.own = 1 THEN a.channel ELSE '' END AS channel,
    CASE WHEN a.own = 1 THEN a.workflow ELSE '' END AS workflow, CASE WHEN a.own = 1 THEN a.reason ELSE '' END AS reason
  FROM (
    SELECT CASE WHEN l.ws = $1 THEN 1 ELSE 0 END AS own, 1 AS delayed, l.channel, l.workflow, l.reason, l.eligible_at AS since, l.id FROM (
      SELECT d.ws, d.id, d.channel, d.workflow, d.reason, d.eligible_at FROM delivery AS d
      WHERE d.eligible_at > 0 AND d.eligible_at <= $2 ORDER BY d.eligible_at, d.send_at LIMIT $3) AS l
    UNION ALL
    SELECT CASE WHEN m.ws = $1 AND m.eligible_at = 0 THEN 1 ELSE 0 END, 0, m.channel, m.workflow, m.reason, m.send_at, m.id FROM (
      SELECT d.ws, d.id, d.channel, d.workflow, d.reason, d.send_at, d.eligible_at FROM delivery AS d
      WHERE d.send_at > 0 AND d.hold <> ` + sqlHoldPaused + ` AND d.send_at <= $2 ORDER BY d.send_at, d.id LIMIT $3) AS m) AS a) AS b
GROUP BY b.own, b.channel, b.workflow, b.reason
ORDER BY MIN(b.since), b.channel, b.workflow, b.reason`

// WaitingCounts are the deliveries of a workspace that could have left, the oldest first.
type WaitingCounts struct {
	Counts []WaitingCount
	More   bool // counting has stopped at MaxTurns deliveries: each number is a lower bound, and lines can be missing
}

// WaitingCounts counts the deliveries of a workspace that could have left at now. It reads up to MaxTurns due deliveries and as
// many delayed ones, the oldest first.
func (s *Store) WaitingCounts(ctx context.Context, ws subject.WorkspaceID, now time.Time) (WaitingCounts, error) {
	type line struct {
		WaitingCount
		own     bool
		delayed int64
	}
	lines, err := all(ctx, s, "count what waits", func(rows *sql.Rows) (l line, err error) {
		return l, rows.Scan(&l.own, &l.Channel, &l.Workflow, &l.Reason, &l.N, &l.delayed, instant{&l.Oldest}, &l.Example)
	}, waitingLines, int64(ws), micros(now), s.turns)
	var w WaitingCounts
	due, delayed := int64(0), int64(0)
	for _, l := range lines {
		due, delayed = due+l.N-l.delayed, delayed+l.delayed
		if l.own {
			w.Counts = append(w.Counts, l.WaitingCount)
		}
	}
	w.More = due >= s.turns || delayed >= s.turns
	return w, err
}

// Attention counts rows of one kind that wait for a person or are late.
type Attention struct {
	What    string // AttentionHeld, AttentionUnknown, AttentionRuns, AttentionDue or AttentionRecords
	N       int64
	More    bool      // counting has stopped at MaxTurns rows: N is a lower bound
	Oldest  time.Time // since when the oldest of them waits; zero: not known
	Example int64     // the row that was made first
}

// Values of Attention.What.
const (
	AttentionHeld    = "held"    // instances that wait for a person
	AttentionUnknown = "unknown" // deliveries whose outcome is unknown
	AttentionRuns    = "runs"    // runs that have failed, and that no newer one does again
	AttentionDue     = "due"     // instances that are due
	AttentionRecords = "records" // records that wait for evaluation
)

// A run that a newer one does again cannot be resumed: it waits for nothing.
const failedRuns = `
SELECT '` + AttentionRuns + `', COUNT(*), COUNT(*), COALESCE(MIN(f.finished_at), 0), COALESCE(MIN(f.id), 0) FROM (
  SELECT j.id, j.finished_at FROM job AS j WHERE j.ws = $1 AND j.status = ` + sqlJobFailed + `
  AND NOT EXISTS (SELECT 1 FROM job AS n WHERE n.ws = j.ws AND n.kind = j.kind AND n.subject = j.subject AND n.id > j.id)
  ORDER BY j.id LIMIT $2) AS f`

// Each line has how many rows were read for it, too: due rows are found among those of all workspaces.
const standstills = `
SELECT '` + AttentionHeld + `', COUNT(*), COUNT(*), COALESCE(MIN(CASE WHEN a.held_at > 0 THEN a.held_at END), 0), COALESCE(MIN(a.id), 0) FROM (
  SELECT i.id, i.held_at FROM instance AS i WHERE i.ws = $1 AND i.hold <> '' AND i.hold <> ` + sqlInstancePaused + ` ORDER BY i.id LIMIT $2) AS a
UNION ALL SELECT '` + AttentionUnknown + `', COUNT(*), COUNT(*), COALESCE(MIN(CASE WHEN b.unknown_since > 0 THEN b.unknown_since END), 0), COALESCE(MIN(b.id), 0) FROM (
  SELECT d.id, d.unknown_since FROM delivery AS d WHERE d.ws = $1 AND d.status = ` + sqlUnknown + ` ORDER BY d.id LIMIT $2) AS b
UNION ALL SELECT '` + AttentionDue + `', COUNT(CASE WHEN c.ws = $1 THEN 1 END), COUNT(*), COALESCE(MIN(CASE WHEN c.ws = $1 THEN c.ready_at END), 0), COALESCE(MIN(CASE WHEN c.ws = $1 THEN c.id END), 0) FROM (
  SELECT i.ws, i.id, i.ready_at FROM instance AS i WHERE i.ready_at > 0 AND i.ready_at <= $3 ORDER BY i.ready_at, i.id LIMIT $2) AS c
UNION ALL SELECT '` + AttentionRecords + `', COUNT(CASE WHEN e.ws = $1 THEN 1 END), COUNT(*), COALESCE(MIN(CASE WHEN e.ws = $1 THEN e.evaluate_at END), 0), COALESCE(MIN(CASE WHEN e.ws = $1 THEN e.id END), 0) FROM (
  SELECT r.ws, r.id, r.evaluate_at FROM record AS r WHERE r.evaluate_at > 0 AND r.evaluate_at <= $3 ORDER BY r.evaluate_at, r.id LIMIT $2) AS e
UNION ALL` + failedRuns

// Attentions counts the rows of a workspace that wait for a person or are due at now, up to MaxTurns of each kind; of due rows
// the oldest ones are counted. Kinds without rows are left out.
func (s *Store) Attentions(ctx context.Context, ws subject.WorkspaceID, now time.Time) ([]Attention, error) {
	return s.attentions(ctx, standstills, int64(ws), s.turns, dueMicros(now))
}

// FailedRuns counts the runs of a workspace that have failed, as Attentions does; N is 0 when there are none.
func (s *Store) FailedRuns(ctx context.Context, ws subject.WorkspaceID) (Attention, error) {
	found, err := s.attentions(ctx, failedRuns, int64(ws), s.turns)
	if len(found) == 0 {
		return Attention{What: AttentionRuns}, err
	}
	return found[0], err
}

func (s *Store) attentions(ctx context.Context, text string, args ...any) ([]Attention, error) {
	list, err := all(ctx, s, "count waiting and late rows", func(rows *sql.Rows) (x Attention, err error) {
		var read int64
		err = rows.Scan(&x.What, &x.N, &read, instant{&x.Oldest}, &x.Example)
		x.More = read >= s.turns
		return x, err
	}, text, args...)
	return slices.DeleteFunc(list, func(x Attention) bool { return x.N == 0 }), err
}
