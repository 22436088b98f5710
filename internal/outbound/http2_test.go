package outbound

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// testCertificate returns the certificate of net/http/httptest, for 127.0.0.1 and ::1, and a pool that trusts it.
func testCertificate(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	return server.TLS.Certificates[0], roots
}

func TestDoSpeaksHTTP2(t *testing.T) {
	t.Parallel()
	var proto string
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { proto = r.Proto }))
	server.EnableHTTP2 = true
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // the handshake below fails
	server.StartTLS()
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	post := Request{Method: http.MethodPost, URL: server.URL, Body: []byte("{}")}
	if got, err := local(t, Options{Roots: roots}).Do(t.Context(), post); err != nil || got.Status != 200 || proto != "HTTP/2.0" {
		t.Errorf("got %+v over %q, error %v", got, proto, err)
	}
	// With a certificate of an unknown authority, the call ends before anything is sent.
	proto = ""
	_, err := local(t, Options{}).Do(t.Context(), post)
	var lost *Error
	var unknown x509.UnknownAuthorityError
	if !errors.As(err, &lost) || lost.Sent || !errors.As(err, &unknown) || proto != "" {
		t.Errorf("unknown authority: got %v, served over %q", err, proto)
	}
}

// fault is the server's reaction to every second request of a connection.
type fault string

const (
	closeAfterReading fault = "closes the connection after reading"
	goAway            fault = "GOAWAY that leaves the stream out, then close"
	goAwayStay        fault = "GOAWAY that leaves the stream out, connection stays"
	goAwayTaken       fault = "GOAWAY that includes the stream, then close"
	refused           fault = "REFUSED_STREAM after the body"
	refusedEarly      fault = "REFUSED_STREAM at the head"
	protocolError     fault = "PROTOCOL_ERROR"
	internalError     fault = "INTERNAL_ERROR"
)

// One call makes one request over HTTP/2 too, with every fault. With GetBody, as http.NewRequest sets it, the transport made 39 requests for 20
// calls with REFUSED_STREAM, PROTOCOL_ERROR and a GOAWAY that leaves out the stream, and returned no error.
//
// Shows: P3.
func TestDoSendsOnceOverHTTP2(t *testing.T) {
	t.Parallel()
	certificate, roots := testCertificate(t)
	for _, f := range []fault{
		closeAfterReading, goAway, goAwayStay, goAwayTaken, refused, refusedEarly, protocolError, internalError,
	} {
		for _, method := range []string{http.MethodPost, http.MethodGet} {
			t.Run(string(f)+"/"+method, func(t *testing.T) {
				t.Parallel()
				server := newFaulty(t, certificate, f)
				client := local(t, Options{Roots: roots, Timeout: time.Minute})
				const calls = 20
				failed := 0
				for i := range calls {
					_, err := client.Do(t.Context(), Request{
						Method: method, URL: "https://" + server.address, Body: fmt.Appendf(nil, "%04d", i),
						Header: http.Header{"Idempotency-Key": {"k"}},
					})
					var lost *Error
					if errors.As(err, &lost) {
						failed++
						if !lost.Sent {
							t.Errorf("a request that was read counts as not sent: %v", err)
						}
					}
				}
				heads, bodies := server.log()
				if heads != calls || failed != calls/2 {
					t.Errorf("%d calls made %d requests and %d errors, want %d errors", calls, heads, failed, calls/2)
				}
				for body, n := range bodies {
					if n != 1 {
						t.Errorf("the body %s came %d times", body, n)
					}
				}
			})
		}
	}
}

// faulty is a faulty HTTP/2 server with a small part of the protocol (RFC 9113). It counts the headers and bodies that it receives.
type faulty struct {
	address string
	fault   fault

	mu     sync.Mutex
	heads  int
	bodies map[string]int
}

func newFaulty(t *testing.T, certificate tls.Certificate, f fault) *faulty {
	t.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	s := &faulty{address: listener.Addr().String(), fault: f, bodies: map[string]int{}}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go s.serve(conn)
		}
	}()
	return s
}

func (s *faulty) log() (heads int, bodies map[string]int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.heads, s.bodies
}

// The frames of HTTP/2 (RFC 9113, 6) that the server uses.
const (
	frameData, frameHeaders, frameReset, frameSettings, framePing, frameGoAway byte = 0, 1, 3, 4, 6, 7

	flagAck, flagEndStream, flagEndHeaders byte = 1, 1, 4

	codeProtocol, codeInternal, codeRefused uint32 = 1, 2, 7
)

func (s *faulty) serve(conn net.Conn) {
	defer conn.Close()
	r := bufio.NewReader(conn)
	preface := make([]byte, len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
	if _, err := io.ReadFull(r, preface); err != nil {
		return
	}
	write := func(kind, flags byte, stream uint32, payload []byte) {
		head := append(binary.BigEndian.AppendUint32(nil, uint32(len(payload)))[1:], kind, flags)
		_, _ = conn.Write(append(binary.BigEndian.AppendUint32(head, stream), payload...))
	}
	write(frameSettings, 0, 0, nil)
	requests := 0
	var body []byte
	for {
		head := make([]byte, 9)
		if _, err := io.ReadFull(r, head); err != nil {
			return
		}
		payload := make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
		if _, err := io.ReadFull(r, payload); err != nil {
			return
		}
		kind, flags, stream := head[3], head[4], binary.BigEndian.Uint32(head[5:])
		switch kind {
		case frameSettings:
			if flags&flagAck == 0 {
				write(frameSettings, flagAck, 0, nil)
			}
		case framePing:
			if flags&flagAck == 0 {
				write(framePing, flagAck, 0, payload)
			}
		case frameHeaders:
			requests++
			body = nil
			s.mu.Lock()
			s.heads++
			s.mu.Unlock()
			if requests%2 == 0 && s.fault == refusedEarly {
				write(frameReset, 0, stream, binary.BigEndian.AppendUint32(nil, codeRefused))
			}
		case frameData:
			body = append(body, payload...)
			if flags&flagEndStream == 0 || requests%2 == 0 && s.fault == refusedEarly {
				continue
			}
			s.mu.Lock()
			s.bodies[string(body)]++
			s.mu.Unlock()
			if requests%2 == 1 {
				write(frameHeaders, flagEndHeaders|flagEndStream, stream, []byte{0x88}) // :status 200 (RFC 7541, A)
				continue
			}
			if !s.misbehave(write, stream) {
				return
			}
		}
	}
}

// misbehave makes the fault. If stays is false, the connection is then closed.
func (s *faulty) misbehave(write func(kind, flags byte, stream uint32, payload []byte), stream uint32) (stays bool) {
	reset := func(code uint32) {
		write(frameReset, 0, stream, binary.BigEndian.AppendUint32(nil, code))
	}
	leave := func(last uint32) {
		write(frameGoAway, 0, 0, binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, last), 0))
	}
	switch s.fault {
	case goAway:
		leave(stream - 2)
	case goAwayStay:
		leave(stream - 2)
		return true
	case goAwayTaken:
		leave(stream)
	case refused, refusedEarly:
		reset(codeRefused)
		return true
	case protocolError:
		reset(codeProtocol)
		return true
	case internalError:
		reset(codeInternal)
		return true
	case closeAfterReading:
	}
	return false
}
