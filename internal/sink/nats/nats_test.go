package nats

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	natsio "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/outbound"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/sink"
)

const subject = "csi.tickets"

// serve starts a real server on this machine; change may alter its options.
func serve(t *testing.T, change func(o *server.Options)) *server.Server {
	t.Helper()
	o := &server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true}
	if change != nil {
		change(o)
	}
	s, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { stop(s) })
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server does not start")
	}
	return s
}

func stop(s *server.Server) {
	s.Shutdown()
	s.WaitForShutdown()
}

// stream makes a stream of the subject and returns it.
func stream(t *testing.T, s *server.Server, change func(c *jetstream.StreamConfig), options ...natsio.Option) jetstream.Stream {
	t.Helper()
	conn, err := natsio.Connect(s.ClientURL(), options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	c := jetstream.StreamConfig{Name: "csi", Subjects: []string{"csi.>"}}
	if change != nil {
		change(&c)
	}
	made, err := js.CreateOrUpdateStream(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func count(t *testing.T, s jetstream.Stream) uint64 {
	t.Helper()
	info, err := s.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return info.State.Msgs
}

// local dials this machine only, as an operator allows it.
func local(t *testing.T) Options {
	t.Helper()
	client := outbound.New(outbound.Options{Policy: outbound.Policy{Allow: outbound.Loopback()}})
	t.Cleanup(client.Close)
	return Options{Dial: client.Dial}
}

func open(t *testing.T, o Options, settings map[string]string) sink.Sink {
	t.Helper()
	if settings[settingSubject] == "" {
		settings[settingSubject] = subject
	}
	s, err := Provider(o).Open(settings)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func message(id string) sink.Message {
	return sink.Message{ID: id, Type: "response.completed", Group: id, Body: fmt.Appendf(nil, `{"id":%q}`, id)}
}

func send(t *testing.T, s sink.Sink, id string) {
	t.Helper()
	if err := s.Send(t.Context(), message(id)); err != nil {
		t.Fatal(err)
	}
}

// fails checks an error of Send.
func fails(t *testing.T, err error, retry sink.Retry, why reason.Reason, part string) {
	t.Helper()
	var failed *sink.Error
	if !errors.As(err, &failed) || failed.Retry != retry || failed.Reason != why || !strings.Contains(err.Error(), part) {
		t.Errorf("got %v, want %s %s with %q", err, retry, why, part)
	}
}

// A message that is sent again, because its acknowledgement was lost, is in the stream once.
//
// Shows: C37, C50.
func TestSendIsStoredOnce(t *testing.T) {
	t.Parallel()
	srv := serve(t, nil)
	csi := stream(t, srv, nil)
	s := open(t, local(t), map[string]string{"url": srv.ClientURL()})
	for _, id := range []string{"d_1", "d_2", "d_1"} {
		send(t, s, id)
	}
	if n := count(t, csi); n != 2 {
		t.Errorf("the stream holds %d messages, want 2", n)
	}
	got, err := csi.GetMsg(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if got.Subject != subject || string(got.Data) != `{"id":"d_1"}` || got.Header.Get("Nats-Msg-Id") != "d_1" || got.Header.Get("Content-Type") != "application/cloudevents+json" {
		t.Errorf("got %+v", got)
	}
}

// Many goroutines share one connection.
func TestConnectionIsShared(t *testing.T) {
	t.Parallel()
	srv := serve(t, nil)
	csi := stream(t, srv, nil)
	s := open(t, local(t), map[string]string{"url": srv.ClientURL()})
	var all sync.WaitGroup
	for n := range 20 {
		all.Go(func() {
			if err := s.Send(t.Context(), message(fmt.Sprint(n))); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := count(t, csi); n != 20 {
		t.Errorf("the stream holds %d messages", n)
	}
	if n := srv.NumClients(); n != 2 { // the sink's and the test's
		t.Errorf("%d connections", n)
	}
}

// A server that was away takes the next message over a new connection.
func TestServerReturns(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	first := serve(t, func(o *server.Options) { o.StoreDir = folder })
	stream(t, first, nil)
	url, port := first.ClientURL(), first.Addr().(*net.TCPAddr).Port
	s := open(t, local(t), map[string]string{"url": url})
	send(t, s, "d_1")
	stop(first)
	var failed *sink.Error
	if err := s.Send(t.Context(), message("d_2")); !errors.As(err, &failed) || failed.Retry != sink.Temporary {
		t.Fatalf("got %v while the server is away", err)
	}
	second := serve(t, func(o *server.Options) { o.StoreDir, o.Port = folder, port })
	send(t, s, "d_2")
	if n := count(t, stream(t, second, nil)); n != 2 {
		t.Errorf("the stream holds %d messages", n)
	}
}

// cutting is a connection that breaks when a publish is written: the server gets it, and nobody its answer.
type cutting struct {
	net.Conn
	cut    *atomic.Bool // whether to cut, once for all connections
	broken atomic.Bool
}

func (c *cutting) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("HPUB "+subject)) && c.cut.CompareAndSwap(true, false) {
		c.broken.Store(true)
	}
	return c.Conn.Write(b)
}

func (c *cutting) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.broken.Load() {
		return 0, io.EOF
	}
	return n, err
}

// The stream stores a message and its acknowledgement is lost. Sent again, it is acknowledged and not stored a second time.
//
// Shows: C37.
func TestReplyLost(t *testing.T) {
	t.Parallel()
	srv := serve(t, nil)
	csi := stream(t, srv, nil)
	o := local(t)
	dial, cut := o.Dial, &atomic.Bool{}
	cut.Store(true)
	o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		return &cutting{Conn: conn, cut: cut}, err
	}
	s := open(t, o, map[string]string{"url": srv.ClientURL()})
	fails(t, s.Send(t.Context(), message("d_1")), sink.Temporary, reason.ReplyLost, "")
	send(t, s, "d_1")
	send(t, s, "d_2")
	if n := count(t, csi); n != 2 {
		t.Errorf("the stream holds %d messages, want 2", n)
	}
}

func TestNoStream(t *testing.T) {
	t.Parallel()
	srv := serve(t, nil)
	stream(t, srv, nil)
	s := open(t, local(t), map[string]string{"url": srv.ClientURL(), "subject": "other.tickets"})
	fails(t, s.Send(t.Context(), message("d_1")), sink.Permanent, reason.PermanentError, "no stream takes the subject other.tickets: make one, such as nats stream add NAME --subjects other.tickets")
}

func TestNoJetStream(t *testing.T) {
	t.Parallel()
	srv := serve(t, func(o *server.Options) { o.JetStream = false })
	s := open(t, local(t), map[string]string{"url": srv.ClientURL()})
	fails(t, s.Send(t.Context(), message("d_1")), sink.Temporary, reason.TemporaryError, "JetStream is not enabled")
}

// A stream that is full may be emptied; a message that is too large stays so.
func TestRefusals(t *testing.T) {
	t.Parallel()
	srv := serve(t, func(o *server.Options) { o.MaxPayload = 1024 })
	stream(t, srv, func(c *jetstream.StreamConfig) { c.MaxMsgs, c.Discard, c.MaxMsgSize = 1, jetstream.DiscardNew, 512 })
	s := open(t, local(t), map[string]string{"url": srv.ClientURL()})
	long := func(n int) sink.Message { return sink.Message{ID: "d_9", Body: bytes.Repeat([]byte("x"), n)} }
	fails(t, s.Send(t.Context(), long(600)), sink.Permanent, reason.PermanentError, "message size exceeds maximum")
	fails(t, s.Send(t.Context(), long(2000)), sink.Permanent, reason.PermanentError, "the server takes 1024 bytes")
	send(t, s, "d_1")
	fails(t, s.Send(t.Context(), message("d_2")), sink.Temporary, reason.TemporaryError, "maximum messages exceeded")
}

// Something that is no stream answers at the subject.
func TestAnotherResponder(t *testing.T) {
	t.Parallel()
	srv := serve(t, nil)
	conn, err := natsio.Connect(srv.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	if _, err := conn.Subscribe(subject, func(m *natsio.Msg) { _ = m.Respond([]byte("fine")) }); err != nil {
		t.Fatal(err)
	}
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	s := open(t, local(t), map[string]string{"url": srv.ClientURL()})
	fails(t, s.Send(t.Context(), message("d_1")), sink.Temporary, reason.TemporaryError, "something other than a stream")
}

var errOver = errors.New("the time is over")

// The time ends before the server has said a word, and while it keeps its answer: the Send ends with it.
func TestTimeouts(t *testing.T) {
	t.Parallel()
	t.Run("handshake", func(t *testing.T) {
		t.Parallel()
		listener, err := net.Listen("tcp", "127.0.0.1:0") // it accepts and says nothing
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = listener.Close() })
		ctx, cancel := context.WithCancelCause(t.Context())
		o := local(t)
		dial := o.Dial
		o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			defer cancel(errOver)
			return dial(ctx, network, address)
		}
		elapsed := clock.Monotonic()
		err = open(t, o, map[string]string{"url": "nats://" + listener.Addr().String()}).Send(ctx, message("d_1"))
		fails(t, err, sink.Temporary, reason.TemporaryError, "connect: "+errOver.Error())
		if d := elapsed(); d >= connectTimeout {
			t.Errorf("it took %s", d)
		}
	})
	t.Run("acknowledgement", func(t *testing.T) {
		t.Parallel()
		srv := serve(t, nil)
		conn, err := natsio.Connect(srv.ClientURL())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(conn.Close)
		ctx, cancel := context.WithCancelCause(t.Context())
		if _, err := conn.Subscribe(subject, func(*natsio.Msg) { cancel(errOver) }); err != nil {
			t.Fatal(err)
		}
		if err := conn.Flush(); err != nil {
			t.Fatal(err)
		}
		err = open(t, local(t), map[string]string{"url": srv.ClientURL()}).Send(ctx, message("d_1"))
		fails(t, err, sink.Temporary, reason.ReplyLost, errOver.Error())
	})
	t.Run("over before it begins", func(t *testing.T) {
		t.Parallel()
		srv := serve(t, nil)
		csi := stream(t, srv, nil)
		s := open(t, local(t), map[string]string{"url": srv.ClientURL()})
		send(t, s, "d_1")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errOver)
		var failed *sink.Error
		if err := s.Send(ctx, message("d_2")); !errors.As(err, &failed) || !errors.Is(err, errOver) {
			t.Errorf("got %v", err)
		}
		send(t, s, "d_3")
		if n := count(t, csi); n != 2 {
			t.Errorf("the stream holds %d messages, want 2", n)
		}
	})
}

func TestNobodyListens(t *testing.T) {
	t.Parallel()
	srv := serve(t, nil)
	stop(srv)
	err := open(t, local(t), map[string]string{"url": srv.ClientURL()}).Send(t.Context(), message("d_1"))
	fails(t, err, sink.Temporary, reason.TemporaryError, "connect: ")
	// The next server of a list is tried.
	next := serve(t, nil)
	csi := stream(t, next, nil)
	send(t, open(t, local(t), map[string]string{"url": srv.ClientURL() + ", " + next.ClientURL()}), "d_1")
	if n := count(t, csi); n != 1 {
		t.Errorf("the stream holds %d messages", n)
	}
}

// No connection is made to this machine unless the operator allows it, neither by address nor by name.
func TestAddressesAreGuarded(t *testing.T) {
	t.Parallel()
	srv := serve(t, nil)
	stream(t, srv, nil)
	client := outbound.New(outbound.Options{})
	t.Cleanup(client.Close)
	port := srv.Addr().(*net.TCPAddr).Port
	for _, host := range []string{"127.0.0.1", "[::ffff:127.0.0.1]", "localhost"} {
		address, called := fmt.Sprintf("%s:%d", host, port), []string(nil)
		dial := func(ctx context.Context, network, address string) (net.Conn, error) {
			called = append(called, address)
			return client.Dial(ctx, network, address)
		}
		err := open(t, Options{Dial: dial}, map[string]string{"url": "nats://" + address}).Send(t.Context(), message("d_1"))
		fails(t, err, sink.Temporary, reason.TemporaryError, "is not allowed")
		// The guard gets the name, so that the address which it checks is the one that is called.
		if !slices.Equal(called, []string{address}) {
			t.Errorf("called %v", called)
		}
	}
	if n := srv.NumClients(); n != 1 { // the test's
		t.Errorf("%d connections", n)
	}
}

// certified returns a certificate of this machine and its authority.
func certified(t *testing.T) (*tls.Config, *x509.CertPool) {
	t.Helper()
	web := httptest.NewTLSServer(nil)
	defer web.Close()
	roots := x509.NewCertPool()
	roots.AddCert(web.Certificate())
	return &tls.Config{Certificates: web.TLS.Certificates, MinVersion: tls.VersionTLS12}, roots
}

func TestTLS(t *testing.T) {
	t.Parallel()
	config, roots := certified(t)
	srv := serve(t, func(o *server.Options) { o.TLSConfig, o.TLS, o.TLSTimeout = config, true, 10 })
	csi := stream(t, srv, nil, func(o *natsio.Options) error {
		o.TLSConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
		return nil
	})
	o := local(t)
	o.Roots = roots
	address := srv.Addr().String()
	send(t, open(t, o, map[string]string{"url": "tls://" + address}), "d_1")
	// A server that asks for it gets it also without the scheme.
	send(t, open(t, o, map[string]string{"url": "nats://" + address}), "d_2")
	if n := count(t, csi); n != 2 {
		t.Errorf("the stream holds %d messages", n)
	}
	fails(t, open(t, local(t), map[string]string{"url": "tls://" + address}).Send(t.Context(), message("d_3")), sink.Temporary, reason.TemporaryError, "certificate")
	plain := serve(t, nil)
	stream(t, plain, nil)
	fails(t, open(t, o, map[string]string{"url": "tls://" + plain.Addr().String()}).Send(t.Context(), message("d_3")), sink.Temporary, reason.TemporaryError, "secure connection")
}

func TestSignIn(t *testing.T) {
	t.Parallel()
	const token, password = "t0ken-of-the-server", "hunter2-and-more"
	byToken := serve(t, func(o *server.Options) { o.Authorization = token })
	byPassword := serve(t, func(o *server.Options) { o.Username, o.Password = "carillon", password })
	byKey, credentials, other := serveWithKeys(t)
	stream(t, byToken, nil, natsio.Token(token))
	stream(t, byPassword, nil, natsio.UserInfo("carillon", password))
	stream(t, byKey, nil, natsio.UserCredentialBytes([]byte(credentials)))
	for name, tt := range map[string]struct {
		srv         *server.Server
		credentials string
		ok          bool
	}{
		"token":              {byToken, token, true},
		"token of a file":    {byToken, token + "\n", true},
		"another token":      {byToken, "wrong-token", false},
		"no token":           {byToken, "", false},
		"password":           {byPassword, "carillon:" + password, true},
		"another password":   {byPassword, "carillon:wrong-password", false},
		"key":                {byKey, credentials, true},
		"key of a stranger":  {byKey, other, false},
		"nothing for a key":  {byKey, "", false},
		"a token for a user": {byPassword, password, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := open(t, local(t), map[string]string{"url": tt.srv.ClientURL(), "credentials": tt.credentials}).Send(t.Context(), message(name))
			if tt.ok {
				if err != nil {
					t.Error(err)
				}
				return
			}
			fails(t, err, sink.Temporary, reason.TemporaryError, "connect: ")
			for _, part := range hidden(tt.credentials) {
				if strings.Contains(err.Error(), part) {
					t.Errorf("the error repeats the credentials: %v", err)
				}
			}
		})
	}
}

