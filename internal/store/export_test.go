package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/subject"
)

// Exec runs a statement in a transaction of its own, for states that no method of the store makes.
func (s *Store) Exec(ctx context.Context, text string, args ...any) (int64, error) {
	var n int64
	err := s.Write(ctx, func(t *Tx) (err error) {
		n, err = t.exec(text, args...)
		return err
	})
	return n, err
}

// CountUpTo sets how many rows are counted, in place of MaxTurns and MaxRecent.
func (s *Store) CountUpTo(n int64) { s.turns, s.recent = n, n }

// Claimed runs a statement that claims, counts its rows, and rolls it back.
func (s *Store) Claimed(ctx context.Context, text string, args ...any) (n int, err error) {
	err = s.WriteClaiming(ctx, func(t *Tx) error {
		claims, err := query(t, scanClaim, text, args...)
		if n = len(claims); err != nil {
			return err
		}
		return errRollback
	})
	if errors.Is(err, errRollback) {
		err = nil
	}
	return n, err
}

var errRollback = errors.New("rolled back")

// Strings reads the first column of a query, inside a transaction with the engine's settings.
func (s *Store) Strings(ctx context.Context, text string, args ...any) ([]string, error) {
	var out []string
	err := s.Write(ctx, func(t *Tx) (err error) {
		out, err = query(t, func(rows *sql.Rows) (string, error) {
			columns, err := rows.Columns()
			if err != nil {
				return "", err
			}
			var v string
			into := make([]any, len(columns))
			for i := range into {
				into[i] = new(any)
			}
			into[len(into)-1] = &v // SQLite: the text of a plan is its last column
			return v, rows.Scan(into...)
		}, text, args...)
		return err
	})
	return out, err
}

// Plans returns the plans of a query in the engine's transactions: the plan for these parameters and, on PostgreSQL, the generic
// plans of a statement that was prepared and executed often, with a rowset of many rows and of one.
func (s *Store) Plans(ctx context.Context, text string, args ...any) ([]string, error) {
	if s.Dialect() == "sqlite" {
		plan, err := s.Strings(ctx, "EXPLAIN QUERY PLAN "+text, args...)
		return []string{strings.Join(plan, "\n")}, err
	}
	plan, err := s.Strings(ctx, "EXPLAIN "+text, args...)
	plans := []string{strings.Join(plan, "\n")}
	for _, rows := range []columnSet{0, loneRow} {
		if err != nil {
			return nil, err
		}
		plan, err = s.generic(ctx, s.statement(text, rows).text)
		plans = append(plans, "prepared:\n"+strings.Join(plan, "\n"))
	}
	return plans, err
}

func (s *Store) generic(ctx context.Context, text string) (plan []string, err error) {
	var nothing []string
	for n := 1; strings.Contains(text, fmt.Sprint("$", n)); n++ {
		nothing = append(nothing, "NULL")
	}
	execute := "EXPLAIN EXECUTE often"
	if len(nothing) > 0 {
		execute += " (" + strings.Join(nothing, ", ") + ")"
	}
	return plan, s.Write(ctx, func(t *Tx) error {
		for _, do := range []string{"SET LOCAL plan_cache_mode = force_generic_plan", "PREPARE often AS " + text} {
			if _, err := t.exec(do); err != nil {
				return err
			}
		}
		scan := func(rows *sql.Rows) (v string, err error) { return v, rows.Scan(&v) }
		if plan, err = query(t, scan, execute); err != nil {
			return err
		}
		_, err := t.exec("DEALLOCATE often")
		return err
	})
}

// InsertTried inserts deliveries with the state of later attempts, which no method of the store does.
func (s *Store) InsertTried(ctx context.Context, list []delivery.Row) error {
	const insert = `INSERT INTO delivery (/*NAMES (` + deliverySpec + `)*/) SELECT r.* FROM /*ROWS $1 (` + deliverySpec + `)*/ AS r`
	return s.Write(ctx, func(t *Tx) error {
		var rows rowset
		for _, d := range list {
			deliveryRow(&rows, d)
			t.dueDelivery(d)
		}
		_, err := t.exec(insert, &rows)
		return err
	})
}

// ParseSlots and AppendJSON are exported for fuzz tests.
var (
	ParseSlots = func(list string) ([]delivery.Slot, error) {
		return parseSlots(list, "", func(delivery.ID) bool { return false })
	}
	AppendJSON = appendJSON
)

