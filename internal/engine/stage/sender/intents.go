package sender

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/carillonhq/carillon/internal/admission"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/digest"
	"github.com/carillonhq/carillon/internal/engine/plumbing/listed"
	"github.com/carillonhq/carillon/internal/engine/plumbing/tell"
	"github.com/carillonhq/carillon/internal/flow"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/topic"
)

// admitting commits the intents of due deliveries: in one transaction it reads what admission needs, and saves what admission decides.
type admitting struct {
	*Sender
	now        time.Time
	leaseUntil time.Time
	live       map[subject.WorkspaceID]*definition.Set // in force; one for all tries of the transaction
	earlier    admission.Earlier

	claimed    int
	was        map[delivery.ID]*delivery.Row   // claims as they were read
	digests    map[delivery.ID]digest.Contents // of the digests among them
	conversing map[delivery.ID]admission.Rules // of messages of conversations
	facts      admission.Facts
	decision   admission.Decision
}

// intentTx is what the transaction needs of a store.Tx.
type intentTx interface {
	ClaimDueDeliveries(now, leaseUntil time.Time, limit int) ([]delivery.Claim, error)
	ReadSlots(now time.Time, persons map[delivery.PersonRef]delivery.Person, floor store.Floor) error
	OwnersOf(addresses []delivery.AddressRef) (map[delivery.AddressRef][]delivery.PersonRef, error)
	MayLock(refs []delivery.PersonRef) bool
	LockPersons(now time.Time, refs []delivery.PersonRef, floor store.Floor) (map[delivery.PersonRef]delivery.Person, error)
	Follows(asked []topic.Question) ([]bool, error)
	StoppedAddresses(of []store.AddressOn) (map[store.AddressOn]store.Stop, error)
	ClaimBeside(now, leaseUntil time.Time, of []delivery.PersonKind) ([]delivery.Claim, error)
	WaitingFolds(now time.Time, persons []delivery.PersonRef) ([]delivery.Row, error)
	FoldHeads(now time.Time, persons []delivery.PersonRef) ([]delivery.Row, error)
	FoldMembers(now time.Time, heads []delivery.Row) ([]delivery.Row, error)
	LockPaces(refs []delivery.PaceRef) (map[delivery.PaceRef]flow.Pace, error)
	LockSends(refs []delivery.WorkflowRef) (map[delivery.WorkflowRef]flow.Sends, error)
	SaveClaims(now time.Time, w store.ClaimWrites) error
	FoldedMembers(heads []delivery.Row) ([]delivery.Row, error)
	listed.Tx
	tell.Tx
	digestTx
	conversationTx
}

// commit is the transaction. Locks are taken once each: of persons together with those who own other addresses, of the paces of channels, and
// of the counts of sends.
func (r *admitting) commit(tx intentTx, limit int) error {
	r.begin()
	batch := admission.NewBatch(r.facts, r.earlier)
	due, err := tx.ClaimDueDeliveries(r.now, r.leaseUntil, limit)
	if err != nil {
		return err
	}
	if err := r.Failpoint(Claimed); err != nil || len(due) == 0 {
		return err
	}
	r.claimed = len(due)
	claims, err := r.withRules(tx, due)
	if err != nil {
		return err
	}
	if again := batch.Add(claims); again {
		return store.ErrAgain
	}
	persons := batch.SlotsToRead()
	if err := tx.ReadSlots(r.now, persons, batch.Floor()); err != nil {
		return err
	}
	batch.SlotsRead(persons)
	if err := r.lock(tx, batch, batch.ToLock()); err != nil {
		return err
	}
	if err := r.claimPeers(tx, batch); err != nil {
		return err
	}
	if err := r.readFolds(tx, batch); err != nil {
		return err
	}
	paces, err := tx.LockPaces(batch.Channels())
	if err != nil {
		return err
	}
	sends, err := tx.LockSends(batch.Counted())
	if err != nil {
		return err
	}
	decision, again := batch.Decide(paces, sends)
	if again {
		return store.ErrAgain
	}
	if err := r.converse(tx, &decision); err != nil {
		return err
	}
	return r.save(tx, decision)
}

// begin begins a try of the transaction: what an earlier one has found out is gone.
func (r *admitting) begin() {
	r.claimed, r.was, r.decision, r.digests = 0, map[delivery.ID]*delivery.Row{}, admission.Decision{}, map[delivery.ID]digest.Contents{}
	r.conversing = map[delivery.ID]admission.Rules{}
	r.facts = admission.Facts{
		Now: r.now, Zones: &r.Catalog.Zones, OnlyTo: r.OnlyTo, Ahead: r.ahead(), GivenUpUntil: r.Store.GivenUpUntil(), NoJitter: r.NoJitter,
		Workspaces: map[subject.WorkspaceID]admission.Secrets{}, Resting: map[delivery.PaceRef]flow.Verdict{},
		NewID: func() delivery.ID { return delivery.ID(r.Store.NewID(r.now)) },
	}
}

