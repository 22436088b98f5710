// Package client is the Go client of Carillon's HTTP API and holds the API's wire types.
//
// The server uses the same types. One method calls one route. Each takes a context; a context without a deadline ends after
// DefaultTimeout. An answer that is not 2xx is returned as a *Problem, which errors.As finds; programs branch on its Code,
// one of Codes. Lists are returned in pages, or whole by the methods that begin with All.
//
// Requests that change something carry an Idempotency-Key, so that a repeated request is done once. The client repeats a
// call by itself only with WithRetries, and only if a second call changes nothing.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// DefaultTimeout bounds one request. A full batch of events on a busy database takes longest.
const DefaultTimeout = 60 * time.Second

// maxAnswer bounds the bytes that are read of an answer. A page of deliveries with their traces is far smaller.
const maxAnswer = 64 << 20

// Client talks to one server with one API key. It is safe for concurrent use.
type Client struct {
	server   string
	key      string
	once     string // Idempotency-Key of every writing request; empty: see keyFor
	compress bool
	tries    int // of one call; less than 2 = one
	http     *http.Client
}

// Option changes a new Client.
type Option func(*Client)

// WithHTTPClient has requests made by h instead of a client with DefaultTimeout.
func WithHTTPClient(h *http.Client) Option { return func(c *Client) { c.http = h } }

// WithCompression has large batches compressed, or not. Without this option they are, unless the server is on this
// machine.
func WithCompression(on bool) Option { return func(c *Client) { c.compress = on } }

// New makes a client for a server such as http://127.0.0.1:8080. The key is sent with every request.
func New(server, key string, options ...Option) (*Client, error) {
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("%q is not the address of a server; write it like http://127.0.0.1:8080", server)
	}
	c := &Client{server: strings.TrimRight(server, "/"), key: key, compress: !loopback(u.Hostname()), http: &http.Client{Timeout: DefaultTimeout}}
	for _, option := range options {
		option(c)
	}
	return c, nil
}

// PostEvents takes events in, at most MaxEvents. The error concerns the whole request. One bad event fails no other one: the
// answer's Err names those that were refused, and what was accepted is durable.
func (c *Client) PostEvents(ctx context.Context, events ...Event) (EventsAnswer, error) {
	var answer EventsAnswer
	err := c.call(ctx, http.MethodPost, "/v1/events", map[string]any{"events": events}, &answer)
	return answer, err
}

// PostRawEvents is PostEvents for events that are JSON already; they are sent as they are.
func (c *Client) PostRawEvents(ctx context.Context, events []json.RawMessage) (EventsAnswer, error) {
	var answer EventsAnswer
	err := c.call(ctx, http.MethodPost, "/v1/events", map[string]any{"events": events}, &answer)
	return answer, err
}

// Event returns an event that was taken in.
func (c *Client) Event(ctx context.Context, id string) (EventDetail, error) {
	return get[EventDetail](ctx, c, "/v1/events/"+url.PathEscape(id), nil)
}

// Definitions lists the definitions in force with their versions.
func (c *Client) Definitions(ctx context.Context) (Definitions, error) {
	return get[Definitions](ctx, c, "/v1/definitions", nil)
}

// Apply puts a whole set of definition files in force. Files that cannot be used give a *Problem whose Problems
// list every fault; nothing is changed then.
func (c *Client) Apply(ctx context.Context, files []File) (Applied, error) {
	return c.ApplyWith(ctx, files, ApplyOptions{})
}

// Instances gives a page of instances, newest first.
func (c *Client) Instances(ctx context.Context, q InstanceQuery) (Page[Instance], error) {
	return get[Page[Instance]](ctx, c, "/v1/instances", q.values())
}

// AllInstances goes through every page, beginning with the query's cursor. It ends after the first error.
func (c *Client) AllInstances(ctx context.Context, q InstanceQuery) iter.Seq2[Instance, error] {
	return pages(func(cursor string) (Page[Instance], error) {
		if cursor != "" {
			q.Cursor = cursor
		}
		return c.Instances(ctx, q)
	})
}

// Instance returns an instance with its deliveries.
func (c *Client) Instance(ctx context.Context, id string) (InstanceDetail, error) {
	return get[InstanceDetail](ctx, c, "/v1/instances/"+url.PathEscape(id), nil)
}

// InstanceCounted returns an instance with all its deliveries counted, of which Instance counts the first 100,000. That takes longer.
func (c *Client) InstanceCounted(ctx context.Context, id string) (InstanceDetail, error) {
	return get[InstanceDetail](ctx, c, "/v1/instances/"+url.PathEscape(id), url.Values{"count_all": {"true"}})
}

// InstanceFor returns an instance with its deliveries to one contact alone, named by its id. Of a run of a digest that made none for them it says why.
func (c *Client) InstanceFor(ctx context.Context, id, contact string) (InstanceDetail, error) {
	return get[InstanceDetail](ctx, c, "/v1/instances/"+url.PathEscape(id), url.Values{"contact": {contact}})
}

// CancelInstance stops an instance and whatever of its deliveries has not left.
func (c *Client) CancelInstance(ctx context.Context, id string) (Operated, error) {
	return c.operate(ctx, "/v1/instances/"+url.PathEscape(id)+"/cancel")
}

// RetryInstance has an instance done again.
func (c *Client) RetryInstance(ctx context.Context, id string) (Operated, error) {
	return c.operate(ctx, "/v1/instances/"+url.PathEscape(id)+"/retry")
}

