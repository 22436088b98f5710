package client

import (
	"crypto/rand"
	"net/http"
)

// Headers of requests that may come again.
const (
	// IdempotencyKey has a request take effect once: with the same key and the same body it is answered as the first
	// time, for 24 hours.
	IdempotencyKey = "Idempotency-Key"
	// IdempotencyReplayed is true with an answer that was given before.
	IdempotencyReplayed = "Idempotency-Replayed"
)

// WithIdempotencyKey is a client whose writing requests carry this key, 1 to 255 visible ASCII characters. Take it for
// one request, and for the same request again when its answer did not arrive:
//
//	answer, err := c.WithIdempotencyKey("import-2026-05-14-part-7").PostEvents(ctx, events...)
func (c *Client) WithIdempotencyKey(key string) *Client {
	other := *c
	other.once = key
	return &other
}

// keyFor is the Idempotency-Key of a request, empty for none. Without one of the caller's, every change gets a random
// one; events get none, because they are known by their own ids, and keeping the answers to thousands of them is
// work that most callers have no use for.
func (c *Client) keyFor(method, path string) string {
	switch {
	case method == http.MethodGet, path == "/v1/tick":
		return ""
	case c.once != "" || path == "/v1/events":
		return c.once
	}
	return rand.Text()
}
