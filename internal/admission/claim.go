package admission

import (
	"fmt"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/flow"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/schedule"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/trace"
)

// Facts are what decisions about claims need besides the claims, their rules and their people.
type Facts struct {
	Now        time.Time
	Zones      *civil.Zones
	Workspaces map[subject.WorkspaceID]Secrets
	Resting    map[delivery.PaceRef]flow.Verdict // channels whose provider is away now
	OnlyTo     flow.Allow                        // addresses that this process may write to; nil = all
	// Ahead is how far ahead of its instant a message may be claimed if its channel has a rate.
	Ahead time.Duration
	// GivenUpUntil is set when the database is a restored copy: what was due up to this instant is not sent.
	GivenUpUntil time.Time
	NoJitter     bool               // messages wait exactly as long as their channel says: for replays
	NewID        func() delivery.ID // of a fallback
}

// Secrets are the functions that a workspace's secret makes.
type Secrets struct{ Addresses, Jitter key.Keyed }

// Verdict is the decision about a claim.
type Verdict struct {
	Row      delivery.Row // after the decision
	Send     bool
	Changed  bool // Row is written
	Attempts []delivery.Attempt
	Folded   []delivery.Row     // fold members that leave with it
	Past     *delivery.PastSlot // a slot that it gives up, in which a message was sent
	Fallback *delivery.Row      // made instead of it
	entries  []journal.Entry
}

// candidate is a claim while it is decided.
type candidate struct {
	delivery.Claim        // Address is the one that the message goes to now
	was            string // the address of its row
	rules          Rules
	ask            SlotRequest
	needs          needs
	turn           turn
	suppressed     bool          // somebody who must not be messaged owns its address
	unsubscribed   bool          // its person has left all topics that it is about
	stopped        reason.Reason // why nothing is sent to its address; empty: it may
	sessionOver    bool          // it asks a question of a session that takes no reply any more
	covered        bool          // of a digest: other messages have sent all that it has
	members        []Member      // locked deliveries that wait to be folded into it
	halted         bool          // it does not leave, whatever its limits say
	decided        bool
	verdict        Verdict
}

// kindInbox is the kind of the channel whose messages stay here.
const kindInbox = "inbox"

// untried reports whether the first message of a delivery has never been sent to a provider.
func untried(c delivery.Claim) bool {
	return c.Step == 0 && c.AttemptNo == 1 && !c.OutcomeUnknown() && c.LostIntent.IsZero()
}

// folds reports whether a claim may leave with others as one message when a limit defers it.
func (c *candidate) folds() bool {
	return c.rules.Trigger.Limits.AtSend == definition.LimitFold && untried(c.Claim)
}

// A message goes to the address that its contact has when it is sent. An address that the contact has lost since the message was made may belong to
// somebody else by now, so the message goes to the address that would be chosen today. An address that came from the event and was never the
// contact's stays. If it belongs to a suppressed contact, the message stops (P5).

// AddressNow refers to the address elsewhere to which a claim goes now; zero: its contact has none on its channel, or it goes to the inbox, which is ours.
func (f *Facts) AddressNow(c delivery.Claim) (ref delivery.AddressRef) {
	address := present(c)
	if address == "" || Kind(c.Channel) == kindInbox {
		return ref
	}
	return delivery.AddressRef{Workspace: c.Workspace, Hash: f.Workspaces[c.Workspace].Addresses.Hash(subject.NormalizeAddress(address))}
}

// present returns the address to which a claim goes now; empty if its contact has none on its channel.
func present(c delivery.Claim) string {
	if !c.OwnAddress {
		return c.Address
	}
	now := c.Person.AddressOn(Kind(c.Channel))
	if c.Address == now || c.Person.Has(c.Address) {
		return c.Address
	}
	return now
}

// foreign returns the address of a claim if it is not known to be its contact's.
func (f *Facts) foreign(c *candidate) (ref delivery.AddressRef) {
	if c.Address == c.Person.AddressOn(Kind(c.Channel)) || c.Person.Has(c.Address) {
		return ref
	}
	return delivery.AddressRef{Workspace: c.Workspace, Hash: f.Workspaces[c.Workspace].Addresses.Hash(subject.NormalizeAddress(c.Address))}
}

// move writes a change instead of sending. The attempt that the claim counted did not take place.
func (f *Facts) move(c *candidate, timing schedule.Timing, what journal.What, why reason.Reason, change delivery.Change) Verdict {
	v := Verdict{Row: delivery.Unsent(c.Row, change, f.Now), Changed: true}
	if what != "" {
		v.entries = append(v.entries, f.entry(what, c, why, change.SendAt))
	}
	v.Row.Reason = why
	if trace := trace.Of(c.Row, timing, why, f.Now, change.SendAt, trace.Limits{}); trace != "" {
		v.Row.Trace = trace
	}
	return v
}

// stay is the change that changes nothing but ends a hold.
func stay(c *candidate) delivery.Change {
	return delivery.Change{Status: c.Status, SendAt: c.SendAt, Step: c.Step, Remaining: c.RemindersRemaining}
}

