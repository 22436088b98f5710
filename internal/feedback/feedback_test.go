package feedback_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/feedback"
)

const bounce = `From: MAILER-DAEMON@mx.example.net
To: bounces@example.com
Subject: Undelivered Mail Returned to Sender
MIME-Version: 1.0
Content-Type: multipart/report; report-type=delivery-status;
	boundary="b1"

This is a MIME-encapsulated message.

--b1
Content-Type: text/plain; charset=us-ascii

I'm sorry to have to inform you.

--b1
Content-Description: Delivery report
Content-Type: message/delivery-status

Reporting-MTA: dns; mx.example.net
Arrival-Date: Fri, 27 Nov 2026 10:00:00 +0000

Final-Recipient: rfc822; inbox-of-ann@example.net
Original-Recipient: rfc822;Ann@example.org
Action: failed
Status: 5.1.1
Diagnostic-Code: smtp; 550 5.1.1 <ann@example.org>: Recipient address
    rejected: User unknown

Final-Recipient: rfc822; bob@example.org
Action: delayed
Status: 4.4.1

Final-Recipient: rfc822; cyd@example.org
Action: failed
Status: 5.2.2

Final-Recipient: rfc822; dan@example.org
Action: relayed
Status: 2.1.5

--b1
Content-Type: text/rfc822-headers

From: news@example.com
To: ann@example.org
X-Carillon-Delivery: d_abc
Subject: News

--b1--
`

const complaint = `From: feedback@example.net
Subject: complaint
MIME-Version: 1.0
Content-Type: multipart/report; report-type="feedback-report"; boundary=x

--x
Content-Type: text/plain

This is an abuse report.

--x
Content-Type: message/feedback-report
Content-Transfer-Encoding: quoted-printable

Feedback-Type: abuse
User-Agent: SomeGenerator/1.0
Version: 1
Original-Rcpt-To: <ann@exam=
ple.org>

--x
Content-Type: message/rfc822

From: news@example.com
To: Ann <ann@example.org>
X-Carillon-Delivery: d_abc

Hello
--x--
`

// Reports are read as RFC 3464 and RFC 5965 lay them down, for each recipient: an address that does not exist is stopped for good, a full mailbox is not.
func TestParse(t *testing.T) {
	t.Parallel()
	crlf := func(text string) string { return strings.ReplaceAll(text, "\n", "\r\n") }
	for name, row := range map[string]struct {
		mail string
		want []feedback.Report
	}{
		"a bounce": {bounce, []feedback.Report{
			{Status: feedback.Bounced, Address: "Ann@example.org", Delivery: "d_abc", Detail: "5.1.1 550 5.1.1 <ann@example.org>: Recipient address rejected: User unknown"},
			{Status: feedback.Deferred, Address: "bob@example.org", Delivery: "d_abc", Detail: "4.4.1"},
			{Status: feedback.Deferred, Address: "cyd@example.org", Delivery: "d_abc", Detail: "5.2.2"},
		}},
		"a complaint": {complaint, []feedback.Report{{Status: feedback.Complained, Address: "ann@example.org", Delivery: "d_abc", Detail: "abuse"}}},
		"a complaint without a recipient": {
			strings.Replace(complaint, "Original-Rcpt-To: <ann@exam=\nple.org>\n", "", 1),
			[]feedback.Report{{Status: feedback.Complained, Address: "ann@example.org", Delivery: "d_abc", Detail: "abuse"}},
		},
	} {
		for _, mail := range []string{row.mail, crlf(row.mail)} {
			got, err := feedback.Parse(strings.NewReader(mail))
			if diff := cmp.Diff(row.want, got); err != nil || diff != "" {
				t.Errorf("%s: %v (-want +got)\n%s", name, err, diff)
			}
		}
	}
}

// What reports nothing is no report, whatever it says.
func TestNoReports(t *testing.T) {
	t.Parallel()
	for name, mail := range map[string]string{
		"empty":               "",
		"no mail":             "hello\n",
		"a note of a holiday": "Subject: Undelivered\n\nI am away. 550 5.1.1 user unknown <ann@example.org>\n",
		"no boundary":         "Content-Type: multipart/report; report-type=delivery-status\n\n\n",
		"another report":      strings.ReplaceAll(bounce, "report-type=delivery-status", "report-type=disposition-notification"),
		"not spam":            strings.ReplaceAll(complaint, "Feedback-Type: abuse", "Feedback-Type: not-spam"),
		"nobody":              strings.NewReplacer("Final-Recipient", "X-A", "Original-Recipient", "X-B").Replace(bounce),
		"cut off":             bounce[:strings.Index(bounce, "Content-Description")],
		"too large":           strings.Replace(bounce, "I'm sorry", strings.Repeat("x", 3<<20), 1),
	} {
		if got, err := feedback.Parse(strings.NewReader(mail)); !errors.Is(err, feedback.ErrNoReport) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// A mailbox file has its mails one after the other; a line of a mail that begins with From is quoted. A file with one mail is that mail.
func TestMails(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"":               nil,
		"A: b\n\nbody\n": {"A: b\n\nbody\n"},
		"From a@b Thu\nA: b\n\n>From here\nbody\n\nFrom c@d Fri\r\nC: d\r\n\r\n>>From x\r\n": {"A: b\n\nFrom here\nbody\n\n", "C: d\r\n\r\n>From x\r\n"},
		"A: b\n\nline\n\nFrom the beginning\n":                                               {"A: b\n\nline\n\nFrom the beginning\n"},
		"From a@b\n\n\n":                                                                     nil,
	} {
		var got []string
		for mail, err := range feedback.Mails(strings.NewReader(text)) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, string(mail))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got)\n%s", text, diff)
		}
	}
}

// Whatever comes is a report or none, and never more than it says.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{bounce, complaint, "", "A: b\n\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		reports, err := feedback.Parse(strings.NewReader(string(raw)))
		if (err == nil) != (len(reports) > 0) {
			t.Errorf("%d reports and %v", len(reports), err)
		}
		for _, r := range reports {
			if r.Status == "" || r.Address == "" && r.Delivery == "" || len(r.Detail) > 500 || strings.ContainsAny(r.Detail, "\r\n\x00") {
				t.Errorf("%+v", r)
			}
		}
	})
}
