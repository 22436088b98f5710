package admission

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/flow"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/subject"
)

// Batch decides which claimed deliveries may still leave now. The sender reads and locks in its transaction what the batch says it needs, in this
// order, and saves what Decide returns:
//
//	Add          claims: those that end or wait whatever their limits say are decided at once
//	SlotsToRead  people whose slots tell whether a claim keeps its own; read without a lock
//	ToLock       people whose limits decide, and the owners of addresses that are not their contacts'
//	AddPeers     what else is due for these people, so that one decision is made about all of it
//	ToFold       fold heads and fold members
//	Channels     the paces of channels that have a rate
//	Counted      the sends of workflows that may only send so many in an hour
//	Decide       verdicts
//
// A batch is made for one try of the transaction. It reads no clock and no store.
type Batch struct {
	Facts
	earlier Earlier

	list     []*candidate
	live     map[subject.WorkspaceID]*definition.Set
	ledger   *Ledger
	owners   map[delivery.AddressRef][]delivery.PersonRef
	locked   map[delivery.PersonRef]delivery.Person
	peers    map[peerGroup]turn                   // groups that ask for slots together, and when they are decided
	released map[delivery.ID]bool                 // claims that ask for a slot and have released their own
	instants map[delivery.ID]time.Time            // send instants of messages whose channel has a rate
	paces    map[delivery.PaceRef]flow.Pace       // as the transaction found them
	taken    map[delivery.PaceRef]flow.Pace       // as it leaves them
	heads    map[delivery.PersonRef][]decidedHead // fold heads that this batch sends or defers
	brakes   map[delivery.WorkflowRef]*sendBrake  // of workflows whose sends are counted

	reclaimed int
	entries   []journal.Entry
}

// Earlier is what earlier tries of a transaction found out too late. Every try locks these people at once, and has these groups ask for slots.
type Earlier struct {
	lock  map[delivery.PersonRef]bool
	peers map[peerGroup]bool
}

// NewEarlier makes what the first try of a transaction knows of earlier ones: nothing.
func NewEarlier() Earlier {
	return Earlier{lock: map[delivery.PersonRef]bool{}, peers: map[peerGroup]bool{}}
}

// turn says when a claim is decided. The slots that an earlier turn takes are taken for a later one.
type turn int

const (
	atOnce turn = iota // needs nothing but its row and its person as read
	asRead             // is decided with the limits of its person
	inNeed             // has lost its slot, or is a peer of one that has
)

// needs are the facts beyond its row and its person that the decision about a claim needs.
type needs struct {
	slots   bool // of its person, who need not be locked
	lock    bool // its person locked, with slots
	fold    bool // the fold heads of its person, and its own fold members
	pace    bool // of its channel
	count   bool // of the sends of its workflow
	address delivery.AddressRef
}

func (n needs) nothing() bool { return n == needs{} }

// Claimed is a claim with its rules.
type Claimed struct {
	delivery.Claim
	Rules        Rules
	Unsubscribed bool          // its person has left all topics that it is about
	Covered      bool          // of a digest: other messages have sent all that it has
	Stopped      reason.Reason // why nothing is sent to the address to which it goes now; empty: it may
	SessionOver  bool          // it asks a question of a session that takes no reply any more
}

// Member is a locked delivery that waits to be folded into a claim, with its rules.
type Member struct {
	delivery.Row
	Rules        Rules
	Unsubscribed bool // its person has left all topics that it is about
}

// Decision is what a batch has decided.
type Decision struct {
	Verdicts  []Verdict
	Refolds   []delivery.Refold
	Sent      []delivery.Claim                    // claims that leave, as they are now
	Instants  map[delivery.ID]time.Time           // send instants of messages whose channel has a rate
	Paces     map[delivery.PaceRef]flow.Pace      // of channels that have a rate
	Sends     map[delivery.WorkflowRef]flow.Sends // of workflows whose sends are counted and that send something
	TooFast   []TooFast                           // workflows that are paused
	Reclaimed int                                 // claims taken over from a lost worker
	Entries   []journal.Entry
}

// NewBatch makes a batch for one try of a transaction.
func NewBatch(f Facts, earlier Earlier) *Batch {
	return &Batch{
		Facts: f, earlier: earlier, live: map[subject.WorkspaceID]*definition.Set{}, ledger: NewLedger(f.Zones, f.Now),
		owners: map[delivery.AddressRef][]delivery.PersonRef{}, locked: map[delivery.PersonRef]delivery.Person{}, peers: map[peerGroup]turn{},
		released: map[delivery.ID]bool{}, instants: map[delivery.ID]time.Time{}, taken: map[delivery.PaceRef]flow.Pace{},
		heads: map[delivery.PersonRef][]decidedHead{}, brakes: map[delivery.WorkflowRef]*sendBrake{},
	}
}

