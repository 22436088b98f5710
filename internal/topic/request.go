package topic

import (
	"time"

	"github.com/carillonhq/carillon/internal/subject"
)

// Request is a subscription that waits until its contact confirms it. They are asked when it was requested and once more later. Then it is gone.
type Request struct {
	ID          int64
	Contact     subject.ContactID
	Topic       subject.TopicID
	Frequency   string
	Source      Source
	Asked       int // how many times the contact was asked
	RequestedAt time.Time
	NextAt      time.Time // when they are asked again, or when it is gone
}

const (
	remindAfter = 3 * 24 * time.Hour
	goneAfter   = 7 * 24 * time.Hour
)

// Expires returns when the request is gone.
func (r Request) Expires() time.Time { return r.RequestedAt.Add(goneAfter) }

// Ask returns the request as it is once what is due at now is done. asks says that the contact is asked by it; gone, that its time is over.
func (r Request) Ask(now time.Time) (next Request, asks, gone bool) {
	if !now.Before(r.Expires()) || r.Asked > 1 {
		return r, false, true
	}
	if r.Asked++; r.Asked == 1 {
		r.NextAt = r.RequestedAt.Add(remindAfter)
		if !now.Before(r.NextAt) { // the process did not run: they are asked once
			r.Asked = 2
		}
	}
	if r.Asked == 2 {
		r.NextAt = r.Expires()
	}
	return r, true, false
}
