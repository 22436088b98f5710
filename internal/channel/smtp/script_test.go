package smtp_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/channel/smtp"
	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/reason"
)

// script is a server that says what a test wants it to say, over connections without a network, so that time is the
// bubble's.
type script struct {
	// says answers the n-th command of its kind of a connection: CONNECT, EHLO, MAIL, RCPT, DATA, "." …; nil is a
	// server without faults.
	says func(conn int, command string, n int) string

	mu    sync.Mutex
	conns int
	lines []string // every line outside of mails, with its connection
	mails []string
}

const (
	silence = "silence" // no answer, the connection stays open
	hangUp  = "hang up" // the connection is closed instead
)

var usual = map[string]string{
	"CONNECT": "220 mx.test", "EHLO": "250-mx.test\r\n250 SMTPUTF8", "HELO": "250 mx.test", "MAIL": "250 ok", "RCPT": "250 ok",
	"DATA": "354 go on", ".": "250 taken", "RSET": "250 ok", "QUIT": "221 bye",
}

func (s *script) dial(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	s.mu.Lock()
	s.conns++
	n := s.conns
	s.mu.Unlock()
	go s.serve(n, ours)
	return theirs, nil
}

func (s *script) serve(conn int, c net.Conn) {
	defer c.Close()
	count := map[string]int{}
	answer := func(command string) bool {
		count[command]++
		reply := usual[command]
		if s.says != nil {
			if other := s.says(conn, command, count[command]); other != "" {
				reply = other
			}
		}
		switch reply {
		case hangUp:
			return false
		case silence:
			return true
		}
		_, err := io.WriteString(c, reply+"\r\n")
		return err == nil
	}
	if !answer("CONNECT") {
		return
	}
	lines := bufio.NewScanner(c)
	lines.Buffer(nil, 1<<22)
	inMail, mail := false, ""
	for lines.Scan() {
		line := lines.Text()
		if inMail && line != "." {
			mail += strings.TrimPrefix(line, ".") + "\r\n"
			continue
		}
		s.mu.Lock()
		if inMail {
			s.mails = append(s.mails, mail)
		} else {
			s.lines = append(s.lines, fmt.Sprint(conn, " ", line))
		}
		s.mu.Unlock()
		inMail = false
		command, _, _ := strings.Cut(line, " ")
		if !answer(command) {
			return
		}
		if command == "DATA" {
			inMail, mail = s.says == nil || s.says(conn, command, count[command]) == "", ""
		}
	}
}

// open makes a channel to the script, on the bubble's clock.
func (s *script) open(t testing.TB) channel.Channel {
	t.Helper()
	ch, err := smtp.Provider(smtp.Options{Dial: s.dial, Clock: &clock.System{}}).Open(map[string]string{
		"host": "mx.test", "tls": "none", "from": "hello@example.org",
	})
	if err != nil {
		t.Fatal(err)
	}
	return ch
}

// send is one send as the engine makes it.
func send(ch channel.Channel) error {
	return sendWithin(ch, 20*time.Second)
}

func sendWithin(ch channel.Channel, timeout time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), timeout, fmt.Errorf("no answer within %s", timeout))
	defer cancel()
	_, err := ch.Send(ctx, channel.Outgoing{IdempotencyKey: "k", Address: "alice@example.com", Subject: "s", Text: "t"})
	return err
}

// A server has half of the channel's timeout for all that comes before the final dot.
func TestSlowServer(t *testing.T) {
	t.Parallel()
	for _, timeout := range []time.Duration{time.Second, 20 * time.Second, 5 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			ch := (&script{says: func(int, string, int) string { return silence }}).open(t)
			defer func() { _ = ch.(io.Closer).Close() }()
			began := (&clock.System{}).Now()
			err := sendWithin(ch, timeout)
			text := fmt.Sprintf("greeting: the server took longer than %s", timeout/2)
			if took := (&clock.System{}).Now().Sub(began); took != timeout/2 || err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("timeout %s: %v after %s, want %q", timeout, err, took, text)
			}
		})
	}
}

