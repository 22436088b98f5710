// Package nats is the sink that publishes outbox events to a stream of NATS JetStream.
//
//	subject       the setting
//	Nats-Msg-Id   the message id: within its duplicate window the stream drops a second message with the same id
//	Content-Type  application/cloudevents+json
//
// An event is accepted when the stream has acknowledged it. One connection is shared by all events of a sink. It is opened by the first of
// them, and again by the next one after it broke: never in the background, so that nothing is published after a Send has returned for
// want of a connection. It is made through the guard of outgoing connections (package outbound), which no address of a definition and none
// that a server announces gets around.
package nats

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	natsio "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/carillonhq/carillon/internal/outbound"
	"github.com/carillonhq/carillon/internal/sink"
)

const (
	settingURL         = "url"
	settingSubject     = "subject"
	settingCredentials = "credentials"

	// connectTimeout bounds the handshake with one server; the context of the Send bounds all of them.
	connectTimeout = 5 * time.Second
	// A connection that broke without a notice is found after two pings without an answer.
	pingInterval = 10 * time.Second
	pingsOut     = 2
	// flushTimeout bounds a write to a server that reads nothing.
	flushTimeout = 5 * time.Second
)

// Options say how servers are reached.
type Options struct {
	// Dial opens a connection if the operator's rules allow its address (outbound.Client.Dial).
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Roots are the certificate authorities that are trusted; nil: those of the machine.
	Roots *x509.CertPool
}

// Provider returns the provider.
func Provider(o Options) sink.Provider {
	return sink.Provider{
		Name: "nats",
		Doc:  "Publishes every event to a stream of NATS JetStream.",
		Settings: []sink.Setting{
			{Name: settingURL, Required: true, Doc: "The servers: nats://HOST:PORT, or tls://HOST:PORT for an encrypted connection; several of one cluster with commas between."},
			{Name: settingSubject, Required: true, Doc: "The subject, of which a stream must exist."},
			{Name: settingCredentials, Secret: true, Doc: "How to sign in: the text of a .creds file, USER:PASSWORD, or a token."},
		},
		Check: check,
		Open: func(settings map[string]string) (sink.Sink, error) {
			for _, name := range []string{settingURL, settingSubject} {
				if settings[name] == "" {
					return nil, &sink.SettingError{Setting: name, Err: errors.New("is missing")}
				}
			}
			if err := check(settings); err != nil {
				return nil, err
			}
			signIn, err := signIn(settings[settingCredentials])
			if err != nil {
				return nil, &sink.SettingError{Setting: settingCredentials, Err: err}
			}
			return &Sink{
				options: o, servers: servers(settings[settingURL]), subject: settings[settingSubject], signIn: signIn,
				hide: hidden(settings[settingCredentials]), turn: make(chan struct{}, 1),
			}, nil
		},
	}
}

// Sink publishes to one subject.
type Sink struct {
	options Options
	servers []string
	subject string
	signIn  natsio.Option // nil: without
	hide    []string      // never in an error

	turn   chan struct{} // holds one value while the connection is opened or closed
	conn   *connection   // nil: the next Send opens one
	closed bool
}

// connection is an open connection.
type connection struct {
	*natsio.Conn
	stream jetstream.JetStream
	// complaint is the last error that the server reported without saying of which message, such as a missing permission.
	complaint atomic.Pointer[error]
}

// Send publishes one message and waits for the acknowledgement. Nothing is published once ctx is done.
func (s *Sink) Send(ctx context.Context, m sink.Message) error {
	if _, bounded := ctx.Deadline(); !bounded {
		within, cancel := context.WithTimeoutCause(ctx, outbound.DefaultTimeout, fmt.Errorf("no answer within %s", outbound.DefaultTimeout))
		defer cancel()
		ctx = within
	}
	conn, err := s.connect(ctx)
	if err != nil {
		return sink.Failed(s.hiding(fmt.Errorf("connect: %w", err)))
	}
	out := natsio.NewMsg(s.subject)
	out.Header.Set("Content-Type", sink.ContentType)
	out.Data = m.Body
	conn.complaint.Store(nil)
	// The outbox repeats, with longer waits.
	_, err = conn.stream.PublishMsg(ctx, out, jetstream.WithMsgID(m.ID), jetstream.WithRetryAttempts(0))
	if err == nil {
		return nil
	}
	failed := s.failure(ctx, conn, err)
	failed.Err = s.hiding(failed.Err)
	return failed
}

