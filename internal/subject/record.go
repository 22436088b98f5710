package subject

import "time"

// RecordID is the row id of a record; 0 means that there is none.
type RecordID int64

// Record is a document of the caller's, such as a kiosk or an invoice, whose present state triggers look at.
type Record struct {
	ID         RecordID
	Type       string
	ExtID      string         // the caller's id, unique in its type
	Props      map[string]any // JSON values; numbers are json.Number
	Closed     bool           // nothing is made of it any more
	Deleted    bool           // its row is kept for what was counted of it
	Rev        int64          // counts the writes, from 1
	CreatedAt  time.Time
	UpdatedAt  time.Time
	ModifiedBy string // name of the API key that wrote it last
}
