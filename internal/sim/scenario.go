package sim

import (
	"path/filepath"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/portable"
)

// Scenario is one scenario file, read and checked (docs/how-to/scenarios.md).
type Scenario struct {
	File        string // as given
	Line        int    // of the file, where it begins
	Title       string
	Covers      []string // requirement ids
	Definitions []string // files, relative to the scenario's folder until they are read
	Define      []definition.File
	Zone        *time.Location
	Start       time.Time
	Manual      bool // passes run only at a step's `tick: true`
	Given       []Action
	Steps       []Step

	text          []byte // for --update
	definitionsAt []portable.Pos
}

// path is where a file is that the scenario names: from its own folder, unless the name is absolute.
func (s *Scenario) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(filepath.Dir(s.File), name)
}

// Step is one instant with its actions and expectations.
type Step struct {
	At     time.Time
	Note   string
	Tick   bool
	Do     []Action
	expect []expectation
	state  []expectation

	pos    portable.Pos
	node   *portable.Node
	number int // from 1
}

// Action is one action on the engine from outside. Exactly one of the pointers is set.
type Action struct {
	Event     *eventAction
	Record    *recordAction
	Contact   *contactAction
	Load      *loadAction
	Operator  *operatorAction
	Run       *runAction
	Channel   *channelAction
	Sink      *sinkAction
	HTTP      *httpAction
	Edit      *editAction
	Apply     *applyAction
	Engine    *engineAction
	Database  *databaseAction
	Open      *openAction
	Submit    *submitAction
	Subscribe *subscribeAction // or unsubscribe
	Publish   *publishAction
	Reply     *replyAction
	Receipt   *receiptAction

	every  civil.Duration // it is done again after so long; zero: once
	until  time.Time      // the last instant at which it is done again; none: as long as the scenario lasts
	answer *answer
	node   *portable.Node
	pos    portable.Pos
}

// answer is the expected answer to an action.
type answer struct {
	fields []field
	pos    portable.Pos
}

type eventAction struct {
	kind       string
	id         string
	occurredAt time.Time // none: not given
	occursNow  bool      // the instant of the action, at each repetition
	payload    []byte    // JSON; nil: not given
	recipient  []byte    // JSON; nil: not given
}

type recordAction struct {
	typ, id string
	set     *portable.Node // what changes
	replace *portable.Node // the complete new state; if neither is set, the record is deleted
	owner   *portable.Node // as the API takes it; nil: not written
	parents *portable.Node // as the API takes them; nil: not written
}

type contactAction struct {
	id       string
	set      *portable.Node // what changes; nil: nothing
	suppress string         // the reason of the suppression; empty: none
}

type operatorAction struct {
	verb     string // cancel, cancel_run, retry, release, redrive, pause or resume
	workflow string
	record   string // TYPE/ID; empty: of any, or of none

	workflowAt portable.Pos
	to         string
	sink       string // of redrive
}

type runAction struct {
	workflow string
	id       string
}

// openAction opens the latest survey of a contact.
type openAction struct {
	to, workflow string
	prefetch     bool // a program reads the page; nobody has seen it
}

// submitAction answers the latest survey of a contact.
type submitAction struct {
	to, workflow string
	answers      []byte // JSON
}

type channelAction struct {
	key    string // kind:name
	behave behaviour
	times  int            // the next so many messages; 0: no such bound
	during civil.Duration // for so long; zero: no such bound
}

// sinkAction is how a sink behaves.
type sinkAction struct {
	name   string
	behave behaviour
	times  int
	during civil.Duration
}

// httpAction is how an address answers whose document is read.
type httpAction struct {
	url    string
	behave behaviour
	body   []byte // JSON; nil: as it was
	times  int
	during civil.Duration
}

type editAction struct {
	kind, name string
	set        []portable.Field
}

type applyAction struct {
	file string // relative to the scenario's folder
	pos  portable.Pos
}

type engineAction struct {
	verb  string // start, stop or crash
	point point  // of a crash; empty: at once
}

// behaviour is what the simulated provider does with a message.
type behaviour string

const (
	behaveOK        behaviour = "ok"                 // accepts it
	behaveTemporary behaviour = "temporary"          // refuses it for now
	behavePermanent behaviour = "permanent"          // refuses it for good
	behaveLoseReply behaviour = "lose_reply"         // accepts it, and its answer never arrives
	behaveDown      behaviour = "down"               // cannot be reached
	behaveBounce    behaviour = "accept_then_bounce" // accepts it, and reports then that it could not be delivered
	behaveGone      behaviour = "gone"               // of a sink: wants no event any more
)

// point is a place in the engine where its process can die.
type point string

const (
	beforeIntent point = "before_intent" // nothing about the attempt is stored
	afterIntent  point = "after_intent"  // the intent is stored, the provider has nothing
	beforeResult point = "before_result" // the provider has it, the result is not stored
	afterTaken   point = "after_taken"   // an instance is leased (retry: {lease: …}), no delivery is stored
	afterChunk   point = "after_chunk"   // deliveries of an instance are stored, no message was sent
)