// What a failure means depends on where it comes: before the final dot has left nothing was accepted, afterwards
// the outcome is unknown until the server has answered (P4).
func TestPhases(t *testing.T) {
	t.Parallel()
	flood := strings.Repeat("250-more of it\r\n", 1<<15)
	for _, tt := range []struct {
		command, reply string
		outcome        string // ok, temporary, permanent, unknown
		text           string
	}{
		{"CONNECT", silence, "temporary", "greeting: the server took longer than 10s"},
		{"CONNECT", hangUp, "temporary", "greeting: EOF"},
		{"CONNECT", "554 no service for you", "temporary", "greeting: the server answered 554 no service for you"},
		{"CONNECT", "hello?", "temporary", "greeting:"},
		{"CONNECT", strings.Repeat("x", 1<<20), "temporary", "greeting: the server says more than a server says"},
		{"EHLO", "500 what?", "ok", ""}, // HELO follows
		{"EHLO", silence, "temporary", "EHLO: the server took longer"},
		{"MAIL", silence, "temporary", "MAIL: the server took longer"},
		{"MAIL", hangUp, "temporary", "MAIL: EOF"},
		{"MAIL", "421 4.3.2 going down", "temporary", "MAIL: the server answered 421 4.3.2 going down"},
		{"MAIL", "530 5.7.0 log in first", "temporary", "MAIL: the server answered 530"},
		{"MAIL", "550 5.7.1 not you", "permanent", "MAIL: the server answered 550 5.7.1 not you"},
		{"RCPT", "451 4.7.1 come back\x1b[31m", "temporary", "RCPT: the server answered 451 4.7.1 come back [31m"},
		{"RCPT", "550-5.1.1 nobody\r\n550 5.1.1 <Alice@example.com> here", "permanent", "RCPT: the server answered 550 5.1.1 nobody 5.1.1 <***> here"},
		{"RCPT", "251 elsewhere", "ok", ""},
		{"RCPT", "42", "temporary", "RCPT: short response: \"42\""},
		{"RCPT", flood + "250 ok", "temporary", "RCPT: the server says more than a server says"},
		{"RCPT", hangUp, "temporary", "RCPT: EOF"},
		{"DATA", "250 what mail?", "temporary", "DATA: the server answered 250 what mail?"},
		{"DATA", "554 5.7.1 none of yours", "temporary", "DATA: the server answered 554"},
		{"DATA", "554 5.5.1 none of yours", "permanent", "DATA: the server answered 554"},
		{"RCPT", "552 5.2.2 the mailbox is full", "temporary", "RCPT: the server answered 552 5.2.2"},
		{"RCPT", "550 5.2.1 the mailbox is closed", "permanent", "RCPT: the server answered 550 5.2.1"},
		{"RCPT", "554 5.3.2 out of service", "temporary", "RCPT: the server answered 554 5.3.2"},
		{"RCPT", "554 5.4.14 a loop", "temporary", "RCPT: the server answered 554 5.4.14"},
		{"RCPT", "550 5.7.26 not signed", "temporary", "RCPT: the server answered 550 5.7.26"},
		{"RCPT", "550 nobody here, see 5.7.1", "permanent", "RCPT: the server answered 550 nobody"},
		{"DATA", "503 5.5.1 wrong order", "temporary", "DATA: the server answered 503"},
		{"DATA", silence, "temporary", "DATA: the server took longer"},
		{".", silence, "unknown", "final dot: no answer: no answer within 20s"},
		{".", hangUp, "unknown", "final dot: no answer: EOF"},
		{".", "421 4.3.0 going down", "temporary", "final dot: the server answered 421"},
		{".", "451 4.3.0 disk is full", "temporary", "final dot: the server answered 451"},
		{".", "452-4.2.2 the box\r\n452 4.2.2 is full", "temporary", "final dot: the server answered 452 4.2.2 the box 4.2.2 is full"},
		{".", "554 5.6.0 spam", "permanent", "final dot: the server answered 554 5.6.0 spam"},
		{".", "550-5.7.1 this network\r\n550 5.7.1 is listed", "temporary", "final dot: the server answered 550 5.7.1 this network"},
		{".", "503 5.5.1 what?", "temporary", "final dot: the server answered 503"},
		{".", "354 go on", "unknown", "final dot: the server answered 354"},
		{".", "thank you", "unknown", "final dot: no answer:"},
		{".", "250-a\r\n250 b", "ok", ""},
		{".", flood + "250 ok", "unknown", "final dot: no answer: the server says more"},
	} {
		t.Run(fmt.Sprintf("%s %.20q", tt.command, tt.reply), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &script{says: func(_ int, command string, _ int) string {
					if command == tt.command {
						return tt.reply
					}
					return ""
				}}
				ch := s.open(t)
				err := send(ch)
				if err := ch.(io.Closer).Close(); err != nil {
					t.Error(err)
				}
				synctest.Wait()
				got := "ok"
				var refused *channel.SendError
				switch {
				case err == nil:
				case !errors.As(err, &refused):
					t.Fatal(err)
				case refused.Unknown:
					got = "unknown"
				case refused.Reason == reason.PermanentError:
					got = "permanent"
				case refused.Reason == reason.TemporaryError:
					got = "temporary"
				}
				if got != tt.outcome {
					t.Errorf("got %s: %v", got, err)
				}
				if err != nil && !strings.Contains(err.Error(), tt.text) {
					t.Errorf("got %q, want %q in it", err, tt.text)
				}
				if handed := tt.outcome == "ok" || tt.command == "."; handed != (len(s.mails) == 1) {
					t.Errorf("%d mails were handed over", len(s.mails))
				}
			})
		})
	}
}

