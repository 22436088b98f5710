package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/admission"
	"github.com/carillonhq/carillon/internal/cadence"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/feedback"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/strictjson"
	"github.com/carillonhq/carillon/internal/trace"
)

// tone is the colour of a word. It only repeats what the word says.
type tone string

const (
	good  tone = "good"  // it went on as it should
	wait  tone = "wait"  // later
	quiet tone = "quiet" // ended rightly, nothing to do
	hold  tone = "hold"  // a person, or another try
	bad   tone = "bad"   // went wrong
	odd   tone = "odd"   // outcome unknown
)

// badge is a state in one word.
type badge struct {
	tone tone
	word string
}

func deliveryTone(s delivery.Status) tone {
	switch s {
	case delivery.Scheduled:
		return wait
	case delivery.Sent, delivery.Opened, delivery.Responded:
		return good
	case delivery.Failed:
		return bad
	case delivery.Unknown:
		return odd
	case delivery.Expired, delivery.Skipped, delivery.Superseded, delivery.Cancelled:
		return quiet
	}
	return quiet
}

func instanceTone(s instance.Status) tone {
	switch s {
	case instance.Pending:
		return wait
	case instance.Completed:
		return good
	case instance.Failed:
		return bad
	case instance.Deactivated, instance.Cancelled, instance.Skipped:
		return quiet
	}
	return quiet
}

func reasonTone(r reason.Reason) tone {
	info, _ := reason.Lookup(r)
	switch info.Class {
	case reason.Progress:
		return good
	case reason.Wait:
		return wait
	case reason.Held:
		return hold
	case reason.Failure, reason.Rejected:
		return bad
	case reason.Unknown:
		return odd
	case reason.NoMatch, reason.Skip, reason.Stop:
		return quiet
	}
	return quiet
}

func journalTone(w journal.What) tone {
	switch w {
	case journal.Created, journal.Sent, journal.Expanded, journal.Released, journal.Opened, journal.Responded, journal.Replied, journal.Dispatched:
		return good
	case journal.Planned, journal.Deferred, journal.Throttled, journal.Returned, journal.Moved:
		return wait
	case journal.Retried, journal.Held, journal.Reclaimed, journal.PassedOver, journal.StaleRefused, journal.DispatchFailed:
		return hold
	case journal.Failed, journal.Rejected, journal.Dead:
		return bad
	case journal.Unknown:
		return odd
	case journal.Skipped, journal.Folded, journal.NoMatch, journal.Withdrawn, journal.Cancelled, journal.Expired, journal.Forgotten:
		return quiet
	}
	return quiet
}

// words turns a snake_case name into words.
func words(name string) string { return strings.ReplaceAll(name, "_", " ") }

// deliveryBadge is the state of a delivery at now. Sending and deferred are no statuses of their own: a lease and an
// open intent make the first, a limit the second.
func deliveryBadge(d delivery.Row, ahead admission.Outlook, now time.Time) badge {
	switch {
	case sending(d, now):
		return badge{wait, "sending"}
	case d.Status == delivery.Scheduled && ahead.Reason == reason.WorkflowPaused: // whatever limit it waits for besides
		return badge{hold, "paused"}
	case d.Status == delivery.Scheduled && trace.WaitsFor(d) != "":
		return badge{wait, "deferred"}
	case d.Status == delivery.Scheduled && d.Hold == delivery.HoldNoChannel:
		return badge{bad, "no channel"}
	case d.Status == delivery.Scheduled && d.Hold == delivery.HoldChannelDown:
		return badge{hold, "provider away"}
	}
	return badge{deliveryTone(d.Status), string(d.Status)}
}

func sending(d delivery.Row, now time.Time) bool {
	return d.LeaseUntil.After(now) && !d.IntentAt.IsZero()
}

func instanceBadge(i instance.Row) badge {
	if i.Held() {
		return badge{hold, "held"}
	}
	if !i.CancelledAt.IsZero() {
		i.Status = instance.Cancelled
	}
	return badge{instanceTone(i.Status), string(i.Status)}
}

// stepName is what the step-th message of a delivery is called.
func stepName(step int) string {
	if step <= 1 {
		return "message"
	}
	return fmt.Sprintf("reminder %d", step-1)
}

// comes is stepName at the beginning of a sentence about what is ahead.
func comes(step int) string {
	if step <= 1 {
		return "The message"
	}
	return capital(stepName(step))
}