// Untried reports whether a delivery has the values of a new one.
var Untried = untried

// The errors that only tests tell apart.
var (
	ErrNotAFile             = errNotAFile
	ErrDamaged              = errDamaged
	ErrNotRestored          = errNotRestored
	ErrNewerSchema          = errNewerSchema
	ErrSchemaBeforeBaseline = errSchemaBeforeBaseline
)

// Methods that read the contacts of other methods.
var (
	ContactsByID = (*Store).contactsByID
	PersonsNamed = (*Store).personsNamed
)

// NoSink is a rowset with a sink that is none.
func NoSink() any { return sinkRows([]SinkRef{{}}) }

// MaxTries bounds the tries of a transaction.
const MaxTries = maxTries

// The statements whose plans are tested.
const (
	ClaimDeliveries     = claimDeliveries
	LockDeliveryPage    = lockDeliveryPage
	LeftToCancel        = leftToCancel
	TallyOf             = tallyOf
	CancelledSince      = cancelledSince
	RetainedPage        = retainedPage
	ClaimOfWorkspace    = claimOfWorkspace
	WorkspacesDue       = workspacesDue
	MoreUrgent          = moreUrgent
	ChangedByEnded      = endedBy
	ChangedByStarted    = startedBy
	LastMoved           = lastMoved
	RunsBefore          = runsBefore
	OldItemInstances    = oldItemInstances
	MessagesOfInstances = messagesOfInstances
	MessagesPage        = messagesPage
	LockRetainedPage    = lockRetainedPage
	LockMarked          = lockMarked
	DueSinksQuery       = dueSinks
	ClaimDispatches     = claimDispatches
	LastOfGroups        = lastOfGroups
	WakeGroups          = wakeGroups
	LockDeadQuery       = lockDead
	ExistingDeliveries  = existingDeliveries
	LockDeliveries      = lockDeliveries
	LockDeliveriesOf    = lockDeliveriesOfContact
	DueInstances        = dueInstances
	ExpireDeliveries    = expireDeliveries
	DueSessions         = dueSessions
	SessionMessages     = sessionMessages
	LockOfSessions      = lockDeliveriesOfSessions
	SessionByDelivery   = sessionByDelivery
	LockNamedDeliveries = lockNamedDeliveries
	AttemptsOfReceipts  = attemptsOfReceipts
	LastReceipts        = lastReceipts
	ReceiptsQuery       = receipts
	OpenSessionsOf      = selectListedSessions + "\n  AND s.status = $3\nORDER BY s.delivery_id DESC\nLIMIT $4"
	LastSessions        = lastSessions
	OpenSessions        = openSessions
	AskSessions         = askSessions
	UnaskSessions       = unaskSessions
	PutOffSessions      = putOffSessions
	BeginAgain          = beginAgain
	PassOver            = passOver
	OpenWaiting         = openWaiting
	SessionsTo          = sessionsTo
	TalkingTo           = talkingTo
	EndOpenSessions     = endOpenSessions
	ReplaceSessions     = replaceSessions
	NextDueQuery        = nextDue
	BacklogQuery        = backlog
	SlotsOfPersons      = slotsOfPersons

	DueRecords              = dueRecords
	RecordPage              = recordPage
	MembersOfPersona        = membersOfPersona
	MembersOfAll            = membersOfAll
	MembersOfPersonaIn      = membersOfPersonaIn
	MembersOfAllIn          = membersOfAllIn
	MembersOfGroup          = membersOfGroup
	MembersOfGroupIn        = membersOfGroupIn
	GroupMembers            = groupMembers
	ContactsAfter           = contactsAfter
	RowsOfOccasion          = rowsOfOccasion
	LockThrottles           = lockThrottles
	LockEpisodes            = lockEpisodes
	LockPlans               = lockPlans
	PendingOfPlans          = pendingOfPlans
	DatedOfPlans            = datedOfPlans
	OpenOfPlans             = openOfPlans
	NamedOfPlans            = namedOfPlans
	CourseMembersQuery      = courseMembers
	OwnCoursesQuery         = ownCourses
	OwnCoursesOfPlans       = ownCoursesOfPlans
	HandMembers             = handMembers
	OldMembers              = oldMembers
	FinishedCourses         = finishedCourses
	PendingOfSeries         = pendingOfSeries
	WaitingAfterEventsQuery = waitingAfterEvents
	WaitingOfRecipientQuery = waitingOfRecipient
	LastOfSeries            = lastOfSeries
	LaterOfSeries           = laterOfSeries
	LockPlanDeliveries      = lockPlanDeliveries
	ThrottlesOfWorkflow     = throttlesOfWorkflow
	ThrottlesOfRecord       = throttlesOfRecord
	MembersOfPlace          = membersOfPlace
	MembersOfPlaceIn        = membersOfPlaceIn
	FewBelowPlace           = fewBelowPlace
	FewBelowPlaceIn         = fewBelowPlaceIn
	ManyBelowPlace          = manyBelowPlace
	ManyBelowPlaceIn        = manyBelowPlaceIn
	PlacesAbove             = placesAbove
	PlacesBelow             = placesBelow
	RelatedPlaces           = relatedPlaces
	FewBelow                = fewBelow
)