// Add adds the claims that are due. It decides those that end or wait whatever their limits say, and those that need nothing. If again is true, the
// transaction has to run again.
func (b *Batch) Add(claims []Claimed) (again bool) {
	for _, claim := range claims {
		b.add(claim)
	}
	b.findPeers(asRead)
	for of := range b.earlier.peers {
		b.peers[of] = cmp.Or(b.peers[of], inNeed)
	}
	for c := range b.undecided {
		b.findNeeds(c)
	}
	return b.decide(atOnce)
}

func (b *Batch) add(claim Claimed) *candidate {
	c := &candidate{Claim: claim.Claim, was: claim.Address, rules: claim.Rules, unsubscribed: claim.Unsubscribed, covered: claim.Covered, stopped: claim.Stopped, sessionOver: claim.SessionOver || outlived(claim, b.Now)}
	b.live[c.Workspace] = claim.Rules.Live
	b.list = append(b.list, c)
	b.see(c, claim.Person)
	return c
}

// undecided yields the claims that are still to be decided.
func (b *Batch) undecided(yield func(*candidate) bool) {
	for _, c := range b.list {
		if !c.halted && !c.decided && !yield(c) {
			return
		}
	}
}

// see has a claim decided by what is known of its person now.
func (b *Batch) see(c *candidate, person delivery.Person) {
	c.Person, c.Address = person, c.was
	if !c.Reported() { // that one has left
		c.Address = present(c.Claim)
	}
	if c.verdict, c.halted = b.halt(c); !c.halted {
		c.ask = b.slotRequest(c)
	}
	b.report(c)
}

// report takes the entries of a verdict.
func (b *Batch) report(c *candidate) {
	b.entries = append(b.entries, c.verdict.entries...)
	c.verdict.entries = nil
}

func (b *Batch) findNeeds(c *candidate) {
	c.needs.pace, c.needs.count = c.rules.Channel.Rate.Count > 0, c.rules.MaxSends > 0
	c.needs.address = b.foreign(c)
	c.needs.slots, c.needs.lock = b.needsOfLimits(c)
	b.findFolding(c)
	if !c.needs.nothing() {
		c.turn = cmp.Or(b.turnOf(c), asRead)
	}
}

// Floor returns how far back the slots of contacts matter.
func (b *Batch) Floor() func(subject.WorkspaceID, subject.Contact) time.Time {
	floors := NewFloors(b.Zones, b.Now, nil)
	return func(ws subject.WorkspaceID, c subject.Contact) time.Time { return floors.Of(b.live[ws], c) }
}

// SlotsToRead returns the people whose slots are read without a lock.
func (b *Batch) SlotsToRead() map[delivery.PersonRef]delivery.Person {
	persons := map[delivery.PersonRef]delivery.Person{}
	for c := range b.undecided {
		if c.needs.slots {
			persons[delivery.PersonOf(c.Row)] = c.Person
		}
	}
	for c := range b.undecided {
		if ref := delivery.PersonOf(c.Row); c.needs.lock || b.earlier.lock[ref] {
			delete(persons, ref) // read under the lock
		}
	}
	return persons
}

// SlotsRead takes people with the slots that were read without a lock.
func (b *Batch) SlotsRead(persons map[delivery.PersonRef]delivery.Person) {
	for c := range b.undecided {
		if p, ok := persons[delivery.PersonOf(c.Row)]; ok {
			c.Person, c.ask.Person = p, p
		}
	}
	b.judge()
}

// judge finds the claims that cannot keep their slot, by the slots that are known. They need the lock, and so do their peers.
func (b *Batch) judge() {
	b.findPeers(inNeed)
	for c := range b.undecided {
		if b.asks(c) {
			c.needs.lock, c.turn = true, b.turnOf(c)
		} else if c.needs.slots && c.Person.SlotsRead && b.placed(c) && !b.keepsSlot(c) {
			c.needs.lock, c.turn = true, inNeed
		}
		b.findFolding(c)
	}
}

// AddressesToFind returns the addresses that are not known to be their contacts', and whose owners have to be locked.
func (b *Batch) AddressesToFind() []delivery.AddressRef {
	var addresses []delivery.AddressRef
	for c := range b.undecided {
		if of := c.needs.address; of.Hash != "" {
			if _, known := b.owners[of]; !known {
				b.owners[of] = nil
				addresses = append(addresses, of)
			}
		}
	}
	return addresses
}

// ToLock returns the people to lock besides the owners of addresses.
func (b *Batch) ToLock() []delivery.PersonRef {
	lock := slices.Collect(maps.Keys(b.earlier.lock))
	for c := range b.undecided {
		if c.needs.lock {
			lock = append(lock, delivery.PersonOf(c.Row))
		}
	}
	return lock
}

