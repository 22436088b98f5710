package smtp_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	gomail "github.com/wneessen/go-mail"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/message"
)

// sink is a server that says yes to everything, as fast as it can.
func sink(b *testing.B) (address string, mails *atomic.Int64) {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.Close() })
	mails = new(atomic.Int64)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				r := bufio.NewReader(c)
				say := func(s string) bool { _, err := io.WriteString(c, s); return err == nil }
				if !say("220 sink\r\n") {
					return
				}
				for {
					line, err := r.ReadSlice('\n')
					switch {
					case err != nil:
						return
					case bytes.HasPrefix(line, []byte("EHLO")):
						say("250-sink\r\n250 8BITMIME\r\n")
					case bytes.HasPrefix(line, []byte("DATA")):
						say("354 go on\r\n")
						for string(line) != ".\r\n" {
							if line, err = r.ReadSlice('\n'); err != nil {
								return
							}
						}
						mails.Add(1)
						say("250 taken\r\n")
					default:
						say("250 ok\r\n")
					}
				}
			}()
		}
	}()
	return l.Addr().String(), mails
}

const (
	benchText = "Dear {{ contact.name }},\n\nyour visit is on {{ event.day }}. Please tell us if you cannot come:\n{{ survey.link }}\n\nYour clinic\n"
	benchHTML = "<html><body><p>Dear {{ contact.name }},</p><p>your visit is on <b>{{ event.day }}</b>. Please <a href=\"{{ survey.link }}\">tell us</a> if you cannot come.</p><p>Your clinic</p></body></html>\n"
)

// Performance T5, second half: rendered mails a second over ten kept connections, beside go-mail with the same
// content over ten kept connections of its own. Both take turns of a few hundred mails, so that what else the machine
// does falls on both alike; the ratio is what counts.
func BenchmarkMails(b *testing.B) {
	const conns, turn = 10, 500
	text, html := mustParse(b, benchText, message.Plain), mustParse(b, benchHTML, message.HTML)
	address, mails := sink(b)
	ways := []func(i int64) error{
		carillon(b, address, text, html),
		goMail(b, address, conns, text, html),
	}
	var took [2]time.Duration
	done := 0
	for b.Loop() {
		for w, send := range ways {
			start := time.Now()
			if err := spread(conns, turn, int64(done), send); err != nil {
				b.Fatal(err)
			}
			took[w] += time.Since(start)
		}
		done += turn
	}
	if int(mails.Load()) != 2*done {
		b.Errorf("%d mails arrived of %d", mails.Load(), 2*done)
	}
	b.ReportMetric(float64(done)/took[0].Seconds(), "mails/s")
	b.ReportMetric(float64(done)/took[1].Seconds(), "go-mail/s")
	b.ReportMetric(took[1].Seconds()/took[0].Seconds(), "ratio")
}

func carillon(b *testing.B, address string, text, html *message.Template) func(int64) error {
	b.Helper()
	ch := open(b, address, nil, map[string]string{"tls": "none", "username": "", "password": "", "from": "Clinic <clinic@example.org>"})
	return func(i int64) error {
		out := channel.Outgoing{
			DeliveryID: "d_1", IdempotencyKey: fmt.Sprint("key-", i), Address: fmt.Sprintf("p%d@example.com", i), Subject: "Your visit",
		}
		var err error
		if out.Text, out.HTML, err = rendered(i, text, html); err != nil {
			return err
		}
		_, err = ch.Send(context.Background(), out)
		return err
	}
}

func goMail(b *testing.B, address string, conns int, text, html *message.Template) func(int64) error {
	b.Helper()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		b.Fatal(err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		b.Fatal(err)
	}
	clients := make(chan *gomail.Client, conns)
	for range conns {
		c, err := gomail.NewClient(host, gomail.WithPort(number), gomail.WithTLSPolicy(gomail.NoTLS), gomail.WithHELO("example.org"))
		if err != nil {
			b.Fatal(err)
		}
		if err := c.DialWithContext(b.Context()); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { c.Close() })
		clients <- c
	}
	return func(i int64) error {
		plain, rich, err := rendered(i, text, html)
		if err != nil {
			return err
		}
		m := gomail.NewMsg()
		if err := errors.Join(m.From("Clinic <clinic@example.org>"), m.To(fmt.Sprintf("p%d@example.com", i))); err != nil {
			return err
		}
		m.Subject("Your visit")
		m.SetBodyString(gomail.TypeTextPlain, plain)
		m.AddAlternativeString(gomail.TypeTextHTML, rich)
		c := <-clients
		defer func() { clients <- c }()
		return c.Send(m)
	}
}

func rendered(i int64, text, html *message.Template) (plain, rich string, err error) {
	vars := map[string]any{
		"contact": map[string]any{"name": fmt.Sprint("Ann ", i)}, "event": map[string]any{"day": "14 May"},
		"survey": map[string]any{"link": fmt.Sprint("https://example.org/s/d_", i)},
	}
	if plain, err = text.Render(vars, message.Limits{}); err == nil {
		rich, err = html.Render(vars, message.Limits{})
	}
	return plain, rich, err
}

func mustParse(b *testing.B, text string, format message.Format) *message.Template {
	b.Helper()
	t, err := message.Parse(text, format)
	if err != nil {
		b.Fatal(err)
	}
	return t
}

// spread has some senders make n mails.
func spread(senders, n int, from int64, send func(int64) error) error {
	var next atomic.Int64
	failed := make(chan error, senders)
	for range senders {
		go func() {
			for i := next.Add(1); i <= int64(n); i = next.Add(1) {
				if err := send(from + i); err != nil {
					failed <- err
					return
				}
			}
			failed <- nil
		}()
	}
	var all []error
	for range senders {
		all = append(all, <-failed)
	}
	return errors.Join(all...)
}
