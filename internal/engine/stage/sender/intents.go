package sender

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/admission"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/flow"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// admitting commits the intents of due deliveries: it decides in one transaction which of them may still leave now.
type admitting struct {
	*Sender
	now        time.Time
	leaseUntil time.Time
	live       map[subject.WorkspaceID]*definition.Set // in force; one for all tries of the transaction
	// What an earlier try found out too late. Every try locks early at once, and has the groups of late ask for slots.
	early map[store.PersonRef]bool
	late  map[peerGroup]bool

	findings
}

// findings is what one try of the transaction has found out and decided.
type findings struct {
	list               []*candidate
	claimed, reclaimed int
	entries            []journal.Entry
	ledger             *admission.Ledger
	locked             map[store.PersonRef]store.Person
	peers              map[peerGroup]turn           // groups that ask for slots together, and when they are decided
	released           map[delivery.ID]bool         // claims that ask for a slot and have released their own
	instants           map[delivery.ID]time.Time    // send instants of messages whose channel has a rate
	paces              map[store.PaceRef]flow.Pace  // as the transaction found them
	taken              map[store.PaceRef]flow.Pace  // as it leaves them
	bundles            map[store.PersonRef][]bundle // fold heads that this batch sends or defers
	sent               []store.Claim
}

// turn says when a claim is decided. The slots that an earlier turn takes are taken for a later one.
type turn int

const (
	atOnce turn = iota // needs nothing but its row and its person as read
	asRead             // is decided with the limits of its person
	inNeed             // has lost its slot, or is a peer of one that has
)

// candidate is a claim while it is decided.
type candidate struct {
	store.Claim        // Address is the one that the message goes to now
	was         string // the address of its row
	rules       rules  // the definitions that it belongs to
	ask         admission.SlotRequest
	needs       needs
	turn        turn
	suppressed  bool           // somebody who must not be messaged owns its address
	members     []delivery.Row // locked deliveries that wait to be folded into it
	halted      bool           // it does not leave, whatever its limits say
	decided     bool
	verdict     verdict
}

// needs are the facts beyond its row and its person that the decision about a claim needs.
type needs struct {
	slots   bool // of its person, who need not be locked
	lock    bool // its person locked, with slots
	fold    bool // the fold heads of its person, and its own fold members
	pace    bool // of its channel
	address store.AddressRef
}

func (n needs) nothing() bool { return n == needs{} }

// verdict is the decision about a claim.
type verdict struct {
	row      delivery.Row // after the decision
	send     bool
	changed  bool // row is written
	attempts []delivery.Attempt
	folded   []delivery.Row // fold members that leave with it
	past     *delivery.PastSlot
	fallback *delivery.Row // made instead of it
}

// intentTx is what the transaction needs of a store.Tx.
type intentTx interface {
	ClaimDueDeliveries(now, leaseUntil time.Time, limit int) ([]store.Claim, error)
	ReadSlots(now time.Time, persons map[store.PersonRef]store.Person, floor store.Floor) error
	OwnersOf(addresses []store.AddressRef) (map[store.AddressRef][]store.PersonRef, error)
	MayLock(refs []store.PersonRef) bool
	LockPersons(now time.Time, refs []store.PersonRef, floor store.Floor) (map[store.PersonRef]store.Person, error)
	ClaimBeside(now, leaseUntil time.Time, of []store.PersonKind) ([]store.Claim, error)
	FoldHeads(now time.Time, persons []store.PersonRef) ([]delivery.Row, error)
	FoldMembers(now time.Time, heads []delivery.Row) ([]delivery.Row, error)
	LockPaces(refs []store.PaceRef) (map[store.PaceRef]flow.Pace, error)
	SaveClaims(now time.Time, w store.ClaimWrites) error
	FoldedMembers(heads []delivery.Row) ([]delivery.Row, error)
}