// ByName are the statements that look many rows up by their names, with parameters.
func ByName() map[string][]any {
	var keys, people, named rowset
	for i := range 100 {
		keys.row().int(1).text(fmt.Sprint("k", i)).text(fmt.Sprint("h", i))
		people.row().int(int64(i)).int(1).text(fmt.Sprint("c", i)).text("").text("")
		named.row().int(1).text(fmt.Sprint("c", i))
	}
	return map[string][]any{existingInstances: {int64(1), &keys}, findRecipients: {&people}, knownContacts: {&named}}
}

// Joined are statements that join many rows, of which most columns are constant, with parameters.
func Joined() map[string][]any {
	var refs, settled rowset
	for i := range int64(100) {
		refs.row().int(1).int(i)
		settledColumns.put(&settled, &instance.Row{Status: instance.Completed, Trace: "expanded", Version: 1}, 1, i, 1)
		settled.text("expanded")
	}
	return map[string][]any{
		eventsByID: {&refs}, personsByID: {&refs}, settleInstances: {&settled}, releaseSlots: {&refs},
	}
}

// Merged returns the statements that merge contacts, and that have them give addresses up.
func Merged() map[string][]any {
	var refs, held, named, apart rowset
	for i := range int64(100) {
		named.row().int(1).text(fmt.Sprint("c", i))
		apart.row().int(1).int(i)
		refs.row().int(1).int(i).int(i + 1)
		held.row().int(1).text(fmt.Sprint("hash", i)).int(i)
	}
	return map[string][]any{
		mergeContacts: {&refs}, mergeMerged: {&refs}, toExchange: {&refs}, giveDeliveries: {&refs}, handDigests: {&refs}, handAhead: {&refs}, partContacts: {&apart}, deliveriesOfMerged: {&refs}, handDeliveries: {&refs}, handPastSlots: {&refs}, handMembers: {&refs}, countWhatStays: {int64(1), &refs},
		endDoubledSessions: {int64(1), &refs}, handSessions: {&refs}, endLeftSessions: {int64(1), &refs},
		dropAddresses: {&held}, mergedForAddresses: {&held}, unmerge: {&refs}, madeForAddresses: {&held}, survivorsOf: {&named}, mergedOf: {&named},
	}
}

// Rows returns a rowset of n rows, each with the numbers and texts that cells returns.
func Rows(n int, cells func(i int) []any) any {
	var rows rowset
	for i := range n {
		rows.row()
		for _, cell := range cells(i) {
			if text, ok := cell.(string); ok {
				rows.text(text)
			} else {
				rows.int(int64(cell.(int)))
			}
		}
	}
	return &rows
}

// MaxRenderings bounds the renderings of a query by constant columns.
const MaxRenderings = maxRenderings

// OneRef is a rowset of one (ws, id).
func OneRef(ws, id int64) any {
	var rows rowset
	rows.row().int(ws).int(id)
	return &rows
}

// SelectAnswers finds the answers to requests; OneAnswer is its rowset.
const SelectAnswers = selectAnswers

// OneAnswer is a rowset of one (ws, key).
func OneAnswer(ws int64, key string) any {
	var rows rowset
	rows.row().int(ws).text(key)
	return &rows
}

// OneThrottle and OneEpisode are rowsets of one row.
func OneThrottle() any { return new(rowset).row().int(1).text("w").text("t:1") }