// WithOwners adds the owners of addresses to the people to lock, and leaves out those who are locked.
func (b *Batch) WithOwners(lock []delivery.PersonRef, owners map[delivery.AddressRef][]delivery.PersonRef) []delivery.PersonRef {
	for of, refs := range owners {
		b.owners[of] = refs
		lock = append(lock, refs...)
	}
	return slices.DeleteFunc(lock, func(ref delivery.PersonRef) bool { _, ok := b.locked[ref]; return ok })
}

// LockEarly notes people who can no longer be locked in the order of locks: the next try locks them with the first ones.
func (b *Batch) LockEarly(lock []delivery.PersonRef) {
	for _, ref := range lock {
		b.earlier.lock[ref] = true
	}
}

// Locked takes people as they are under the lock.
func (b *Batch) Locked(persons map[delivery.PersonRef]delivery.Person) {
	for ref, p := range persons {
		b.locked[ref] = p
		b.ledger.Forget(ref.Workspace, ref.ID)
	}
	for c := range b.undecided {
		suppressed := slices.ContainsFunc(b.owners[c.needs.address], func(ref delivery.PersonRef) bool { return b.locked[ref].Suppressed })
		person, ok := persons[delivery.PersonOf(c.Row)]
		if !ok {
			person = c.Person
		}
		if ok || suppressed {
			c.suppressed = c.suppressed || suppressed
			b.see(c, person)
		}
	}
}

// PeersToClaim names what else is claimed for people who ask for slots.
func (b *Batch) PeersToClaim() []delivery.PersonKind {
	b.judge() // by the slots under the lock
	groups := map[delivery.PersonKind]bool{}
	for c := range b.undecided {
		if of := peerGroupOf(c.Row); b.asks(c) && c.Person.Locked {
			groups[of] = true
		}
	}
	return slices.Collect(maps.Keys(groups))
}

// AddPeers adds these further claims. Their people are locked.
func (b *Batch) AddPeers(claims []Claimed) {
	for _, claim := range claims {
		claim.Person = b.locked[delivery.PersonOf(claim.Row)]
		c := b.add(claim)
		if !c.halted {
			b.findNeeds(c)
		}
		c.turn = b.peers[peerGroupOf(claim.Row)]
	}
}

// ToFold names the people whose fold heads are read, the claims whose fold members are, and the people whose digests may take with them what waits:
// their fold heads, and the members of these.
func (b *Batch) ToFold() (persons []delivery.PersonRef, heads []delivery.Row, waiting []delivery.PersonRef) {
	for c := range b.undecided {
		if c.needs.fold {
			persons = append(persons, delivery.PersonOf(c.Row))
			if c.carries() {
				waiting = append(waiting, delivery.PersonOf(c.Row))
			}
			if c.IsFoldHead() {
				heads = append(heads, c.Row)
			}
		}
	}
	return persons, heads, waiting
}

// FoldsRead takes the fold heads of people and the fold members of claims, as ToFold has named them. waiting are those that may leave with digests.
func (b *Batch) FoldsRead(persons []delivery.PersonRef, heads []delivery.Row, members, waiting []Member) {
	of, with := map[delivery.PersonRef][]delivery.Row{}, map[delivery.ID][]Member{}
	for c := range b.undecided {
		if !c.carries() {
			continue
		}
		for _, m := range waiting {
			if delivery.PersonOf(m.Row) == delivery.PersonOf(c.Row) {
				with[c.ID] = append(with[c.ID], m)
			}
		}
	}
	for _, ref := range persons {
		of[ref] = nil
	}
	for _, d := range heads {
		of[delivery.PersonOf(d)] = append(of[delivery.PersonOf(d)], d)
	}
	for _, d := range members {
		with[d.FoldedInto] = append(with[d.FoldedInto], d)
	}
	for c := range b.undecided {
		if rows, ok := of[delivery.PersonOf(c.Row)]; ok {
			c.Person.FoldHeads, c.Person.Folding = rows, true
			c.ask.Person, c.members = c.Person, with[c.ID]
		}
	}
}

// Channels names the channels whose pace is needed.
func (b *Batch) Channels() []delivery.PaceRef {
	channels := map[delivery.PaceRef]bool{}
	for c := range b.undecided {
		if c.needs.pace {
			channels[delivery.PaceOf(c.Row)] = true
		}
	}
	return slices.Collect(maps.Keys(channels))
}