// serveWithKeys starts a server whose users sign in with keys, and returns the .creds text of a user and of a stranger.
func serveWithKeys(t *testing.T) (s *server.Server, user, stranger string) {
	t.Helper()
	pair := func(make func() (nkeys.KeyPair, error)) (nkeys.KeyPair, string) {
		made, err := make()
		if err != nil {
			t.Fatal(err)
		}
		public, err := made.PublicKey()
		if err != nil {
			t.Fatal(err)
		}
		return made, public
	}
	encode := func(encode func(nkeys.KeyPair) (string, error), signer nkeys.KeyPair) string {
		text, err := encode(signer)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	operator, operatorID := pair(nkeys.CreateOperator)
	claims := jwt.NewOperatorClaims(operatorID)
	trusted, err := jwt.DecodeOperatorClaims(encode(claims.Encode, operator))
	if err != nil {
		t.Fatal(err)
	}
	_, systemID := pair(nkeys.CreateAccount)
	account, accountID := pair(nkeys.CreateAccount)
	resolver := &server.MemAccResolver{}
	limited := jwt.NewAccountClaims(accountID)
	limited.Limits.JetStreamLimits = jwt.JetStreamLimits{MemoryStorage: jwt.NoLimit, DiskStorage: jwt.NoLimit, Streams: jwt.NoLimit, Consumer: jwt.NoLimit}
	for id, c := range map[string]*jwt.AccountClaims{systemID: jwt.NewAccountClaims(systemID), accountID: limited} {
		if err := resolver.Store(id, encode(c.Encode, operator)); err != nil {
			t.Fatal(err)
		}
	}
	creds := func(signer nkeys.KeyPair) string {
		key, id := pair(nkeys.CreateUser)
		seed, err := key.Seed()
		if err != nil {
			t.Fatal(err)
		}
		text, err := jwt.FormatUserConfig(encode(jwt.NewUserClaims(id).Encode, signer), seed)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	foreign, _ := pair(nkeys.CreateAccount)
	s = serve(t, func(o *server.Options) {
		o.TrustedOperators, o.AccountResolver, o.SystemAccount = []*jwt.OperatorClaims{trusted}, resolver, systemID
	})
	return s, creds(account), creds(foreign)
}

// The error of a user who may not publish says so, and is no bare timeout.
func TestNoPermission(t *testing.T) {
	t.Parallel()
	srv := serve(t, func(o *server.Options) {
		o.Users = []*server.User{{Username: "carillon", Password: "hunter2", Permissions: &server.Permissions{Publish: &server.SubjectPermission{Deny: []string{subject}}}}}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	err := open(t, local(t), map[string]string{"url": srv.ClientURL(), "credentials": "carillon:hunter2"}).Send(ctx, message("d_1"))
	fails(t, err, sink.Temporary, reason.ReplyLost, "permissions violation")
}

func TestClose(t *testing.T) {
	t.Parallel()
	srv := serve(t, nil)
	stream(t, srv, nil)
	s := open(t, local(t), map[string]string{"url": srv.ClientURL()})
	send(t, s, "d_1")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	fails(t, s.Send(t.Context(), message("d_2")), sink.Temporary, reason.TemporaryError, "closed")
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	const half = "-----BEGIN NATS USER JWT-----\nnothing-but-this-secret\n------END NATS USER JWT------\n"
	for name, tt := range map[string]struct{ url, subject, credentials, want string }{
		"no url":         {"", subject, "", "url"},
		"http":           {"http://x.test", subject, "", "url"},
		"a websocket":    {"ws://x.test", subject, "", "url"},
		"no host":        {"nats://", subject, "", "url"},
		"no scheme":      {"x.test:4222", subject, "", "url"},
		"a path":         {"nats://x.test/a", subject, "", "url"},
		"a password":     {"nats://u:hunter2@x.test", subject, "", "url"},
		"a second one":   {"nats://x.test,http://y.test", subject, "", "url"},
		"an empty one":   {"nats://x.test,", subject, "", "url"},
		"no subject":     {"nats://x.test", "", "", "subject"},
		"a wildcard":     {"nats://x.test", "csi.*", "", "subject"},
		"all":            {"nats://x.test", "csi.>", "", "subject"},
		"a blank":        {"nats://x.test", "csi tickets", "", "subject"},
		"a line":         {"nats://x.test", "csi\r\nPUB x 0\r\n", "", "subject"},
		"an empty word":  {"nats://x.test", "csi..tickets", "", "subject"},
		"a dot in front": {"nats://x.test", ".csi", "", "subject"},
		"a command":      {"nats://x.test", "$JS.API.STREAM.DELETE.csi", "", "subject"},
		"an inbox":       {"nats://x.test", "_INBOX.a", "", "subject"},
		"a long subject": {"nats://x.test", strings.Repeat("a", 256), "", "subject"},
		"no seed":        {"nats://x.test", subject, half, "credentials"},
	} {
		_, err := Provider(Options{}).Open(map[string]string{"url": tt.url, "subject": tt.subject, "credentials": tt.credentials})
		var wrong *sink.SettingError
		if !errors.As(err, &wrong) || wrong.Setting != tt.want {
			t.Errorf("%s: got %v, want setting %s", name, err, tt.want)
			continue
		}
		for _, part := range []string{"hunter2", "nothing-but-this-secret"} {
			if strings.Contains(err.Error(), part) {
				t.Errorf("%s: the error repeats a value: %v", name, err)
			}
		}
	}
	for _, url := range []string{"nats://x.test", "tls://x.test:4443", "nats://a.test:4222, nats://b.test:4222", "nats://[::1]:4222"} {
		if err := Provider(Options{}).Check(map[string]string{"url": url, "subject": subject}); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
}