// later defers a message to an instant at which its channel can take it. It keeps its slot and its due instant: waiting for a channel is lateness,
// unlike waiting for a limit (R2).
func (f *Facts) later(c *candidate, at time.Time, hold delivery.Hold, why reason.Reason) Verdict {
	change := stay(c)
	change.SendAt, change.Hold = at, hold
	v := f.move(c, c.rules.Policy.Timing, journal.Deferred, why, change)
	v.Row.DueAt, v.Row.EligibleAt = c.Due(), c.Eligible()
	return v
}

// end stops a delivery for good. A message that was sent stays sent; only its reminders end (docs/concepts/model.md).
func (f *Facts) end(c *candidate, status delivery.Status, why reason.Reason) Verdict {
	change := delivery.Change{Status: status, Step: c.Step, Completed: true, Release: true}
	if c.Step > 0 {
		change.Status, change.Release = c.Status, false
	}
	what := journal.Cancelled
	if status == delivery.Expired {
		what = journal.Expired
	}
	return f.move(c, schedule.Timing{}, what, why, change)
}

// cancel ends a delivery whose occasion a person has cancelled, as a cancel ends its row (delivery.Row.Cancel).
func (f *Facts) cancel(c *candidate) Verdict {
	return f.move(c, schedule.Timing{}, journal.Cancelled, reason.CancelledByPerson, delivery.Change{
		Status: delivery.Cancelled, Step: c.Step, Remaining: c.RemindersRemaining, Completed: true, Release: c.Step == 0,
	})
}

// skip leaves the present message of a delivery out.
func (f *Facts) skip(c *candidate, why reason.Reason) Verdict {
	return f.move(c, c.rules.Policy.Timing, journal.Skipped, why, delivery.Skip(c.Row, c.rules.Policy, why, f.Now))
}

// unknown leaves a delivery whose attempt may have gone out to a person, or to the provider's later report.
func (f *Facts) unknown(c *candidate, why reason.Reason) Verdict {
	timing := c.rules.Policy.Timing
	return f.move(c, timing, journal.Unknown, why, delivery.Change{
		Status: delivery.Unknown, ExpiresAt: timing.ExpiresAt(f.Now, c.CreatedAt), Step: c.Step, Remaining: c.RemindersRemaining,
	})
}

// unlessUnknown returns the verdict, unless the message may have gone out: then it must not be called skipped.
func (f *Facts) unlessUnknown(c *candidate, verdict func() Verdict) Verdict {
	if c.OutcomeUnknown() {
		return f.unknown(c, whyUnknown(c))
	}
	return verdict()
}

// whyUnknown returns the reason why the outcome of a step is unknown.
func whyUnknown(c *candidate) reason.Reason {
	if c.LostIntent.IsZero() {
		return reason.ReplyLost
	}
	return reason.WorkerLost
}

// park parks a message whose workflow is paused. It keeps its slot; if the slot has passed when the workflow is resumed, the message asks for another
// one.
func (f *Facts) park(c *candidate) Verdict {
	change := stay(c)
	change.SendAt = time.Time{} // nobody can say when it leaves
	v := f.move(c, c.rules.Policy.Timing, journal.Held, reason.WorkflowPaused, change)
	v.Row.SendAt, v.Row.Hold = c.SendAt, delivery.HoldPaused
	return v
}

func (f *Facts) entry(what journal.What, c *candidate, why reason.Reason, until time.Time) journal.Entry {
	e := Describe(c.Claim)
	e.At, e.What, e.Reason, e.Until = f.Now, what, why, until
	return e
}

// Describe is the part of a journal entry that names a claim.
func Describe(c delivery.Claim) journal.Entry {
	return journal.Entry{
		Workspace: c.Workspace, Workflow: c.Workflow, WorkflowVersion: c.WorkflowVersion, Trigger: c.Trigger, Key: c.Key,
		Event: c.Event, Instance: c.Instance, Delivery: c.ID, Contact: c.Person.ExtID, Address: c.Address, Channel: c.Channel,
		Locale: c.Locale, Step: c.Step + 1, Attempt: c.AttemptNo, Due: c.Due(), Eligible: c.Eligible(), Remaining: c.RemindersRemaining,
	}
}

// Spread returns when a message that a resting channel did not take is claimed again: messages are spread over time, and each replay draws the same
// instant. by comes from RestDraw.
func Spread(draws key.Keyed, by []string, v flow.Verdict) time.Time {
	span := v.Spread.Microseconds()
	return v.Until.Add(time.Duration(draws.Uniform(uint64(span), append(slices.Clone(by), fmt.Sprint(v.Until.UnixMicro()))...)) * time.Microsecond)
}

// RestDraw returns the keys by which the wait of a message for its channel is drawn.
func RestDraw(c delivery.Claim) []string { return drawnBy(c, "rest", fmt.Sprint(c.Version), "") }

// RetryDraw returns the keys by which the wait of a message for its next try is drawn.
func RetryDraw(c delivery.Claim) []string {
	return drawnBy(c, "retry", fmt.Sprint(c.AttemptNo), fmt.Sprint(c.RetryCount))
}

// drawnBy returns the keys by which the random part of a message's wait is drawn: its own key and own. The messages of one slot draw by what they
// have in common, so that they wait equally long and leave together.
func drawnBy(c delivery.Claim, what, own, common string) []string {
	if c.Slot.IsZero() {
		return []string{c.Key, what, own}
	}
	return []string{c.Person.ExtID, Kind(c.Channel), fmt.Sprint(c.Slot.UnixMicro()), what, common}
}
