package client

import (
	"context"
	"crypto/rand"
	"math/big"
	"net/http"
	"strconv"
	"time"
)

const (
	// firstPause is waited before the second try; each further pause is twice as long, up to maxPause.
	firstPause = 200 * time.Millisecond
	maxPause   = 10 * time.Second
)

// WithRetries has calls tried up to tries times in all when the server does not answer, or says that it cannot now (see
// Temporary). Only calls are repeated of which a second one changes nothing: those that read, those that carry an
// Idempotency-Key, and posts of events, which are known by their ids or their content. Between tries the client waits
// for as long as the server wishes, else for a short while that doubles; the context ends the waiting.
func WithRetries(tries int) Option { return func(c *Client) { c.tries = tries } }

// again calls do until it succeeds, can not, or may not be repeated.
func (c *Client) again(ctx context.Context, repeatable bool, do func() error) error {
	for try := 1; ; try++ {
		err := do()
		if err == nil || !repeatable || try >= c.tries || ctx.Err() != nil || !Temporary(err) {
			return err
		}
		if !rest(ctx, pause(try, err)) {
			return err
		}
	}
}

// repeatable reports whether a second call changes nothing.
func repeatable(method, path, key string) bool {
	return method == http.MethodGet || key != "" || path == "/v1/events"
}

// pause is how long to wait after a failed try: what the server wishes, or a part of a span that doubles, so that those
// who failed together do not come back together.
func pause(try int, err error) time.Duration {
	if wish := RetryAfter(err); wish > 0 {
		return min(wish, maxPause)
	}
	span := min(firstPause<<min(try-1, 10), maxPause)
	part, err := rand.Int(rand.Reader, big.NewInt(int64(span/2)))
	if err != nil {
		return span
	}
	return span/2 + time.Duration(part.Int64())
}

// rest waits, and reports false when the context ends before, or would.
func rest(ctx context.Context, d time.Duration) bool {
	wait, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	before, ok := ctx.Deadline()
	if until, _ := wait.Deadline(); ok && !until.Before(before) {
		return false
	}
	<-wait.Done()
	return ctx.Err() == nil
}

// retryAfter reads the header of that name in its usual form, whole seconds.
func retryAfter(res *http.Response) time.Duration {
	seconds, err := strconv.Atoi(res.Header.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return time.Duration(seconds) * time.Second
}