// failure classifies an error of a publish.
func (s *Sink) failure(ctx context.Context, conn *connection, err error) *sink.Error {
	var answer *jetstream.APIError
	switch {
	case errors.Is(err, jetstream.ErrNoStreamResponse):
		return s.noStream(ctx, conn)
	case errors.As(err, &answer):
		if answer.Code >= http.StatusBadRequest && answer.Code < http.StatusInternalServerError && answer.Code != http.StatusTooManyRequests {
			return sink.Refused(err)
		}
		return sink.Failed(err)
	case errors.Is(err, natsio.ErrMaxPayload):
		return sink.Refused(fmt.Errorf("%w: the server takes %d bytes", err, conn.MaxPayload()))
	case errors.Is(err, jetstream.ErrInvalidJSAck):
		return sink.Failed(fmt.Errorf("%w: something other than a stream answers at the subject %s", err, s.subject))
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if complaint := conn.complaint.Load(); complaint != nil {
		err = fmt.Errorf("%w; the server says: %w", err, *complaint)
	}
	return sink.Lost(err)
}

// noStream says why no stream has answered. A stream that is not there is an error for good: a person makes it and redrives the events. One
// that is there has no leader at the moment.
func (s *Sink) noStream(ctx context.Context, conn *connection) *sink.Error {
	name, err := conn.stream.StreamNameBySubject(ctx, s.subject)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return sink.Refused(fmt.Errorf("no stream takes the subject %s: make one, such as nats stream add NAME --subjects %s, and redrive the events", s.subject, s.subject))
	case errors.Is(err, natsio.ErrNoResponders), errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return sink.Failed(errors.New("JetStream is not enabled on this server or for this account: turn it on"))
	case err != nil:
		return sink.Failed(fmt.Errorf("look for a stream of the subject %s: %w", s.subject, err))
	}
	return sink.Failed(fmt.Errorf("the stream %s does not answer", name))
}

// connect returns the shared connection, and opens it if there is none.
func (s *Sink) connect(ctx context.Context) (*connection, error) {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if s.closed {
		return nil, errors.New("the sink is closed")
	}
	if s.conn != nil && !s.conn.IsClosed() {
		return s.conn, nil
	}
	s.conn = nil
	conn := &connection{}
	var err error
	if conn.Conn, err = s.dial(ctx, conn); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return nil, err
	}
	if conn.stream, err = jetstream.New(conn.Conn); err != nil {
		conn.Close()
		return nil, err
	}
	s.conn = conn
	return conn, nil
}

// dial opens a connection to the first server that takes it. The end of ctx ends a handshake that hangs.
func (s *Sink) dial(ctx context.Context, conn *connection) (*natsio.Conn, error) {
	var stops []func() bool
	defer func() {
		for _, stop := range stops {
			stop()
		}
	}()
	guarded := dialer(func(network, address string) (net.Conn, error) {
		made, err := s.options.Dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		stops = append(stops, context.AfterFunc(ctx, func() { _ = made.Close() }))
		return made, nil
	})
	options := []natsio.Option{
		natsio.Name("carillon"), natsio.SetCustomDialer(guarded),
		// The guard resolves names itself, so that the address that it checks is the one that is called.
		natsio.SkipHostLookup(), natsio.IgnoreDiscoveredServers(), natsio.NoReconnect(),
		natsio.Timeout(connectTimeout), natsio.PingInterval(pingInterval), natsio.MaxPingsOutstanding(pingsOut), natsio.FlusherTimeout(flushTimeout),
		natsio.ErrorHandler(func(_ *natsio.Conn, _ *natsio.Subscription, err error) { conn.complaint.Store(&err) }),
		func(o *natsio.Options) error {
			o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: s.options.Roots}
			return nil
		},
	}
	if s.signIn != nil {
		options = append(options, s.signIn)
	}
	return natsio.Connect(strings.Join(s.servers, ","), options...)
}

// dialer is a function as the client's dialer.
type dialer func(network, address string) (net.Conn, error)

// Dial calls the function.
func (d dialer) Dial(network, address string) (net.Conn, error) { return d(network, address) }

// Close closes the connection. Sends at work end with an error.
func (s *Sink) Close() error {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	s.closed = true
	if s.conn != nil {
		s.conn.Close()
		s.conn = nil
	}
	return nil
}