// Decide decides the claims that are left, by the paces of the channels that Channels has named and the sends of the workflows that Counted has named. If
// again is true, a claim turned out to need a lock after all, and the transaction has to run again.
func (b *Batch) Decide(paces map[delivery.PaceRef]flow.Pace, sends map[delivery.WorkflowRef]flow.Sends) (d Decision, again bool) {
	b.paces = paces
	for ref, s := range sends {
		b.brakes[ref] = &sendBrake{sends: s}
	}
	if b.decide(asRead) || b.decide(inNeed) {
		return d, true
	}
	d = Decision{
		Instants: b.instants, Paces: b.taken, Reclaimed: b.reclaimed, Entries: b.entries,
		Verdicts: make([]Verdict, 0, len(b.list)), Sent: make([]delivery.Claim, 0, len(b.list)),
	}
	b.braked(&d)
	for _, c := range b.list {
		d.Verdicts = append(d.Verdicts, c.verdict)
		if refold, ok := refold(c.Row, c.verdict); ok {
			d.Refolds = append(d.Refolds, refold)
		}
		if c.verdict.Send {
			c.Row = c.verdict.Row
			d.Sent = append(d.Sent, c.Claim)
		}
	}
	return d, false
}

// decide decides the claims of a turn.
func (b *Batch) decide(t turn) (again bool) {
	for _, c := range b.inOrder(t) {
		if !c.halted && !b.decideOne(c) {
			b.earlier.lock[delivery.PersonOf(c.Row)], b.earlier.peers[peerGroupOf(c.Row)], again = true, true, true
			continue
		}
		b.finish(c)
	}
	if !again {
		b.entries = append(b.entries, b.ledger.PassedOver(b.Now)...)
	}
	return again
}

// decideOne decides a claim by the limits of its contact and the rate of its channel. known is false if its person has to be locked for that.
func (b *Batch) decideOne(c *candidate) (known bool) {
	stands, known := b.stands(c)
	if !known || b.join(c) {
		return known
	}
	if b.stopped(c) {
		b.takeBack(c, stands)
		c.verdict = b.park(c)
		return true
	}
	rate, ref := c.rules.Channel.Rate, delivery.PaceOf(c.Row)
	var pace flow.Pace
	var at time.Time
	if rate.Count > 0 {
		var now bool
		if pace, at, now = b.pace(ref).Take(rate, c.Priority, b.Now, b.Ahead); !now {
			b.taken[ref] = pace
			c.verdict = b.later(c, at, delivery.HoldRate, reason.RateLimited)
			b.putOff(c, at)
			b.keep(c)
			return true
		}
	}
	if c.verdict = (Verdict{Row: c.Row, Send: true}); !stands {
		if c.verdict = b.admit(c); !c.verdict.Send {
			return true
		}
	}
	if !b.countSend(c) {
		b.takeBack(c, stands)
		c.verdict = b.park(c)
		return true
	}
	b.reserve(c)
	if rate.Count > 0 {
		b.taken[ref], b.instants[c.ID] = pace, at
	}
	return true
}

// pace is how far the send instants of a channel are assigned, by others and by this batch.
func (b *Batch) pace(ref delivery.PaceRef) flow.Pace {
	if p, ok := b.taken[ref]; ok {
		return p
	}
	return b.paces[ref]
}

// finish adds to a verdict what is the same for all of them.
func (b *Batch) finish(c *candidate) {
	c.decided = true
	b.report(c)
	if v := &c.verdict; c.Address != c.was {
		v.Row.Address = c.was
		if v.Send {
			v.Row.Address, v.Row.OwnAddress, v.Changed = c.Address, true, true
		}
	}
	if v := &c.verdict; v.Send && v.Row.Definitions == 0 && v.Row.SurveySet == 0 && c.rules.Policy.Awaits {
		v.Row.SurveySet, v.Changed = c.rules.Set.Number, true // the questions are those of the first message
	}
	if v := &c.verdict; v.Send && c.Step == 0 && c.rules.Converses() {
		v.Row.RemindersRemaining, v.Changed = len(c.rules.Policy.Timing.Reminders), true // those of the questions
	}
	if !c.LostIntent.IsZero() {
		b.reclaimed++
		c.verdict.Attempts = append([]delivery.Attempt{lost(c.Claim, b.Now)}, c.verdict.Attempts...)
		b.entries = append(b.entries, b.entry(journal.Reclaimed, c, reason.WorkerLost, c.SendAt))
	}
}

// lost is the entry of an attempt that has no result.
func lost(c delivery.Claim, now time.Time) delivery.Attempt {
	return delivery.Attempt{
		Workspace: c.Workspace, Delivery: c.ID, Number: c.AttemptNo - 1, Step: c.Step + 1, Channel: c.Channel,
		IdempotencyKey: key.Delivery(c.Key).IdempotencyIn(int64(c.Workspace), c.Step+1), IntentAt: c.LostIntent, SettledAt: now,
		Outcome: delivery.AttemptUnknown, Reason: reason.WorkerLost,
	}
}