// ahead is how far ahead of its instant a message is claimed. A batch in order does not wait: it is a replay, and nothing moves its clock meanwhile.
func (s *Sender) ahead() time.Duration {
	if s.Concurrency == 1 {
		return 0
	}
	return horizon
}

// withRules finds the rules of claims, the secrets of their workspaces and the channels whose provider is away.
func (r *admitting) withRules(tx intentTx, claims []delivery.Claim) ([]admission.Claimed, error) {
	list := make([]admission.Claimed, len(claims))
	var places listed.Rows
	for i := range claims {
		live, err := r.inForce(claims[i].Workspace)
		if err != nil {
			return nil, err
		}
		places.Add(&claims[i].Row, live)
	}
	if err := places.Find(tx); err != nil {
		return nil, err
	}
	for i, c := range claims {
		live, err := r.inForce(c.Workspace)
		if err != nil {
			return nil, err
		}
		rules, err := r.rulesOf(c.Row, live)
		if err != nil {
			return nil, err
		}
		list[i] = admission.Claimed{Claim: c, Rules: rules}
		if rules.Converses() {
			r.conversing[c.ID] = rules
		}
		r.was[c.ID] = &claims[i].Row
		r.seeResting(c.Workspace, rules.Channel)
		if rules.Trigger != nil {
			for _, name := range rules.Trigger.Fallback {
				r.seeResting(c.Workspace, live.Channel(name))
			}
		}
	}
	var asked questions
	for i := range list {
		asked.add(list[i].Row, list[i].Rules.Trigger, &list[i].Unsubscribed)
	}
	if err := asked.ask(tx); err != nil {
		return nil, err
	}
	if err := r.seeStopped(tx, list); err != nil {
		return nil, err
	}
	if err := r.seeSessions(tx, list); err != nil {
		return nil, err
	}
	return list, r.readDigests(tx, list)
}

// seeStopped notes the claims whose addresses take no messages, and why.
func (r *admitting) seeStopped(tx intentTx, list []admission.Claimed) error {
	refs := make([]store.AddressOn, 0, len(list))
	of := make([]store.AddressOn, len(list))
	for i, c := range list {
		if of[i] = (store.AddressOn{AddressRef: r.facts.AddressNow(c.Claim), Kind: admission.Kind(c.Channel)}); of[i].Hash != "" {
			refs = append(refs, of[i])
		}
	}
	stopped, err := tx.StoppedAddresses(refs)
	for i, ref := range of {
		list[i].Stopped = stopped[ref].Reason
	}
	return err
}

// place finds where the lists of courses have the messages of folded deliveries.
func (r *admitting) place(tx intentTx, rows []delivery.Row) error {
	var places listed.Rows
	for i := range rows {
		live, err := r.inForce(rows[i].Workspace)
		if err != nil {
			return err
		}
		places.Add(&rows[i], live)
	}
	return places.Find(tx)
}

// questions ask for messages to the people of topics whether these still follow them. Who ends a subscription locks the deliveries of its contact
// first, so that what is answered here holds until the intents are committed.
type questions struct {
	list []topic.Question
	to   []*bool
}

func (q *questions) add(row delivery.Row, t *definition.Trigger, unsubscribed *bool) {
	if t == nil {
		return
	}
	if people := followers(row, t); people != nil {
		q.list, q.to = append(q.list, topic.Question{Workspace: row.Workspace, Contact: row.Contact, People: people, Topic: row.Topic}), append(q.to, unsubscribed)
	}
}

func (q *questions) ask(tx intentTx) error {
	follows, err := tx.Follows(q.list)
	for i, yes := range follows {
		*q.to[i] = !yes
	}
	return err
}

// inForce returns the set in force, the same in all tries of the transaction.
func (r *admitting) inForce(ws subject.WorkspaceID) (*definition.Set, error) {
	if _, ok := r.facts.Workspaces[ws]; !ok {
		known, err := r.Catalog.Workspace(ws)
		if err != nil {
			return nil, err
		}
		r.facts.Workspaces[ws] = admission.Secrets{Addresses: known.Addresses, Jitter: known.Jitter}
	}
	if live, ok := r.live[ws]; ok {
		return live, nil
	}
	live, err := r.Catalog.Loaded(ws, 0)
	if err == nil {
		r.live[ws] = live
	}
	return live, err
}

// seeResting notes a channel whose provider is away.
func (r *admitting) seeResting(ws subject.WorkspaceID, channel *definition.Channel) {
	if channel == nil {
		return
	}
	if rest := r.Channels.Resting(ws, channel, r.now); !rest.OK {
		r.facts.Resting[delivery.PaceRef{Workspace: ws, Channel: channel.Key}] = rest
	}
}