// A connection is kept, opened again when it broke while it waited, and never used for a second try of one mail.
func TestKeptConnections(t *testing.T) {
	t.Parallel()
	const hello = "EHLO example.org"
	mail := []string{"MAIL FROM:<hello@example.org>", "RCPT TO:<alice@example.com>", "DATA"}
	// speak are the lines of a connection.
	speak := func(conn int, parts ...any) (all []string) {
		for _, p := range parts {
			switch p := p.(type) {
			case string:
				all = append(all, fmt.Sprint(conn, " ", p))
			case []string:
				for _, line := range p {
					all = append(all, fmt.Sprint(conn, " ", line))
				}
			}
		}
		return all
	}
	for _, tt := range []struct {
		name  string
		says  func(conn int, command string, n int) string
		pause time.Duration
		err   string // of the second mail
		mails int
		lines []string
	}{
		{"kept", nil, 0, "", 2, speak(1, hello, mail, mail, "QUIT")},
		{"kept for a while", nil, 7 * time.Second, "", 2, speak(1, hello, mail, mail, "QUIT")},
		{"not kept for ever", nil, 9 * time.Second, "", 2, append(speak(1, hello, mail, "QUIT"), speak(2, hello, mail, "QUIT")...)},
		{"refused mail", func(_ int, command string, n int) string {
			if command == "RCPT" && n == 1 {
				return "550 no"
			}
			return ""
		}, 0, "", 1, speak(1, hello, mail[:2], "RSET", mail, "QUIT")},
		{"died while it waited", func(conn int, command string, n int) string {
			if conn == 1 && command == "MAIL" && n == 2 {
				return hangUp
			}
			return ""
		}, 0, "", 2, append(speak(1, hello, mail, mail[:1]), speak(2, hello, mail, "QUIT")...)},
		{"closed while it waited", func(conn int, command string, n int) string {
			if conn == 1 && command == "MAIL" && n == 2 {
				return "421 4.4.2 idle"
			}
			return ""
		}, 0, "", 2, append(speak(1, hello, mail, mail[:1]), speak(2, hello, mail, "QUIT")...)},
		{"died after MAIL", func(_ int, command string, n int) string {
			if command == "RCPT" && n == 2 {
				return hangUp
			}
			return ""
		}, 0, "temporary_error: RCPT: EOF", 1, speak(1, hello, mail, mail[:2])},
		{"refused for good when kept", func(_ int, command string, n int) string {
			if command == "MAIL" && n == 2 {
				return "550 5.7.1 enough"
			}
			return ""
		}, 0, "permanent_error: MAIL: the server answered 550 5.7.1 enough", 1, speak(1, hello, mail, mail[:1], "RSET", "QUIT")},
		{"lost", func(conn int, command string, n int) string {
			if conn == 1 && command == "." && n == 2 {
				return hangUp
			}
			return ""
		}, 0, "reply_lost: final dot: no answer: EOF", 2, speak(1, hello, mail, mail)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &script{says: tt.says}
				ch := s.open(t)
				first := send(ch)
				if tt.name != "refused mail" && first != nil {
					t.Error(first)
				}
				time.Sleep(tt.pause)
				synctest.Wait()
				err := send(ch)
				if got := fmt.Sprint(err); got != tt.err && (err != nil || tt.err != "") {
					t.Errorf("got %s, want %s", got, tt.err)
				}
				if err := ch.(io.Closer).Close(); err != nil {
					t.Error(err)
				}
				synctest.Wait()
				if len(s.mails) != tt.mails {
					t.Errorf("%d mails, want %d", len(s.mails), tt.mails)
				}
				if diff := cmp.Diff(tt.lines, s.lines); diff != "" {
					t.Error(diff)
				}
				if err := send(ch); err == nil || !strings.Contains(err.Error(), "the channel is closed") {
					t.Errorf("after the end: %v", err)
				}
			})
		})
	}
}

