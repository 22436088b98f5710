package key

import "time"

// NodeBits are the low bits of a row's id, which hold the number of the process that made it. The high bits are µs since 1970.
const NodeBits = 10

// CreatedBy reports whether the row with that id was made at the instant or before.
func CreatedBy(id int64, at time.Time) bool { return id>>NodeBits <= at.UnixMicro() }