// OneOccasion is a rowset of one row.
func OneOccasion() any { return new(rowset).row().int(1).int(7).text("w").text("t").int(1) }

// OnePlan is a rowset of one row, with what follows the plan.
func OnePlan(more ...any) any {
	return Rows(1, func(int) []any { return append([]any{1, 7, "w", "t"}, more...) })
}

// OneCourse is a rowset of one row, with what follows the course.
func OneCourse(more ...any) any {
	return Rows(1, func(int) []any { return append([]any{1, 7, "w", "t", 0}, more...) })
}

// OnePlace is a rowset of one row.
func OnePlace() any { return new(rowset).row().int(1).text("boston") }

// OneEpisode is a rowset of one row.
func OneEpisode() any { return new(rowset).row().int(1).int(7).text("w").text("t").int(1) }

// SetBusyAfter changes how long a transaction waits for another one with the same key.
func (s *Store) SetBusyAfter(d time.Duration) { s.busyAfter = d }

// RetainStatements are those of retention that take a batch, with the parameters of one of so many rows.
func RetainStatements(batch int) map[string][]any {
	of := func(cells ...any) *rowset {
		var rows rowset
		for n := range batch {
			rows.row()
			for i, c := range cells {
				switch c := c.(type) {
				case string:
					rows.text(fmt.Sprint(c, n))
				case int:
					if i > 0 || len(cells) == 1 { // else the workspace
						c += n
					}
					rows.int(int64(c))
				}
			}
		}
		return &rows
	}
	at := int64(1)
	return map[string][]any{
		oldInstances: {at, at, at, at, at, at, at}, lockOccasions: {at, at, at, of(1, "k")}, nextRepetitions: {of(1, "k", "l", "m")},
		lockOccasionDeliveries: {at, at, of(1, 2, 3)}, selectSpent: {of(1, "k", "h")}, deleteContents: {of(1, 2)}, deleteAttempts: {of(1, 2)}, deleteReceipts: {of(1, 2)},
		deleteDigests: {of(1, 2)}, deleteDeliveryRows: {of(1, 2)}, lockUndispatched: {of(1, 2)}, deleteDispatchAttempts: {of(1, 2)}, deleteDispatches: {of(1, 2)}, deleteOutboxEvents: {of(1, 2)},
		deleteRuns: {of(1, 2)}, deleteInstanceRows: {of(1, 2)}, deleteEvents: {of(1, 2)}, deleteDecisionsOfEvents: {at, of(2)},
		oldEvents: {at, at, at, at}, oldDecisions: {at, at, at, at}, deleteDecisions: {at, at, at, at}, existingInstances: {int64(1), of(1, "k", "h")},
		nextThrottles: {"c", "w", at, at, at}, deleteThrottles: {at, of(1, "w", "c")},
		oldMembers: {at, at, "w", "t", at, at, at}, finishedCourses: {at, of(1, 2, "w", "t", 3)}, deleteMembers: {at, of(1, 2, "w", "t", 3, 4)},
		runsBefore: {at, at, at, at}, oldItemInstances: {at, at, at, at}, messagesOfInstances: {of(1, 2)}, messagesPage: {at, at, at, at}, lockMessages: {at, of(1, 2, 3)}, keepSlots: {at, of(1, 2)}, pastSlotsBefore: {at, at, at, at}, deletePastSlotsBefore: {at, at, at},
		keepCovered: {of(1, 2)}, itemsOver: {at, at, at, at}, deleteItems: {of(1, 2)}, deleteMatches: {of(1, 2)}, liveWindow: {of(1, "w", "t")},
		subscriptionsOver: {at, at, at, at}, deleteAheadOfEnded: {of(1, 2)}, deleteSubscriptions: {of(1, 2)}, addressesOver: {at, at, at, at, at},
		blankAddresses: {at, at, at, of(1, "e")}, writeAddresses: {of(1, 2, "a")}, topicsOver: {at, at, at, at}, deleteTopics: {at, of(1, 2)},
		deleteTerms: {of(1, 2)}, deleteMatchesOfTopics: {of(1, 2)},
	}
}

// OneGroup returns a row (group, sink).
func OneGroup() any {
	var rows rowset
	rows.row().int(7).text("a")
	return &rows
}

// Baseline is the first schema.
const Baseline = baseline