// A mail waits when all connections are busy, and fails with that reason when none becomes free.
func TestBusy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &script{says: func(_ int, command string, _ int) string {
			if command == "." {
				return silence
			}
			return ""
		}}
		ch := s.open(t)
		var senders sync.WaitGroup
		var mu sync.Mutex
		unknown, busy := 0, 0
		for range 12 {
			senders.Go(func() {
				var refused *channel.SendError
				err := send(ch)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case !errors.As(err, &refused):
					t.Error(err)
				case refused.Unknown:
					unknown++
				case strings.Contains(err.Error(), "all 10 connections to the server were busy"):
					busy++
				default:
					t.Error(err)
				}
			})
		}
		senders.Wait()
		if unknown != 10 || busy != 2 || s.conns != 10 {
			t.Errorf("%d unknown, %d busy, %d connections", unknown, busy, s.conns)
		}
		if err := ch.(io.Closer).Close(); err != nil {
			t.Error(err)
		}
	})
}

// Reliability 38: whatever a message holds, a server sees one MAIL, one RCPT and one DATA with the addresses that were
// meant, and a reader finds what was written, or nothing is sent at all.
func FuzzSend(f *testing.F) {
	f.Add("alice@example.com", "Größe <a@b.c>", "", "Hello", "text\n.\n", "<p>x</p>", "X-A", "b")
	f.Add(`"x> ORCPT=rfc822;evil"@b.c`, "a@b.c\r\nBcc: d@e.f", "a@b", "s\r\nBcc: d@e.f", "\r\n.\r\nMAIL FROM:<x@y.z>\r\n", "", "X-A\r\nBcc", "b\r\nc")
	f.Add("josé@bücher.example", "", "x@y.z", "=?utf-8?q?evil?= =?x", strings.Repeat("x", 3000), "\r.\r\n", "List-Unsubscribe", "<https://a?b=?c>")
	f.Add("a@b", "", "", strings.Repeat("ü", 900), "\x00\xff", "", "X-Long", strings.Repeat("y", 1200))
	s := &script{}
	ch := s.open(f)
	f.Fuzz(func(t *testing.T, to, from, replyTo, subject, text, html, name, value string) {
		out := channel.Outgoing{
			IdempotencyKey: "k", Address: to, From: from, ReplyTo: replyTo, Subject: subject, Text: text, HTML: html,
			Headers: map[string]string{name: value},
		}
		s.mu.Lock()
		s.lines, s.mails = nil, nil
		s.mu.Unlock()
		_, err := ch.Send(t.Context(), out)
		s.mu.Lock()
		defer s.mu.Unlock()
		if err != nil {
			if len(s.lines)+len(s.mails) > 0 {
				t.Fatalf("%v, after %q", err, s.lines)
			}
			return
		}
		if len(s.lines) > 0 && strings.HasSuffix(s.lines[0], " EHLO example.org") {
			s.lines = s.lines[1:]
		}
		if len(s.lines) != 3 || len(s.mails) != 1 {
			t.Fatalf("the server saw %q and %d mails", s.lines, len(s.mails))
		}
		rcpt, _, _ := strings.Cut(to, "@")
		_, mailLine, _ := strings.Cut(s.lines[0], " ")
		_, rcptLine, _ := strings.Cut(s.lines[1], " ")
		mailLine = strings.TrimSuffix(mailLine, " SMTPUTF8")
		if !strings.HasPrefix(mailLine, "MAIL FROM:<") || !strings.HasPrefix(rcptLine, "RCPT TO:<"+rcpt+"@") ||
			strings.ContainsAny(mailLine[11:len(mailLine)-1]+rcptLine[9:len(rcptLine)-1], "<> ,;\"") {
			t.Fatalf("the server saw %q", s.lines)
		}
		p := parse(t, []byte(s.mails[0]))
		oneLine := strings.NewReplacer("\r\n", "\n", "\r", "\n")
		if want := strings.TrimSuffix(oneLine.Replace(text), "\n"); strings.TrimSuffix(p.text, "\n") != want && (text != "" || html == "") {
			t.Fatalf("text %q, want %q", p.text, want)
		}
		if want := strings.TrimSuffix(oneLine.Replace(html), "\n"); strings.TrimSuffix(p.html, "\n") != want {
			t.Fatalf("HTML %q, want %q", p.html, want)
		}
		if len(p.header["Bcc"]) > 0 && !strings.EqualFold(name, "bcc") || len(p.header["To"]) != 1 || len(p.header["From"]) != 1 {
			t.Fatalf("header %v", p.header)
		}
		if strings.IndexFunc(subject, func(r rune) bool { return r < ' ' || r == 0x7f || r == 0xfffd }) < 0 {
			if want := strings.Join(strings.Fields(strings.Map(printable, subject)), " "); p.subject != want {
				t.Fatalf("subject %q, want %q", p.subject, want)
			}
		}
	})
}

// printable makes blanks of what no subject holds.
func printable(r rune) rune {
	if r >= 0x7f && r <= 0x9f || r == '\u2028' || r == '\u2029' {
		return ' '
	}
	return r
}