// RetryInstanceForAll has a run of a digest that has ended done again for everybody, with those who have got its items.
func (c *Client) RetryInstanceForAll(ctx context.Context, id string) (Operated, error) {
	var answer Operated
	err := c.call(ctx, http.MethodPost, "/v1/instances/"+url.PathEscape(id)+"/retry", InstanceRetry{Scope: RetryAll}, &answer)
	return answer, err
}

// ReleaseInstance lets a held instance go on.
func (c *Client) ReleaseInstance(ctx context.Context, id string) (Operated, error) {
	return c.operate(ctx, "/v1/instances/"+url.PathEscape(id)+"/release")
}

// Forget frees the key of an instance, so that the next such event counts as new.
func (c *Client) Forget(ctx context.Context, key string) (Operated, error) {
	var answer Operated
	err := c.call(ctx, http.MethodPost, "/v1/instances/forget", map[string]any{"key": key}, &answer)
	return answer, err
}

// RunWorkflow runs a workflow by hand, now. The same run id again answers the same instance.
func (c *Client) RunWorkflow(ctx context.Context, workflow, runID string) (ManualRun, error) {
	var answer ManualRun
	err := c.call(ctx, http.MethodPost, "/v1/workflows/"+url.PathEscape(workflow)+"/runs", map[string]any{"run_id": runID}, &answer)
	return answer, err
}

// Deliveries gives a page of deliveries, newest first.
func (c *Client) Deliveries(ctx context.Context, q DeliveryQuery) (Page[Delivery], error) {
	return get[Page[Delivery]](ctx, c, "/v1/deliveries", q.values())
}

// AllDeliveries goes through every page, beginning with the query's cursor. It ends after the first error.
func (c *Client) AllDeliveries(ctx context.Context, q DeliveryQuery) iter.Seq2[Delivery, error] {
	return pages(func(cursor string) (Page[Delivery], error) {
		if cursor != "" {
			q.Cursor = cursor
		}
		return c.Deliveries(ctx, q)
	})
}

// Delivery returns a delivery with its attempts and, where the channel keeps it, what was sent.
func (c *Client) Delivery(ctx context.Context, id string) (DeliveryDetail, error) {
	return get[DeliveryDetail](ctx, c, "/v1/deliveries/"+url.PathEscape(id), nil)
}

// CancelDelivery stops a delivery.
func (c *Client) CancelDelivery(ctx context.Context, id string) (Operated, error) {
	return c.operate(ctx, "/v1/deliveries/"+url.PathEscape(id)+"/cancel")
}

// RetryDelivery has a delivery tried again.
func (c *Client) RetryDelivery(ctx context.Context, id string) (Operated, error) {
	return c.operate(ctx, "/v1/deliveries/"+url.PathEscape(id)+"/retry")
}

// Tick runs every pass once, at the server's present time.
func (c *Client) Tick(ctx context.Context) (Tick, error) {
	var answer Tick
	err := c.call(ctx, http.MethodPost, "/v1/tick", nil, &answer)
	return answer, err
}

// Reasons lists every named outcome with its sentence.
func (c *Client) Reasons(ctx context.Context) (Reasons, error) {
	return get[Reasons](ctx, c, "/v1/reasons", nil)
}

func (c *Client) operate(ctx context.Context, path string) (Operated, error) {
	var answer Operated
	err := c.call(ctx, http.MethodPost, path, nil, &answer)
	return answer, err
}

func get[T any](ctx context.Context, c *Client, path string, query url.Values) (T, error) {
	var answer T
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	err := c.call(ctx, http.MethodGet, path, nil, &answer)
	return answer, err
}

func pages[T any](page func(cursor string) (Page[T], error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for cursor := ""; ; {
			p, err := page(cursor)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, item := range p.Items {
				if !yield(item, nil) {
					return
				}
			}
			if cursor = p.NextCursor; cursor == "" {
				return
			}
		}
	}
}

func (c *Client) call(ctx context.Context, method, path string, body, answer any) error {
	var raw []byte
	compressed := false
	if body != nil {
		var err error
		if raw, err = json.Marshal(body); err != nil {
			return fmt.Errorf("write the request: %w", err)
		}
		if compressed = c.compress && len(raw) >= compressFrom && batch(method, path); compressed {
			raw = compress(raw)
		}
	}
	key := c.keyFor(method, path)
	return c.again(ctx, repeatable(method, path, key), func() error { return c.send(ctx, method, path, key, raw, compressed, answer) })
}

// send makes one request and reads its answer; raw is nil when it has no body.
func (c *Client) send(ctx context.Context, method, path, key string, raw []byte, compressed bool, answer any) error {
	var content io.Reader
	if raw != nil {
		content = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.server+path, content)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/json")
	if raw != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if compressed {
		req.Header.Set("Content-Encoding", "gzip")
	}
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	if key != "" {
		req.Header.Set(IdempotencyKey, key)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return unwrapURL(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	if res.StatusCode/100 != 2 {
		return problem(res, text)
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return fmt.Errorf("the answer is not what a Carillon server says: %w", err)
	}
	return nil
}

// unwrapURL leaves out the method and the URL that package http puts before the cause; the caller knows them.
func unwrapURL(err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}

func problem(res *http.Response, raw []byte) error {
	p := &Problem{}
	kind, _, err := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if err != nil || kind != ProblemType || json.Unmarshal(raw, p) != nil {
		p = &Problem{Title: http.StatusText(res.StatusCode), Code: "unexpected_answer", Detail: "the answer does not come from a Carillon server"}
	}
	p.Status, p.RetryAfter = res.StatusCode, retryAfter(res)
	return p
}
