package client_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon/client"
)

// round answers requests without a network.
type round func(*http.Request) (*http.Response, error)

func (f round) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func answer(status int, header http.Header, body string) *http.Response {
	if header == nil {
		header = http.Header{}
	}
	return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(strings.NewReader(body))}
}

// Calls are repeated when that can help and does no harm, with pauses that grow or that the server wishes for; a body
// and an Idempotency-Key are the same in every try.
func TestRetries(t *testing.T) {
	t.Parallel()
	busy := func() (*http.Response, error) { return answer(503, nil, ""), nil }
	tests := []struct {
		name  string
		fails []func() (*http.Response, error)
		call  func(context.Context, *client.Client) error
		tries int
		ok    bool
		least time.Duration
		most  time.Duration
	}{
		{"a read", []func() (*http.Response, error){busy, busy}, reads, 3, true, 300 * time.Millisecond, 600 * time.Millisecond},
		{"a read, too often", []func() (*http.Response, error){busy, busy, busy}, reads, 3, false, 300 * time.Millisecond, 600 * time.Millisecond},
		{"a lost connection", []func() (*http.Response, error){func() (*http.Response, error) { return nil, io.ErrUnexpectedEOF }}, reads, 2, true, 0, 200 * time.Millisecond},
		{"the server's wish", []func() (*http.Response, error){func() (*http.Response, error) {
			return answer(429, http.Header{"Retry-After": {"7"}}, ""), nil
		}}, reads, 2, true, 7 * time.Second, 7 * time.Second},
		{"a change, under its key", []func() (*http.Response, error){busy}, changes, 2, true, 0, 200 * time.Millisecond},
		{"events", []func() (*http.Response, error){busy}, posts, 2, true, 0, 200 * time.Millisecond},
		{"a tick may not be", []func() (*http.Response, error){busy}, ticks, 1, false, 0, 0},
		{"a refusal stays one", []func() (*http.Response, error){func() (*http.Response, error) { return answer(422, nil, ""), nil }}, reads, 1, false, 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var tries int
				var seen []string
				c, err := client.New("http://server.example", "car_x", client.WithRetries(3), client.WithHTTPClient(&http.Client{
					Transport: round(func(r *http.Request) (*http.Response, error) {
						var body []byte
						if r.Body != nil {
							body, _ = io.ReadAll(r.Body)
						}
						seen = append(seen, r.Header.Get(client.IdempotencyKey)+" "+string(body))
						tries++
						if tries <= len(tt.fails) {
							return tt.fails[tries-1]()
						}
						return answer(200, nil, "{}"), nil
					}),
				}))
				if err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				err = tt.call(t.Context(), c)
				took := time.Since(began)
				if tries != tt.tries || (err == nil) != tt.ok || took < tt.least || took > tt.most {
					t.Errorf("%d tries in %s: %v; want %d, from %s to %s", tries, took, err, tt.tries, tt.least, tt.most)
				}
				for _, one := range seen {
					if one != seen[0] {
						t.Errorf("a try differs: %q, the first was %q", one, seen[0])
					}
				}
			})
		})
	}
}

func reads(ctx context.Context, c *client.Client) error { _, err := c.Reasons(ctx); return err }
func ticks(ctx context.Context, c *client.Client) error { _, err := c.Tick(ctx); return err }
func posts(ctx context.Context, c *client.Client) error {
	_, err := c.PostEvents(ctx, client.Event{Kind: "k"})
	return err
}

func changes(ctx context.Context, c *client.Client) error {
	_, err := c.CancelInstance(ctx, "i_1")
	return err
}

// Without the option one call is one request, and a context that ends soon is not waited out.
func TestRetriesEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var tries atomic.Int64
		busy := client.WithHTTPClient(&http.Client{Transport: round(func(*http.Request) (*http.Response, error) {
			tries.Add(1)
			return answer(503, http.Header{"Retry-After": {"5"}}, ""), nil
		})})
		plain, err := client.New("http://server.example", "", busy)
		if err != nil {
			t.Fatal(err)
		}
		if err := reads(t.Context(), plain); err == nil || tries.Load() != 1 {
			t.Errorf("%d tries: %v", tries.Load(), err)
		}
		patient, err := client.New("http://server.example", "", busy, client.WithRetries(9))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		var p *client.Problem
		if err := reads(ctx, patient); !errors.As(err, &p) || p.Status != 503 || time.Since(began) > 0 || tries.Load() != 2 {
			t.Errorf("%d tries in %s: %v", tries.Load(), time.Since(began), err)
		}
	})
}
