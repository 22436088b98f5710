// Package outbound is the one door by which the engine calls other systems: an HTTP client, and connections for
// protocols of another kind (Dial).
//
// A call makes at most one request, over HTTP/1.1 and HTTP/2: no redirect is followed, no proxy is asked, and
// the transport cannot repeat a request behind the caller's back (left alone it does so for any request with an
// Idempotency-Key whose reused connection dies before the answer, and for any stream that a server of HTTP/2 refuses
// or leaves behind with GOAWAY). The address that is about to be connected to, not the name in the URL, is
// held against a policy, so that no name, redirect or notation leads to the inside of a network. Time and the size
// of an answer are bounded.
//
// It never retries and knows nothing of channels; those classify what happened.
package outbound

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"sync/atomic"
	"syscall"
	"time"
)

// Bounds of a call.
const (
	// DefaultTimeout bounds a call as a whole whose context has no deadline; it lies well inside a lease (30 s).
	DefaultTimeout = 10 * time.Second
	// DefaultMaxResponse is plenty for an answer that holds an id.
	DefaultMaxResponse = 64 << 10
	// connectTimeout leaves time for a second address of the same name.
	connectTimeout = 4 * time.Second
	// idleTimeout stays below the 5 s after which common servers close an idle connection: a request written into
	// a closing connection has an unknown outcome.
	idleTimeout = 4 * time.Second
	// maxHeader bounds the head of an answer, in bytes; no vendor's comes near it.
	maxHeader = 64 << 10
	// pingAfter and pingTimeout find a connection of HTTP/2 that died in silence, before every call that shares it has
	// waited in vain: together they stay below the time of one call.
	pingAfter   = 4 * time.Second
	pingTimeout = 4 * time.Second
	// maxIdlePerHost keeps one connection for each call that senders have in flight.
	maxIdlePerHost = 64
)

// Options of a Client; zero fields take the defaults.
type Options struct {
	Policy      Policy
	Timeout     time.Duration
	MaxResponse int64 // bytes of an answer that are read
	UserAgent   string
	// Roots are the authorities that sign the certificates of other systems; nil: the machine's.
	Roots *x509.CertPool
	// Wrap is put around each request, to follow it in a trace; it must pass every request on once, as it is. nil: nothing
	// is.
	Wrap func(http.RoundTripper) http.RoundTripper
}

// Client calls other systems. It is safe for concurrent use.
type Client struct {
	policy    Policy
	timeout   time.Duration
	max       int64
	userAgent string
	transport *http.Transport
	trip      http.RoundTripper // the transport, wrapped
	lookup    func(ctx context.Context, host string) ([]netip.Addr, error)
	connect   func(ctx context.Context, network, address string) (net.Conn, error)
}

// Request is one call.
type Request struct {
	Method string
	URL    string // http or https, without user information
	Header http.Header
	Body   []byte
}

// Response is an answer; Body holds at most the client's limit, Truncated says that it is not all of it.
type Response struct {
	Status    int
	Header    http.Header
	Body      []byte
	Truncated bool
}

// Error says that no answer came. Sent reports whether the request may have reached the other side.
type Error struct {
	Sent bool
	Err  error
}

func (e *Error) Error() string {
	if e.Sent {
		return "no answer: " + e.Err.Error()
	}
	return "not sent: " + e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// New makes a client.
func New(o Options) *Client {
	c := &Client{policy: o.Policy, timeout: o.Timeout, max: o.MaxResponse, userAgent: o.UserAgent}
	if c.timeout == 0 {
		c.timeout = DefaultTimeout
	}
	if c.max == 0 {
		c.max = DefaultMaxResponse
	}
	if c.userAgent == "" {
		c.userAgent = "carillon"
	}
	c.lookup = func(ctx context.Context, host string) ([]netip.Addr, error) {
		return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	}
	dialer := &net.Dialer{Timeout: connectTimeout, Control: c.control}
	c.connect = dialer.DialContext
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	c.transport = &http.Transport{
		DialContext:            c.Dial,
		Protocols:              protocols,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: o.Roots},
		DisableCompression:     true,
		MaxIdleConnsPerHost:    maxIdlePerHost,
		MaxResponseHeaderBytes: maxHeader,
		IdleConnTimeout:        idleTimeout,
		TLSHandshakeTimeout:    c.timeout,
		Proxy:                  nil,
	}
	c.trip = c.transport
	if o.Wrap != nil {
		c.trip = o.Wrap(c.transport)
	}
	return c
}

