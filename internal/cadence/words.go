package cadence

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/reason"
)

// The words for limits: what a definition writes, the API says, and the console, the command line and the time machine show.

// Value returns the limit as it is written in a definition.
func (u Use) Value() string {
	switch u.Limit {
	case LimitCooldown:
		return written(u.Length)
	case LimitQuietHours, LimitSendWindow:
		return u.Quiet.String()
	case LimitType, LimitMaxPerDay, LimitMaxPerWeek, LimitMaxPerMonth, LimitMaxPerSlot, LimitTotalDay, LimitTotalWeek, LimitTotalMonth:
	}
	return strconv.Itoa(u.Most)
}

// Sentence describes the limit at an instant, such as "cooldown until 16:00" and "3 of 3 alerts today, free again 2026-05-15 00:00".
// Instants are written in the zone loc, with their date if it is another day.
func (u Use) Sentence(at time.Time, loc *time.Location) string {
	free := "no instant in a year"
	if !u.Free.IsZero() {
		free = ClockTime(u.Free, at, loc)
	}
	waits := !u.Free.Equal(at)
	switch {
	case u.Limit == LimitCooldown && waits:
		return "cooldown until " + free
	case u.Limit == LimitMaxPerSlot && waits:
		return "the instant is taken, free again " + free
	case u.Limit == LimitQuietHours && waits:
		return "quiet hours until " + free
	case u.Limit == LimitSendWindow && waits:
		return "outside of the send window until " + free
	case u.Limit == LimitCooldown:
		return "no cooldown"
	case u.Limit == LimitMaxPerSlot, u.Limit == LimitQuietHours, u.Limit == LimitSendWindow:
		return "free"
	}
	text := fmt.Sprintf("%d of %d %s", u.Used, u.Most, u.window())
	if u.Limit.Total() {
		text += " over all channels"
	}
	if waits {
		text += ", free again " + free
	}
	return text
}

// window returns the name of a cap's window.
func (u Use) window() string {
	switch {
	case u.Limit == LimitType && u.Rolling:
		return u.Messages() + " in 24 hours"
	case u.Limit == LimitType:
		return u.Messages() + " today"
	case (u.Limit == LimitMaxPerDay || u.Limit == LimitTotalDay) && u.Rolling:
		return "in 24 hours"
	case u.Limit == LimitMaxPerDay, u.Limit == LimitTotalDay:
		return "today"
	case (u.Limit == LimitMaxPerWeek || u.Limit == LimitTotalWeek) && u.Rolling:
		return "in 7 days"
	case u.Limit == LimitMaxPerWeek, u.Limit == LimitTotalWeek:
		return "this week"
	case u.Rolling:
		return "in 30 days"
	}
	return "this month"
}

// Messages returns the name of the messages that a limit counts, such as alerts.
func (u Use) Messages() string {
	switch u.Type {
	case "":
		return "messages"
	case "alert", "reminder", "report", "survey", "broadcast", "digest", "notice":
		return u.Type + "s"
	}
	return u.Type + " messages"
}

// ClockTime writes an instant as the clocks of loc show it, with its date if it is on another day than at.
func ClockTime(t, at time.Time, loc *time.Location) string {
	t, at = t.In(loc), at.In(loc)
	layout := "15:04"
	if t.Second() != 0 {
		layout = time.TimeOnly
	}
	if t.Format(time.DateOnly) != at.Format(time.DateOnly) {
		layout = time.DateOnly + " " + layout
	}
	return t.Format(layout)
}

// Name is what the limit is called, such as "messages a day".
func (u Use) Name() string {
	if u.Type != "" {
		return u.Messages() + " a day"
	}
	switch u.Limit {
	case LimitMaxPerSlot:
		return "messages at once"
	case LimitMaxPerDay:
		return "messages a day"
	case LimitMaxPerWeek:
		return "messages a week"
	case LimitMaxPerMonth:
		return "messages a month"
	case LimitTotalDay:
		return "messages a day over all channels"
	case LimitTotalWeek:
		return "messages a week over all channels"
	case LimitTotalMonth:
		return "messages a month over all channels"
	case LimitCooldown, LimitQuietHours, LimitType, LimitSendWindow:
	}
	return strings.ReplaceAll(string(u.Limit), "_", " ")
}

// Called is a limit in words, as what a message waits for.
func Called(limit reason.Reason) string {
	return cmp.Or(map[reason.Reason]string{
		reason.CadenceCooldown: "the cooldown", reason.CadenceTypeDaily: "the day's limit of its type", reason.CadenceDaily: "the day's limit",
		reason.CadenceWeekly: "the week's limit", reason.CadenceMonthly: "the month's limit",
		reason.QuietHours: "the end of the quiet hours", reason.SendWindow: "the send window",
	}[limit], string(limit))
}
