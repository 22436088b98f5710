package delivery

import "time"

// Reported reports whether the message of the present step, whose outcome is unknown, has reached its provider: the provider has reported on it. It is
// taken as accepted, without another request.
func (r Row) Reported() bool { return r.OutcomeUnknown() && r.ReportedStep == r.Step+1 }

// ReportedOn returns the row once its provider has reported on the message of a step, and so has it. A row that waits because the outcome of that message
// is unknown is due at once. While the attempt is in flight, and after its worker has died, the row is only marked: the result of the attempt, or the next
// claim, applies it. changed is false if the report decides nothing.
func (r Row) ReportedOn(step int, now time.Time) (row Row, changed bool) {
	if step != r.Step+1 || step == r.ReportedStep || r.Status.Final() || !r.MayHaveArrived() {
		return r, false
	}
	r.ReportedStep = step
	if r.IntentAt.IsZero() {
		r = r.Settling(now)
	}
	return r, true
}

// Settling returns a reported row as due now, so that the next claim writes what its report has settled.
func (r Row) Settling(now time.Time) Row {
	if r.Status == Unknown {
		if r.Status = Scheduled; r.Step > 0 {
			r.Status = Sent
		}
	}
	eligible := r.Eligible()
	r.Plan(now)
	r.EligibleAt, r.DueAt, r.ExpiresAt, r.LeaseUntil = eligible, time.Time{}, time.Time{}, time.Time{}
	return r
}

// Fallbacks returns the deliveries that stand in for one, directly or for another of them, among those of its instance and contact, in the order of their
// making.
func Fallbacks(of ID, among []Row) (list []Row) {
	instead := map[ID]bool{of: true}
	for _, r := range among { // one is made after that which it stands in for
		if r.FallbackOf != 0 && instead[r.FallbackOf] {
			instead[r.ID] = true
			list = append(list, r)
		}
	}
	return list
}