// commit is the transaction. Locks are taken once each: of persons together with those who own other addresses, and of the paces of channels.
func (r *admitting) commit(tx intentTx, limit int) error {
	r.findings = findings{
		ledger: admission.NewLedger(&r.Catalog.Zones, r.now), locked: map[store.PersonRef]store.Person{}, peers: map[peerGroup]turn{},
		released: map[delivery.ID]bool{}, instants: map[delivery.ID]time.Time{}, taken: map[store.PaceRef]flow.Pace{},
		bundles: map[store.PersonRef][]bundle{},
	}
	claims, err := tx.ClaimDueDeliveries(r.now, r.leaseUntil, limit)
	if err != nil {
		return err
	}
	if err := r.Failpoint(Claimed); err != nil || len(claims) == 0 {
		return err
	}
	r.claimed = len(claims)
	if err := r.screen(claims); err != nil {
		return err
	}
	if err := r.decide(atOnce); err != nil {
		return err
	}
	if err := r.readSlots(tx); err != nil {
		return err
	}
	r.judge()
	if err := r.lock(tx); err != nil {
		return err
	}
	r.judge() // by the slots under the lock
	if err := r.claimBeside(tx); err != nil {
		return err
	}
	if err := r.readFolds(tx); err != nil {
		return err
	}
	if err := r.lockPaces(tx); err != nil {
		return err
	}
	if err := r.decide(asRead); err != nil {
		return err
	}
	if err := r.decide(inNeed); err != nil {
		return err
	}
	return r.save(tx)
}

// undecided yields the claims that are still to be decided.
func (r *admitting) undecided(yield func(*candidate) bool) {
	for _, c := range r.list {
		if !c.halted && !c.decided && !yield(c) {
			return
		}
	}
}

// screen finds out what ends or waits whatever its limits say, and what the decisions about the others need.
func (r *admitting) screen(claims []store.Claim) error {
	for _, claim := range claims {
		if _, err := r.candidate(claim); err != nil {
			return err
		}
	}
	r.findPeers(asRead)
	for of := range r.late {
		r.peers[of] = cmp.Or(r.peers[of], inNeed)
	}
	for c := range r.undecided {
		if err := r.findNeeds(c); err != nil {
			return err
		}
	}
	return nil
}

// candidate adds a claim to those that are decided.
func (r *admitting) candidate(claim store.Claim) (*candidate, error) {
	live, err := r.inForce(claim.Workspace)
	if err != nil {
		return nil, err
	}
	c := &candidate{Claim: claim, was: claim.Address}
	if c.rules, err = r.rulesOf(claim.Row, live); err != nil {
		return nil, err
	}
	r.list = append(r.list, c)
	return c, r.see(c, claim.Person)
}

// see has a claim decided by what is known of its person now.
func (r *admitting) see(c *candidate, person store.Person) (err error) {
	c.Person, c.Address = person, c.was
	c.Address = present(c.Claim)
	if c.verdict, c.halted, err = r.halt(c); err == nil && !c.halted {
		c.ask = r.slotRequest(c)
	}
	return err
}

func (r *admitting) findNeeds(c *candidate) (err error) {
	c.needs.pace = c.rules.channel.Rate.Count > 0
	if c.needs.address, err = r.foreign(c); err != nil {
		return err
	}
	c.needs.slots, c.needs.lock = r.needsOfLimits(c)
	r.findFolding(c)
	if !c.needs.nothing() {
		c.turn = cmp.Or(r.turnOf(c), asRead)
	}
	return nil
}

func (r *admitting) readSlots(tx intentTx) error {
	persons := map[store.PersonRef]store.Person{}
	for c := range r.undecided {
		if c.needs.slots {
			persons[personOf(c.Claim)] = c.Person
		}
	}
	for c := range r.undecided {
		if ref := personOf(c.Claim); c.needs.lock || r.early[ref] {
			delete(persons, ref) // read under the lock
		}
	}
	if err := tx.ReadSlots(r.now, persons, r.floor()); err != nil {
		return err
	}
	for c := range r.undecided {
		if p, ok := persons[personOf(c.Claim)]; ok {
			c.Person, c.ask.Person = p, p
		}
	}
	return nil
}