// rulesOf finds the definitions of a delivery: pinned ones from its own set, channels and switches from the set in force.
func (s *Sender) rulesOf(row delivery.Row, live *definition.Set) (admission.Rules, error) {
	set := live
	if row.Definitions > 0 {
		var err error
		if set, err = s.Catalog.Loaded(row.Workspace, row.Definitions); err != nil {
			return admission.Rules{}, err
		}
	}
	rules := admission.RulesOf(row, set, live)
	if rules.Converses() && row.Definitions == 0 && row.SurveySet > 0 && row.SurveySet != set.Number { // the questions are those of the first message
		asked, err := s.Catalog.Loaded(row.Workspace, row.SurveySet)
		if err != nil {
			return rules, err
		}
		rules = rules.Asking(row, asked)
	}
	if s.NoJitter {
		rules.Policy.Jitter = 0
	}
	return rules, nil
}

// lock locks persons, and the owners of addresses that are not known to be their contacts', in one order.
func (r *admitting) lock(tx intentTx, batch *admission.Batch, persons []delivery.PersonRef) error {
	owners, err := tx.OwnersOf(batch.AddressesToFind())
	if err != nil {
		return err
	}
	persons = batch.WithOwners(persons, owners)
	if !tx.MayLock(persons) {
		batch.LockEarly(persons)
		return store.ErrAgain
	}
	locked, err := tx.LockPersons(r.now, persons, batch.Floor())
	if err != nil {
		return err
	}
	batch.Locked(locked)
	return nil
}

// claimPeers claims what else is due for the persons who ask for slots.
func (r *admitting) claimPeers(tx intentTx, batch *admission.Batch) error {
	due, err := tx.ClaimBeside(r.now, r.leaseUntil, batch.PeersToClaim())
	if err != nil {
		return err
	}
	claims, err := r.withRules(tx, due)
	if err != nil {
		return err
	}
	batch.AddPeers(claims)
	return r.lock(tx, batch, nil)
}

// readFolds reads what claims can be folded into, and what waits to be folded into them.
func (r *admitting) readFolds(tx intentTx, batch *admission.Batch) error {
	persons, heads, carried := batch.ToFold()
	found, err := tx.FoldHeads(r.now, persons)
	if err != nil {
		return err
	}
	rows, err := tx.FoldMembers(r.now, heads)
	if err != nil {
		return err
	}
	members, err := r.members(tx, rows)
	if err != nil {
		return err
	}
	rows, err = tx.WaitingFolds(r.now, carried)
	if err != nil {
		return err
	}
	waiting, err := r.members(tx, rows)
	if err != nil {
		return err
	}
	batch.FoldsRead(persons, found, members, waiting)
	return nil
}

// members returns deliveries that wait to be folded, with their rules.
func (r *admitting) members(tx intentTx, rows []delivery.Row) ([]admission.Member, error) {
	if err := r.place(tx, rows); err != nil {
		return nil, err
	}
	members, asked := make([]admission.Member, len(rows)), questions{}
	for i, row := range rows {
		rules, err := r.rulesOf(row, r.live[row.Workspace])
		if err != nil {
			return nil, err
		}
		members[i] = admission.Member{Row: row, Rules: rules}
		asked.add(row, rules.Trigger, &members[i].Unsubscribed)
	}
	return members, asked.ask(tx)
}

// save writes the verdicts. The claims that are sent get the messages that leave with them.
func (r *admitting) save(tx intentTx, d admission.Decision) error {
	w := store.ClaimWrites{Paces: d.Paces, Refolds: d.Refolds, Sends: d.Sends}
	for _, f := range d.TooFast {
		detail, err := json.Marshal(map[string]any{"reason": reason.TooFast, "sends": f.Sends, "max_sends_per_hour": f.Most})
		if err != nil {
			return fmt.Errorf("write the audit entry: %w", err)
		}
		w.TooFast = append(w.TooFast, store.TooFast{WorkflowRef: f.WorkflowRef, Why: f.Why(), Detail: detail})
	}
	var changes []tell.Change
	for _, v := range d.Verdicts {
		if v.Changed {
			w.Claims = append(w.Claims, v.Row)
			changes = append(changes, tell.Change{Was: *r.was[v.Row.ID], Is: v.Row})
		}
		if v.Fallback != nil {
			w.Fallbacks = append(w.Fallbacks, *v.Fallback)
		}
		if v.Past != nil {
			w.PastSlots = append(w.PastSlots, *v.Past)
		}
		w.Attempts, w.Folded = append(w.Attempts, v.Attempts...), append(w.Folded, v.Folded...)
	}
	if err := tx.SaveClaims(r.now, w); err != nil {
		return err
	}
	if err := r.saveDigests(tx, d); err != nil {
		return err
	}
	if err := tell.Deliveries(r.Catalog, r.inForce, tx, r.now, changes); err != nil {
		return err
	}
	var heads []delivery.Row
	for _, c := range d.Sent {
		if c.IsFoldHead() {
			heads = append(heads, c.Row)
		}
	}
	members, err := tx.FoldedMembers(heads)
	if err != nil {
		return err
	}
	if err := r.place(tx, members); err != nil {
		return err
	}
	with := map[delivery.ID][]delivery.Row{}
	for _, row := range members {
		with[row.FoldedInto] = append(with[row.FoldedInto], row)
	}
	for i := range d.Sent {
		d.Sent[i].Folded = with[d.Sent[i].ID]
	}
	r.decision = d
	return nil
}
