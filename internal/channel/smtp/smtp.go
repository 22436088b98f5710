// Package smtp is the channel that hands emails to a mail server.
//
//	compose ─▶ take a connection ─▶ MAIL ─▶ RCPT ─▶ DATA ─▶ mail ─▶ final dot ══▶ 250
//	           (kept, or opened)    └────── definite: not accepted ───────┘   └─ unknown until answered
//
// One Send hands at most one mail over. A connection that died while it was kept is replaced before the mail is
// begun; from there on nothing is repeated here. What is broken off before the final dot has left was not accepted
// (temporary). What is broken off after it is unknown (channel.Lost), because SMTP has no idempotency key: the mail's
// Message-ID is the same in every try, and only by it can a receiver recognise a second copy (P4).
//
// It never writes an address, a header or a command that was not checked first (compose, message.ParseAddress), and
// it never falls back to a connection without TLS.
package smtp

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"time"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/channel/callback"
	"github.com/carillonhq/carillon/internal/clock"
)

const (
	// connections is how many are open at once to one server from one process; common servers allow 10 to 50.
	connections = 10
	// idleFor is how long a connection is kept without a mail. Servers close them after 10 s and more.
	idleFor = 8 * time.Second
	// maxReplies bounds what is read from a server during one mail, a TLS handshake included, in bytes.
	maxReplies = 256 << 10
)

// Options of the provider.
type Options struct {
	// Dial opens connections; it decides which addresses may be reached (outbound.Client.Dial).
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Clock gives the Date of mails and the idle time of connections.
	Clock clock.Clock
	// Roots are whom to trust; nil: whom the machine trusts.
	Roots *x509.CertPool
}

// Provider returns the provider.
func Provider(o Options) channel.Provider {
	return channel.Provider{
		Name:     "smtp",
		Doc:      "Hands every message as an email to a mail server.",
		Settings: settingList(),
		Check: func(given map[string]string) error {
			_, err := parse(given, false)
			return err
		},
		Open: func(given map[string]string) (channel.Channel, error) {
			s, err := parse(given, true)
			if err != nil {
				return nil, err
			}
			in, err := callback.Open(given)
			if err != nil {
				return nil, err
			}
			return newChannel(s, in, o), nil
		},
	}
}

// Channel hands mails to one server. It is safe for concurrent use.
type Channel struct {
	settings
	callback.Receiver

	clock clock.Clock
	pool  *pool
}

func newChannel(s settings, in callback.Receiver, o Options) *Channel {
	d := dialer{settings: s, dial: o.Dial, tls: &tls.Config{
		ServerName: s.host, RootCAs: o.Roots, MinVersion: tls.VersionTLS12,
		ClientSessionCache: tls.NewLRUClientSessionCache(connections),
	}}
	return &Channel{settings: s, Receiver: in, clock: o.Clock, pool: newPool(d.open, o.Clock)}
}

// Close ends idle connections, and each one in use as soon as it is returned.
func (c *Channel) Close() error { return c.pool.close() }

// Send hands one mail over. Its receipt is the mail's Message-ID.
func (c *Channel) Send(ctx context.Context, out channel.Outgoing) (channel.Receipt, error) {
	m, err := c.compose(out, c.clock.Now())
	if err != nil {
		return channel.Receipt{}, channel.Permanent(err)
	}
	s, err := c.begin(ctx, m)
	if err != nil {
		return channel.Receipt{}, m.refused(err)
	}
	err = s.finish(ctx)
	c.pool.put(s)
	if err != nil {
		return channel.Receipt{}, m.refused(err)
	}
	return channel.Receipt{ProviderID: m.id}, nil
}

// begin brings a mail up to its final dot. Nothing of it has been accepted when it fails. All of it, the wait for a connection included, has half of
// the time that the send has: the server has the other half to answer, when the outcome is at stake.
func (c *Channel) begin(ctx context.Context, m mail) (*session, error) {
	if deadline, bounded := ctx.Deadline(); bounded {
		within := (deadline.Sub((&clock.System{}).Now()) / 2).Round(10 * time.Millisecond)
		slow := fmt.Errorf("the server took longer than %s before the mail was with it", within)
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, within, slow)
		defer cancel()
	}
	if err := c.pool.enter(ctx); err != nil {
		return nil, err
	}
	for {
		s, err := c.pool.take(ctx)
		if err != nil {
			c.pool.leave()
			return nil, err
		}
		err = s.begin(ctx, m)
		if err == nil {
			return s, nil
		}
		again := s.kept && s.dead && !s.begun && ctx.Err() == nil
		if again {
			s.drop() // the place in the pool stays ours
			continue
		}
		c.pool.put(s)
		return nil, err
	}
}