// HoldInstance puts an instance on hold without a lock before, out of the order of locks.
func (t *Tx) HoldInstance(ws subject.WorkspaceID, id instance.ID) error {
	_, err := t.exec("UPDATE instance SET hold = 'input_conflict', ready_at = 0, version = version + 1 WHERE ws = $1 AND id = $2", int64(ws), int64(id))
	return err
}

// MigrateTo brings the schema of an empty database up to an earlier version.
func (s *Store) MigrateTo(ctx context.Context, version int64) error {
	provider, err := s.provider()
	if err != nil {
		return err
	}
	_, err = provider.UpTo(ctx, version)
	return err
}

// Fresh reports whether an instance has the values of a new one.
var Fresh = fresh

const insertTriedInstances = `
INSERT INTO instance (/*NAMES (` + instanceSpec + `)*/, ready_at)
SELECT r.* FROM /*ROWS $1 (` + instanceSpec + `, ready_at bigint)*/ AS r`

// InsertTriedInstances inserts instances with the state of later tries.
func (s *Store) InsertTriedInstances(ctx context.Context, list []instance.Row) error {
	return s.Write(ctx, func(t *Tx) error {
		var rows rowset
		for _, i := range list {
			instanceColumns.put(&rows, &i)
			rows.int(readyAt(i))
			t.due(WorkInstances, readyAt(i))
		}
		_, err := t.exec(insertTriedInstances, &rows)
		return err
	})
}

// RecordStatements are those of records, with parameters.
func RecordStatements() map[string][]any {
	var names, made, changed rowset
	for i := range 100 {
		names.row().int(1).text("kiosk").text(fmt.Sprint("k", i))
		newRecordColumns.put(&made, &RecordRow{Record: subject.Record{ID: subject.RecordID(-i), Type: "kiosk", ExtID: fmt.Sprint("k", i)}}, 1)
		changedRecordColumns.put(&changed, &RecordRow{}, 1, int64(i))
	}
	byType := list(listRecords, "rec", 1, Page{})
	byType.and("rec.type = ?", "kiosk")
	text, args := byType.end("rec", Page{})
	return map[string][]any{
		recordByName: {int64(1), "kiosk", "k1"}, recordByID: {int64(1), int64(1)}, lockRecords: {&names}, recordsByName: {&names},
		insertRecords: {&made}, updateRecords: {int64(1), &changed}, recordTypes: {int64(1)}, text: args,
	}
}

// PauseStatements are the statements that find the parked rows of a pause, with their parameters.
func PauseStatements(ws subject.WorkspaceID) map[string][]any {
	return map[string][]any{
		parkedInstances:  {"w", int64(ws), int64(500)},
		unparkDeliveries: {"w", int64(ws), int64(500), int64(1), "", int64(0), int64(0), ""},
		nextResumed:      {},
		deletePause:      {int64(ws), "w"},
		dueInstances:     {int64(1), int64(500), int64(0), int64(0)},
	}
}

// Cursor is a scan cursor.
type Cursor struct{ m scanCursor }

// Batch returns where a batch at an instant begins, 0 being the beginning, and whether a scan from the beginning has to wait.
func (m *Cursor) Batch(now time.Time) (from int64, resting bool) {
	return m.m.from(now.UnixMicro()).at, m.m.resting(now.UnixMicro())
}

// Scanned records a scan from the beginning.
func (m *Cursor) Scanned(now time.Time, took time.Duration) { m.m.scanned(now.UnixMicro(), took) }

// End records a batch that reached the end of the index.
func (m *Cursor) End(now time.Time) { m.m.taken(scanPosition{}, false, now.UnixMicro()) }

// Due records that a row became due.
func (m *Cursor) Due(at time.Time) { m.m.due(at.UnixMicro()) }

// Listed is a statement with its parameters.
type Listed struct {
	Text string
	Args []any
}

// SpanStatements are the lists of a span.
func SpanStatements(span Span) map[string]Listed {
	out := map[string]Listed{}
	for _, one := range []struct{ name, query, alias, column string }{
		{"deliveries", selectDeliveries, "d", "d.created_at"},
		{"instances", selectInstances, "i", "i.created_at"},
		{"events", selectEvents, "e", "e.received_at"},
		{"decisions", selectDecisions, "d", "d.at"},
	} {
		p := span.cut(Page{Limit: 50})
		l := list(one.query, one.alias, 1, p)
		l.within(one.alias, one.column, span)
		text, args := l.end(one.alias, p)
		out[one.name] = Listed{text, args}
	}
	return out
}