// Close drops idle connections.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// Do makes the call and reads the answer. It returns an *Error when no answer came; an answer of any status, a
// redirect included, is not an error.
func (c *Client) Do(ctx context.Context, r Request) (Response, error) {
	if _, bounded := ctx.Deadline(); !bounded {
		within, cancel := context.WithTimeoutCause(ctx, c.timeout, fmt.Errorf("no answer within %s", c.timeout))
		defer cancel()
		ctx = within
	}
	req, err := c.request(ctx, r)
	if err != nil {
		return Response{}, &Error{Err: err}
	}
	var sent atomic.Bool
	req = req.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { sent.Store(true) },
	}))
	answer, err := c.trip.RoundTrip(req)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return Response{}, &Error{Sent: sent.Load(), Err: err}
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, c.max+1))
	res := Response{Status: answer.StatusCode, Header: answer.Header, Body: body, Truncated: err != nil}
	if int64(len(body)) > c.max {
		res.Body, res.Truncated = body[:c.max], true
	}
	return res, nil
}

// request builds the request so that the transport cannot send it twice: it repeats only what it can rewind, and
// takes a request without a body for repeatable, so there always is one. A stream that a server of HTTP/2 surely did
// not take up is therefore seen as an answer that never came; the caller decides about it, as about any other.
func (c *Client) request(ctx context.Context, r Request) (*http.Request, error) {
	u, err := url.Parse(r.URL)
	switch {
	case err != nil:
		return nil, errors.New("the URL cannot be read")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("the URL begins with %q, not with http or https", u.Scheme)
	case u.Hostname() == "":
		return nil, errors.New("the URL names no host")
	case u.User != nil:
		return nil, errors.New("the URL holds a user or password")
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, r.URL, struct{ io.Reader }{bytes.NewReader(r.Body)})
	if err != nil {
		return nil, err
	}
	if r.Header != nil {
		req.Header = r.Header.Clone()
	}
	req.Header.Set("User-Agent", c.userAgent)
	req.ContentLength = int64(len(r.Body))
	req.GetBody = nil
	return req, nil
}

// Dial opens a connection (tcp, tcp4, tcp6) to the first reachable address of host:port that the policy allows. The
// address that was checked is the one that is dialled, so a name cannot change in between. Each address is given
// 4 seconds; ctx bounds the whole. What is spoken over the connection, and for how long, is the caller's concern.
func (c *Client) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	if network != "tcp" && network != "tcp4" && network != "tcp6" {
		return nil, fmt.Errorf("no connection over %q is made, only over tcp", network)
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	addrs, err := c.lookup(ctx, host)
	if err != nil {
		return nil, err
	}
	problems := make([]error, 0, len(addrs))
	for _, addr := range addrs {
		if err := c.policy.Allowed(addr); err != nil {
			problems = append(problems, err)
			continue
		}
		conn, err := c.connect(ctx, network, net.JoinHostPort(addr.Unmap().String(), port))
		if err == nil {
			return conn, nil
		}
		problems = append(problems, err)
	}
	if len(problems) == 0 {
		return nil, fmt.Errorf("%s has no address", host)
	}
	return nil, errors.Join(problems...)
}

// control is the last look: it sees the address of the socket itself, just before it connects.
func (c *Client) control(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	return c.policy.Allowed(to.Addr())
}
