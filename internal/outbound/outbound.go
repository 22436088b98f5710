// Package outbound makes all of the engine's requests to other systems: it has an HTTP client, and connections for other protocols
// (Dial).
//
// A call makes at most one request, over HTTP/1.1 or HTTP/2. It follows no redirects and uses no proxy. The transport cannot repeat a
// request unnoticed; by default it does so if a reused connection breaks before the answer and the request has an Idempotency-Key, and if
// an HTTP/2 server refuses a stream or leaves it out of a GOAWAY. A policy checks the address of each connection, not the name in the URL,
// so that no name, redirect or notation leads into a private network. The time and the size of an answer are bounded.
//
// The package never retries, and it does not know channels, which classify the outcomes.
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
	// DefaultTimeout bounds a whole call whose context has no deadline. It is much shorter than a lease (30 s).
	DefaultTimeout = 10 * time.Second
	// DefaultMaxResponse bounds an answer, in bytes. An answer with an id is much smaller.
	DefaultMaxResponse = 64 << 10
	// connectTimeout bounds one connection attempt, so that there is time for a second address of the same name.
	connectTimeout = 4 * time.Second
	// idleTimeout is less than the 5 s after which common servers close an idle connection, because a request that is written into a
	// closing connection has an unknown outcome.
	idleTimeout = 4 * time.Second
	// maxHeader bounds the headers of an answer, in bytes. The headers of all vendors are much smaller.
	maxHeader = 64 << 10
	// pingAfter and pingTimeout find an HTTP/2 connection that broke without a notice before the calls that share it time out: together
	// they are less than the time of one call.
	pingAfter   = 4 * time.Second
	pingTimeout = 4 * time.Second
	// maxIdlePerHost is enough to keep one connection for each call that senders have in flight.
	maxIdlePerHost = 64
)

// Options of a Client; zero fields take the defaults.
type Options struct {
	Policy      Policy
	Timeout     time.Duration
	MaxResponse int64 // bounds the body of an answer, in bytes
	UserAgent   string
	// Roots are the certificate authorities that are trusted; nil: those of the machine.
	Roots *x509.CertPool
	// Wrap wraps the transport, for example to trace requests. It must pass on every request once and unchanged. nil: no wrapper.
	Wrap func(http.RoundTripper) http.RoundTripper
}

// Client calls other systems. It is safe for concurrent use.
type Client struct {
	policy    Policy
	timeout   time.Duration
	max       int64
	userAgent string
	transport *http.Transport
	trip      http.RoundTripper // the wrapped transport
	lookup    func(ctx context.Context, host string) ([]netip.Addr, error)
	connect   func(ctx context.Context, network, address string) (net.Conn, error)
}

// Request is the request of one call.
type Request struct {
	Method string
	URL    string // http or https, without user information
	Header http.Header
	Body   []byte
}

// Response is an answer. Body is cut off at Options.MaxResponse; Truncated reports that it was.
type Response struct {
	Status    int
	Header    http.Header
	Body      []byte
	Truncated bool
}

// Error means that there was no answer. Sent reports whether the request may have reached the other system.
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

// Close closes idle connections.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// Do makes the call and reads the answer. It returns an *Error if there is no answer. An answer with any status, even a redirect, is not an
// error.
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

// request builds a request that the transport cannot send twice. The transport repeats requests without a body and requests whose body it can
// rewind, so every request has a body that it cannot rewind. If an HTTP/2 server did not process a stream, the call therefore has no answer,
// and the caller decides about it as about any other such call.
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

// Dial opens a connection (tcp, tcp4, tcp6) to the first reachable address of host:port that the policy allows. It dials the address that was
// checked, so that a name cannot change in between. Each address has 4 seconds; ctx bounds the whole call. The caller sets the deadlines of
// the connection.
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

// control checks the address of the socket itself, immediately before the connection is made.
func (c *Client) control(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	return c.policy.Allowed(to.Addr())
}
