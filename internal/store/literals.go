package store

import (
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/job"
	"github.com/carillonhq/carillon/internal/outbox"
	"github.com/carillonhq/carillon/internal/reason"
)

// The statuses, kinds and reasons that statements name, as texts in SQL. No statement spells one itself (TestStatementsSpellNoStatus).
const (
	sqlCancelled  = "'" + string(delivery.Cancelled) + "'"
	sqlExpired    = "'" + string(delivery.Expired) + "'"
	sqlFailed     = "'" + string(delivery.Failed) + "'"
	sqlOpened     = "'" + string(delivery.Opened) + "'"
	sqlResponded  = "'" + string(delivery.Responded) + "'"
	sqlScheduled  = "'" + string(delivery.Scheduled) + "'"
	sqlSent       = "'" + string(delivery.Sent) + "'"
	sqlSkipped    = "'" + string(delivery.Skipped) + "'"
	sqlSuperseded = "'" + string(delivery.Superseded) + "'"
	sqlUnknown    = "'" + string(delivery.Unknown) + "'"

	sqlFoldHead        = "'" + string(delivery.FoldHead) + "'"
	sqlFoldMember      = "'" + string(delivery.FoldMember) + "'"
	sqlFolded          = "'" + string(delivery.Folded) + "'"
	sqlHoldChannelDown = "'" + string(delivery.HoldChannelDown) + "'"
	sqlHoldInactive    = "'" + string(delivery.HoldInactive) + "'"
	sqlHoldNoChannel   = "'" + string(delivery.HoldNoChannel) + "'"
	sqlHoldPaused      = "'" + string(delivery.HoldPaused) + "'"
	sqlHoldRate        = "'" + string(delivery.HoldRate) + "'"

	sqlInstancePaused = "'" + string(instance.HoldPaused) + "'"
	sqlFromEvent      = "'" + string(instance.FromEvent) + "'"
	sqlFromSchedule   = "'" + string(instance.FromSchedule) + "'"

	sqlCompleted   = "'" + string(instance.Completed) + "'"
	sqlDeactivated = "'" + string(instance.Deactivated) + "'"
	sqlPending     = "'" + string(instance.Pending) + "'"

	sqlJobRunning = "'" + string(job.Running) + "'"
	sqlJobFailed  = "'" + string(job.Failed) + "'"
	sqlLimits     = "'" + string(job.Limits) + "'"
	sqlGroups     = "'" + string(job.Groups) + "'"
	sqlReconcile  = "'" + string(job.Reconcile) + "'"

	sqlSessionEnded   = "'" + string(delivery.SessionEnded) + "'"
	sqlSessionEnding  = "'" + string(delivery.SessionEnding) + "'"
	sqlSessionWaiting = "'" + string(delivery.SessionWaiting) + "'"
	sqlSessionOpen    = "'" + string(delivery.SessionOpen) + "'"

	sqlDispatchDead    = "'" + string(outbox.Dead) + "'"
	sqlDispatchPending = "'" + string(outbox.Pending) + "'"
	sqlSinkActive      = "'" + string(outbox.Active) + "'"

	sqlCancelledByPerson = "'" + string(reason.CancelledByPerson) + "'"

	sqlReplaced       = "'" + string(reason.SessionReplaced) + "'"
	sqlNeverSettled   = "'" + string(reason.NeverSettled) + "'"
	sqlNoChannel      = "'" + string(reason.NoChannel) + "'"
	sqlNoResponse     = "'" + string(reason.NoResponse) + "'"
	sqlWorkflowPaused = "'" + string(reason.WorkflowPaused) + "'"
)