// judge finds the claims that cannot keep their slot, by the slots that are known. They need the lock, and so do their peers.
func (r *admitting) judge() {
	r.findPeers(inNeed)
	for c := range r.undecided {
		if r.asks(c) {
			c.needs.lock, c.turn = true, r.turnOf(c)
		} else if c.needs.slots && c.Person.SlotsRead && r.placed(c) && !r.keepsSlot(c) {
			c.needs.lock, c.turn = true, inNeed
		}
		r.findFolding(c)
	}
}

// lock locks the persons of claims that take slots, and the owners of addresses that are not their persons', in one order.
func (r *admitting) lock(tx intentTx) error {
	lock := slices.Collect(maps.Keys(r.early))
	for c := range r.undecided {
		if c.needs.lock {
			lock = append(lock, personOf(c.Claim))
		}
	}
	return r.lockPersons(tx, r.list, lock)
}

// lockPersons locks persons and the owners of the addresses of claims. Persons are seen as they are under the lock.
func (r *admitting) lockPersons(tx intentTx, claims []*candidate, lock []store.PersonRef) error {
	addresses := map[store.AddressRef]bool{}
	for _, c := range claims {
		if !c.halted && !c.decided && c.needs.address.Hash != "" {
			addresses[c.needs.address] = true
		}
	}
	owners, err := tx.OwnersOf(slices.Collect(maps.Keys(addresses)))
	if err != nil {
		return err
	}
	for _, refs := range owners {
		lock = append(lock, refs...)
	}
	lock = slices.DeleteFunc(lock, func(ref store.PersonRef) bool { _, ok := r.locked[ref]; return ok })
	if !tx.MayLock(lock) {
		for _, ref := range lock {
			r.early[ref] = true
		}
		return store.ErrAgain
	}
	locked, err := tx.LockPersons(r.now, lock, r.floor())
	if err != nil {
		return err
	}
	for ref, p := range locked {
		r.locked[ref] = p
		r.ledger.Forget(ref.ID)
	}
	for c := range r.undecided {
		suppressed := slices.ContainsFunc(owners[c.needs.address], func(ref store.PersonRef) bool { return r.locked[ref].Suppressed })
		person, ok := locked[personOf(c.Claim)]
		if !ok {
			person = c.Person
		}
		if !ok && !suppressed {
			continue
		}
		c.suppressed = c.suppressed || suppressed
		if err := r.see(c, person); err != nil {
			return err
		}
	}
	return nil
}

// claimBeside claims what is due besides for the persons who ask for slots.
func (r *admitting) claimBeside(tx intentTx) error {
	groups := map[store.PersonKind]bool{}
	for c := range r.undecided {
		if of := peerGroupOf(c.Claim); r.asks(c) && c.Person.Locked {
			groups[store.PersonKind{PersonRef: of.PersonRef, Kind: of.kind}] = true
		}
	}
	claims, err := tx.ClaimBeside(r.now, r.leaseUntil, slices.Collect(maps.Keys(groups)))
	if err != nil {
		return err
	}
	known := len(r.list)
	for _, claim := range claims {
		claim.Person = r.locked[personOf(claim)]
		c, err := r.candidate(claim)
		if err != nil {
			return err
		}
		if !c.halted {
			if err := r.findNeeds(c); err != nil {
				return err
			}
		}
		c.turn = r.peers[peerGroupOf(claim)]
	}
	return r.lockPersons(tx, r.list[known:], nil)
}

// readFolds reads what claims can be folded into, and what waits to be folded into them.
func (r *admitting) readFolds(tx intentTx) error {
	var persons []store.PersonRef
	var heads []delivery.Row
	for c := range r.undecided {
		if c.needs.fold {
			persons = append(persons, personOf(c.Claim))
			if c.IsFoldHead() {
				heads = append(heads, c.Row)
			}
		}
	}
	found, err := tx.FoldHeads(r.now, persons)
	if err != nil {
		return err
	}
	members, err := tx.FoldMembers(r.now, heads)
	if err != nil {
		return err
	}
	of, with := map[store.PersonRef][]delivery.Row{}, map[delivery.ID][]delivery.Row{}
	for _, ref := range persons {
		of[ref] = nil
	}
	for _, d := range found {
		ref := store.PersonRef{Workspace: d.Workspace, ID: d.Contact}
		of[ref] = append(of[ref], d)
	}
	for _, d := range members {
		with[d.FoldedInto] = append(with[d.FoldedInto], d)
	}
	for c := range r.undecided {
		if rows, ok := of[personOf(c.Claim)]; ok {
			c.Person.FoldHeads, c.Person.Folding = rows, true
			c.ask.Person, c.members = c.Person, with[c.ID]
		}
	}
	return nil
}

