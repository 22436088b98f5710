package outbound

import (
	"net/http"
	"strconv"
	"time"
)

// MaxRetryAfter bounds the wait that an answer may ask for: a day, the longest wait between two tries that is plausible.
const MaxRetryAfter = 24 * time.Hour

// RetryAfter returns the wait that an answer asks for in its header Retry-After: seconds, or a date, which is compared with the answer's own
// date, so that no clock is compared with another one (RFC 9110, 10.2.3). It is 0 if there is no wish, or if the header cannot be read.
func RetryAfter(h http.Header) time.Duration {
	value := h.Get("Retry-After")
	wish := time.Duration(0)
	if seconds, err := strconv.ParseInt(value, 10, 32); err == nil {
		wish = time.Duration(seconds) * time.Second
	} else if until, err := http.ParseTime(value); err == nil {
		if sent, err := http.ParseTime(h.Get("Date")); err == nil {
			wish = until.Sub(sent)
		}
	}
	return min(max(wish, 0), MaxRetryAfter)
}