func capital(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

func plural(n int64, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return number(n) + " " + more
}

// number writes a count with a comma at every thousand.
func number(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// atLeast is a number, marked if counting has stopped there.
func atLeast(n int64, more bool) string {
	if more {
		return number(n) + "+"
	}
	return number(n)
}

// some is a number of which there is one; empty: there are none.
func some(n int) string {
	if n == 0 {
		return ""
	}
	return number(int64(n))
}

// channelName is a channel as people write it: default is understood.
func channelName(channel string) string { return strings.TrimSuffix(channel, ":default") }

// to is the person of a delivery as people know them.
func to(d delivery.Row) string {
	switch {
	case d.Address != "":
		return d.Address
	case d.CustomerRef != "":
		return d.CustomerRef
	}
	return "nobody"
}

// why is the sentence that explains the present state; empty when nothing is out of the ordinary.
func why(d delivery.Row) string {
	switch {
	case d.StopReason != "" && d.CompletedAt.IsZero():
		return d.StopReason.Sentence()
	case trace.WaitsFor(d) != "":
		sentence := d.DeferredBy.Sentence()
		if last := trace.WaitsFor(d); last != d.DeferredBy {
			sentence += " In the end it waits for " + cadence.Called(last) + "."
		}
		return sentence
	case d.Reason != "":
		return d.Reason.Sentence()
	}
	return ""
}

// phrase is a sentence about a row with the instant that it turns on, such as "The next goes out at" an instant.
type phrase struct {
	text string
	at   time.Time // zero: the text is all
	rest string    // after the instant
}

// stopped reports whether nobody can say when a message leaves.
func stopped(ahead admission.Outlook) bool {
	return ahead.At.IsZero() || ahead.Reason == reason.ChannelDown
}

// besides is the sentence about a provider that is away, while something else keeps a message for longer.
func besides(ahead admission.Outlook) string {
	if ahead.Away {
		return " Besides, its provider is away now."
	}
	return ""
}

// story describes the state of a delivery in sentences. pause is the pause of its workflow, or the zero value.
func story(d delivery.Row, ahead admission.Outlook, planned bool, pause store.Pause, now time.Time) []phrase {
	var said []phrase
	say := func(text string, at time.Time, rest string) { said = append(said, phrase{text, at, rest}) }
	if !d.LastSentAt.IsZero() && d.Status != delivery.Failed {
		say(capital(stepName(d.Step))+" sent at", d.LastSentAt, ".")
	}
	switch d.Status {
	case delivery.Scheduled, delivery.Sent, delivery.Opened:
		switch {
		case sending(d, now):
			if d.StopReason != "" {
				say("It is being sent, and may arrive. Nothing follows it: "+d.StopReason.Sentence(), time.Time{}, "")
				break
			}
			say("It is being sent.", time.Time{}, "")
		case planned && ahead.Reason == reason.WorkflowPaused && pause.Workflow != "":
			because := ""
			if pause.Why != "" {
				because = " (" + pause.Why + ")"
			}
			say(comes(d.Step+1)+" is held: "+pause.Actor+" paused its workflow at", pause.PausedAt, because+". It goes on with carillon workflows resume "+pause.Workflow)
		case planned && ahead.Reason == reason.WorkflowPaused:
			say(comes(d.Step+1)+" is held until its workflow goes on. "+ahead.Reason.Sentence(), time.Time{}, "")
		case planned && ahead.Reason == reason.NoChannel:
			say(comes(d.Step+1)+" cannot leave: the channel "+channelName(d.Channel)+" is not defined. Define it, then retry the delivery.", time.Time{}, "")
		case planned && ahead.At.IsZero():
			say(comes(d.Step+1)+" waits. "+ahead.Reason.Sentence(), time.Time{}, "")
		case planned && ahead.Reason == reason.ChannelDown:
			say(comes(d.Step+1)+" waits for its channel, whose provider is away. It is tried again when that is back, not before", ahead.At, ".")
		case trace.WaitsFor(d) != "":
			what := "It"
			if d.Step > 0 {
				what = comes(d.Step + 1)
			}
			say(what+" waits until", d.SendAt, ". "+why(d)+besides(ahead))
		case planned && d.RetryCount > 0:
			say(fmt.Sprintf("%s did not get through. The next try is at", plural(int64(d.RetryCount), "try", "tries")), d.SendAt, ". "+why(d)+besides(ahead))
		case planned && ahead.Reason != "":
			say(comes(d.Step+1)+" goes out at", ahead.At, " at the earliest. "+ahead.Reason.Sentence()+besides(ahead))
		case planned:
			say(comes(d.Step+1)+" goes out at", ahead.At, "."+besides(ahead))
		case d.CompletedAt.IsZero() && d.Reason != "" && d.Reason != reason.Delivered:
			say("Nothing is planned. "+why(d), time.Time{}, "")
		}
		switch {
		case d.ExpiresAt.IsZero():
		case planned:
			say("It is given up at", d.ExpiresAt, ".")
		default:
			say("An answer counts until", d.ExpiresAt, ".")
		}
		if d.CompletedAt.IsZero() || d.Reason == "" || d.Reason == reason.Delivered {
			break
		}
		say("Nothing follows. "+why(d), time.Time{}, "")
	case delivery.Unknown:
		say(why(d)+" A person, or the provider's word, settles it.", time.Time{}, "")
	case delivery.Responded, delivery.Expired, delivery.Skipped, delivery.Failed, delivery.Superseded, delivery.Cancelled:
		say(capital(string(d.Status))+" at", d.CompletedAt, ". "+why(d))
	}
	return said
}

// moment is one point of a timeline.
type moment struct {
	at     time.Time
	badge  badge
	text   string
	detail string
	ahead  bool
}

// timeline is the life of a delivery: what happened, then what is planned.
func timeline(d delivery.Row, in instance.Row, attempts []delivery.Attempt, receipts []store.Receipt, ahead admission.Outlook) []moment {
	var line []moment
	add := func(at time.Time, b badge, text, detail string) {
		if !at.IsZero() {
			line = append(line, moment{at: at, badge: b, text: text, detail: detail})
		}
	}
	add(in.CreatedAt, badge{quiet, "occasion"}, "Trigger "+d.Trigger+" of "+d.Workflow+" found it.", "")
	planned := "To leave through " + channelName(d.Channel) + "."
	if d.NotBefore.After(d.CreatedAt) {
		planned = "It waits for its time."
	}
	add(d.CreatedAt, badge{wait, "planned"}, planned, "")
	for _, a := range attempts {
		name, text := capital(stepName(a.Step)), ""
		var b badge
		switch a.Outcome {
		case delivery.AttemptDelivered:
			b, text = badge{good, "sent"}, name+" accepted by "+channelName(a.Channel)+"."
		case delivery.AttemptFailed:
			b, text = badge{bad, "failed"}, name+". "+a.Reason.Sentence()
		case delivery.AttemptUnknown:
			b, text = badge{odd, "unknown"}, name+". "+a.Reason.Sentence()
		case delivery.AttemptNone:
			b, text = badge{hold, "not tried"}, name+". "+a.Reason.Sentence()
		}
		add(a.SettledAt, b, text, a.Error)
	}
	for _, r := range receipts {
		add(r.At, badge{receiptTone(feedback.Status(r.Status), r.Soft), feedback.Name(feedback.Status(r.Status), r.Soft)}, reported(feedback.Status(r.Status), r.Soft), r.Detail)
	}
	if d.Status != delivery.Sent && d.Status != delivery.Failed {
		add(d.CompletedAt, badge{deliveryTone(d.Status), string(d.Status)}, why(d), "")
	}
	slices.SortStableFunc(line, func(a, b moment) int { return a.at.Compare(b.at) })
	if !d.SendAt.IsZero() && !stopped(ahead) {
		text := comes(d.Step+1) + " goes out"
		if left := d.RemindersRemaining; left > 0 {
			text += ", then " + plural(int64(left), "reminder", "reminders") + " more"
		}
		line = append(line, moment{at: d.SendAt, badge: badge{wait, "next"}, text: text + ".", ahead: true})
	}
	if !d.ExpiresAt.IsZero() {
		unless := "Unless somebody has answered."
		if ahead.Reason == reason.NoChannel {
			unless = "Unless it has left."
		}
		line = append(line, moment{at: d.ExpiresAt, badge: badge{quiet, "expires"}, text: unless, ahead: true})
	}
	return line
}

func receiptTone(s feedback.Status, soft bool) tone {
	switch s {
	case feedback.Delivered, feedback.Read:
		return good
	case feedback.Deferred:
		return hold
	case feedback.Bounced, feedback.Complained:
		if soft {
			return hold
		}
		return bad
	case feedback.Accepted:
	}
	return quiet
}

// reported is what a provider reports, in a sentence.
func reported(s feedback.Status, soft bool) string {
	switch s {
	case feedback.Delivered:
		return "It has arrived, as the provider reports."
	case feedback.Read:
		return "It was opened, as the provider reports."
	case feedback.Deferred:
		return "It may arrive later, as the provider reports."
	case feedback.Bounced:
		if soft {
			return "It could not be delivered for a cause that may pass, as the provider reports."
		}
		return "It could not be delivered, as the provider reports."
	case feedback.Complained:
		return "Its reader calls it unwanted."
	case feedback.Accepted:
	}
	return "The provider has it."
}

// scale writes instants as people of a workspace read them.
type scale struct {
	now  time.Time
	zone *time.Location
}

// short leaves out what goes without saying: the day when it is today, the year when it is this one.
func (s scale) short(at time.Time) string {
	t, now := at.In(s.zone), s.now.In(s.zone)
	switch {
	case t.Format(time.DateOnly) == now.Format(time.DateOnly):
		return t.Format("15:04:05")
	case t.Year() == now.Year():
		return t.Format("2 Jan 15:04")
	}
	return t.Format("2 Jan 2006 15:04")
}

// full is the whole instant with its zone.
func (s scale) full(at time.Time) string { return at.In(s.zone).Format("Mon 2 Jan 2006 15:04:05 MST") }

// machine is the instant for scripts.
func machine(at time.Time) string { return at.UTC().Format(time.RFC3339) }

// pretty indents JSON; a text that is none stays as it is.
func pretty(text string) string {
	var out bytes.Buffer
	if json.Indent(&out, []byte(strictjson.Plain(text)), "", "  ") != nil {
		return text
	}
	return out.String()
}