func (r *admitting) lockPaces(tx intentTx) (err error) {
	channels := map[store.PaceRef]bool{}
	for c := range r.undecided {
		if c.needs.pace {
			channels[paceOf(c.Claim)] = true
		}
	}
	r.paces, err = tx.LockPaces(slices.Collect(maps.Keys(channels)))
	return err
}

func paceOf(c store.Claim) store.PaceRef {
	return store.PaceRef{Workspace: c.Workspace, Channel: c.Channel}
}

// decide decides the claims of a turn. When a claim turns out to need a lock after all, the transaction runs again and takes it.
func (r *admitting) decide(now turn) error {
	again := false
	for _, c := range r.inOrder(now) {
		if !c.halted {
			known, err := r.decideOne(c)
			if err != nil {
				return err
			}
			if !known {
				r.early[personOf(c.Claim)], r.late[peerGroupOf(c.Claim)], again = true, true, true
				continue
			}
		}
		r.finish(c)
	}
	if again {
		return store.ErrAgain
	}
	r.entries = append(r.entries, r.ledger.PassedOver(r.now)...)
	return nil
}

// finish adds to a verdict what is the same for all of them.
func (r *admitting) finish(c *candidate) {
	c.decided = true
	if v := &c.verdict; c.Address != c.was {
		if v.row.Address = c.was; v.send {
			v.row.Address, v.row.OwnAddress, v.changed = c.Address, true, true
		}
	}
	if !c.LostIntent.IsZero() {
		r.reclaimed++
		c.verdict.attempts = append([]delivery.Attempt{lost(c.Claim, r.now)}, c.verdict.attempts...)
		r.record(journal.Reclaimed, c, reason.WorkerLost, c.SendAt)
	}
}

// save writes the verdicts and collects the claims that are sent.
func (r *admitting) save(tx intentTx) error {
	w := store.ClaimWrites{Paces: r.taken}
	var heads []delivery.Row
	for _, c := range r.list {
		v := c.verdict
		if v.changed {
			w.Claims = append(w.Claims, v.row)
		}
		if v.fallback != nil {
			w.Fallbacks = append(w.Fallbacks, *v.fallback)
		}
		if v.past != nil {
			w.PastSlots = append(w.PastSlots, *v.past)
		}
		w.Attempts, w.Folded = append(w.Attempts, v.attempts...), append(w.Folded, v.folded...)
		if refold, ok := leaves(c.Row, v); ok {
			w.Refolds = append(w.Refolds, refold)
		}
		if !v.send {
			continue
		}
		if v.row.IsFoldHead() {
			heads = append(heads, v.row)
		}
		c.Row = v.row
		r.sent = append(r.sent, c.Claim)
	}
	if err := tx.SaveClaims(r.now, w); err != nil {
		return err
	}
	members, err := tx.FoldedMembers(heads)
	if err != nil {
		return err
	}
	with := map[delivery.ID][]delivery.Row{}
	for _, d := range members {
		with[d.FoldedInto] = append(with[d.FoldedInto], d)
	}
	for i := range r.sent {
		r.sent[i].Folded = with[r.sent[i].ID]
	}
	return nil
}

// lost is the entry of an attempt that has no result.
func lost(c store.Claim, now time.Time) delivery.Attempt {
	return delivery.Attempt{
		Workspace: c.Workspace, Delivery: c.ID, Number: c.AttemptNo - 1, Step: c.Step + 1, Channel: c.Channel,
		IdempotencyKey: key.Delivery(c.Key).IdempotencyIn(int64(c.Workspace), c.Step+1), IntentAt: c.LostIntent, SettledAt: now,
		Outcome: delivery.AttemptUnknown, Reason: reason.WorkerLost,
	}
}
