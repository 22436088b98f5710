package delivery

import (
	"time"

	"github.com/carillonhq/carillon/internal/subject"
)

// Person is a contact with the facts by which limits are decided. Slots are loaded for locked persons, and for others where a
// decision needs them, as far back as they matter.
type Person struct {
	subject.Contact
	Found     bool // false: no such contact, and none was made
	Locked    bool
	SlotsRead bool
	Slots     []Slot
	Waiting   []Waiting // of locked persons, if instances of the transaction have a context
	FoldHeads []Row     // of locked persons, if the transaction asks for them: deliveries that others can be folded into
	Folding   bool      // FoldHeads are read
}

// Slot is a taken slot in a person's limits.
type Slot struct {
	At      time.Time
	Type    string
	Channel string // kind:name
	N       int
	Waits   bool // the message is still to be sent in it: it has not left, cannot have left and is not in flight
}

// PastSlot is the slot of an earlier message of a delivery.
type PastSlot struct {
	Workspace subject.WorkspaceID
	Contact   subject.ContactID
	Delivery  ID
	Slot      time.Time
	Type      string
	Channel   string
}

// Waiting is a delivery that waits for its slot and was never sent, of an instance with a context. Its row is locked.
type Waiting struct {
	Row     Row
	Context string
}

// LimitUse is a person with what their limits count and with what waits for them, read without a lock.
type LimitUse struct {
	Contact subject.ContactRow
	Person  Person
	Waiting []Row // what has something to send, the next first
}