// FindStatements are the statements of a search for a person.
func FindStatements() map[string]Listed {
	deliveries := list(selectDeliveries, "d", 1, Page{})
	deliveries.toPersons([]subject.ContactID{1, 2}, "+1")
	text, args := deliveries.end("d", Page{})
	of := list(selectDeliveries, "d", 1, Page{})
	of.ofPerson(1)
	textOf, argsOf := of.end("d", Page{})
	return map[string]Listed{
		"persons":      {personsNamed, []any{int64(1), "c-1", "hash", "ada", int64(10)}},
		"contacts":     {findContacts, []any{int64(1), "c-1", "hash", "ada", "ada" + lastText, int64(10)}},
		"records":      {recordsNamed, []any{int64(1), "k1", int64(10)}},
		"deliveries":   {text, args},
		"those of one": {textOf, argsOf},
	}
}

// ZoneStatements are the statements of lists of instances that select rows by zone.
func ZoneStatements(f InstanceFilter) map[string]Listed {
	l := list(selectInstances, "i", 1, Page{Limit: 50})
	l.fits("i", f)
	l.once(f)
	text, args := l.end("i", Page{Limit: 50})
	d := list(selectDeliveries, "d", 1, Page{})
	d.ofInstance(7)
	textOf, argsOf := d.end("d", Page{})
	var ids rowset
	ids.row().int(7)
	return map[string]Listed{"instances": {text, args}, "deliveries": {textOf, argsOf}, "zones": {zonesOfOccasions, []any{&ids}}}
}

// FieldsOfColumns returns the columns of each field of the rows that a table of columns binds.
func FieldsOfColumns() map[string]map[string][]string {
	return map[string]map[string][]string{
		deliverySpec: fieldsOf(deliveryColumns),
		instanceSpec: fieldsOf(instanceColumns),
		jobSpec:      fieldsOf(jobColumns),
		attemptSpec:  fieldsOf(attemptColumns),
		contentSpec:  fieldsOf(contentColumns),
		decisionSpec: fieldsOf(decisionColumns),
		contactSpec:  fieldsOf(contactRowColumns, "Within", "PlaceType"), // of the place
		recordSpec:   fieldsOf(recordColumns, "Unreadable", "Children"),  // says why a column cannot be read; belongs to no stored record
	}
}

// fieldsOf returns the columns of each field of a row, but for the fields that have none on purpose.
func fieldsOf[R any](columns columnsOf[R], without ...string) map[string][]string {
	var r R
	v := reflect.ValueOf(&r).Elem()
	fields := map[string][]string{}
	for _, f := range reflect.VisibleFields(v.Type()) {
		if f.Anonymous || slices.Contains(without, f.Name) {
			continue
		}
		fields[f.Name] = nil
		for _, c := range columns {
			target := reflect.ValueOf(c.field(&r).target())
			if target.Kind() == reflect.Struct { // instant and document begin with the pointer
				target = target.Field(0)
			}
			if target.Pointer() == v.FieldByIndex(f.Index).Addr().Pointer() {
				fields[f.Name] = append(fields[f.Name], c.name)
			}
		}
	}
	return fields
}

// Merge merges a contact into another one, as a claim of its address does.
func (t *Tx) Merge(now time.Time, ws subject.WorkspaceID, merged, survivor subject.ContactID) error {
	return t.reassignRows(now, new(rowset).row().int(int64(ws)).int(int64(merged)).int(int64(survivor)))
}

// The statements of digests.
const (
	ActiveOfContactsQuery  = activeOfContacts
	CloseDigestsQuery      = closeDigests
	DigestsByIDQuery       = digestsByID
	OpenDigestsQuery       = openDigests
	MoveCoveredQuery       = moveCovered
	AheadOfQuery           = aheadOf
	MatchesAfterQuery      = matchesAfter
	ItemsOfTopicQuery      = itemsOfTopic
	DeliveriesOfPairsQuery = deliveriesOfPairs
	DeletePassedAheadQuery = deletePassedAhead
)

// WithDelivery are the statements that delete what belongs to deliveries.
func WithDelivery() []string { return withDelivery() }
