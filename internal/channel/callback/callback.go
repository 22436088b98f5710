// Package callback reads what a provider, or a program beside it, calls back with: requests that are signed as Standard Webhooks lays down (package
// signature), under a secret of the channel.
//
//	webhook-id: the id of the request, the same in every try
//	{"feedback": [{"status": "bounced", "address": "ann@example.org", "delivery": "d_…", "detail": "550 no such user"}]}
//	{"replies": [{"id": "SM3f2…", "from": "+254700000001", "text": "yes", "at": "2026-05-12T07:05:00Z"}]}
//
// While secrets are exchanged either one is accepted.
package callback

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/feedback"
	"github.com/carillonhq/carillon/internal/signature"
)

// The settings of every provider whose channels take callbacks.
const (
	SettingSecret    = "inbound_secret"
	SettingOldSecret = "old_inbound_secret"
)

const (
	// MaxReports bounds the reports and replies of one request.
	MaxReports = 1000
	// maxDetail and maxAddress bound a report, in characters and bytes.
	maxDetail, maxAddress = 500, 254
	// maxID bounds the provider's id of a message, in bytes.
	maxID = 254
)

// Settings describes them.
func Settings() []channel.Setting {
	return []channel.Setting{
		{Name: SettingSecret, Secret: true, Doc: "What calls to /v1/inbound are signed with: whsec_ and 24 to 64 bytes in base64. Without it the channel takes none."},
		{Name: SettingOldSecret, Secret: true, Doc: "A second secret of such calls, while their sender changes to the new one."},
	}
}

// Receiver reads the callbacks of one channel. The zero value takes none.
type Receiver struct{ keys []signature.Key }

// Open reads the settings. The error is a *channel.SettingError.
func Open(settings map[string]string) (Receiver, error) {
	var in Receiver
	for _, name := range []string{SettingSecret, SettingOldSecret} {
		if settings[name] == "" {
			continue
		}
		if name == SettingOldSecret && len(in.keys) == 0 {
			return in, &channel.SettingError{Setting: name, Err: errors.New("is of use beside " + SettingSecret + " alone")}
		}
		key, err := signature.Parse(settings[name])
		if err != nil {
			return in, &channel.SettingError{Setting: name, Err: err}
		}
		in.keys = append(in.keys, key)
	}
	return in, nil
}

// Inbound checks that a callback is signed, and reads it.
func (r Receiver) Inbound(c channel.Callback) (channel.Inbound, error) {
	if len(r.keys) == 0 {
		return channel.Inbound{}, channel.ErrNoInbound
	}
	id, err := signature.Verify(r.keys, c.Header, c.Body, c.At)
	if err != nil {
		return channel.Inbound{}, fmt.Errorf("%w: %w", channel.ErrNotSigned, err)
	}
	in, err := read(c.Body)
	in.ID = id
	return in, err
}

// body is what a request holds.
type body struct {
	Feedback []reported `json:"feedback"`
	Replies  []reply    `json:"replies"`
}

type reported struct {
	Status   feedback.Status `json:"status"`
	Address  string          `json:"address"`
	Delivery string          `json:"delivery"`
	Step     int             `json:"step"`
	Message  string          `json:"message"`
	Soft     bool            `json:"soft"`
	Detail   string          `json:"detail"`
}

type reply struct {
	ID   string    `json:"id"`
	From string    `json:"from"`
	Text string    `json:"text"`
	At   time.Time `json:"at"`
}

// read reads a body. Its errors name the field.
func read(text []byte) (in channel.Inbound, err error) {
	var b body
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&b); err != nil {
		return in, &channel.CallbackError{Field: "body", Err: err}
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return in, &channel.CallbackError{Field: "body", Err: errors.New("something follows the object")}
	}
	if n := len(b.Feedback) + len(b.Replies); n == 0 || n > MaxReports {
		return in, &channel.CallbackError{Field: "body", Err: fmt.Errorf("feedback and replies hold %d entries, not 1 to %d", n, MaxReports)}
	}
	for n, r := range b.Feedback {
		one, field, err := r.check()
		if err != nil {
			return in, &channel.CallbackError{Field: fmt.Sprintf("body.feedback[%d].%s", n, field), Err: err}
		}
		in.Reports = append(in.Reports, one)
	}
	for n, r := range b.Replies {
		if field, err := r.check(); err != nil {
			return in, &channel.CallbackError{Field: fmt.Sprintf("body.replies[%d].%s", n, field), Err: err}
		}
		in.Replies = append(in.Replies, channel.Reply{ID: r.ID, From: strings.TrimSpace(r.From), Text: r.Text, At: r.At})
	}
	return in, nil
}

// check returns the report, or which field is wrong.
func (r reported) check() (of feedback.Report, field string, err error) {
	address := strings.TrimSpace(r.Address)
	switch {
	case !slices.Contains(feedback.Statuses(), r.Status):
		return of, "status", fmt.Errorf("%q is none of %s", r.Status, statuses())
	case r.Soft && r.Status != feedback.Bounced:
		return of, "soft", errors.New("is of use with the status bounced alone")
	case r.Step < 0:
		return of, "step", errors.New("counts from 1")
	case len(r.Message) > maxID:
		return of, "message", fmt.Errorf("is longer than %d bytes", maxID)
	case address == "" && r.Delivery == "":
		return of, "address", errors.New("is missing, and so is the delivery")
	case len(address) > maxAddress:
		return of, "address", fmt.Errorf("is longer than %d bytes", maxAddress)
	case utf8.RuneCountInString(r.Detail) > maxDetail:
		return of, "detail", fmt.Errorf("is longer than %d characters", maxDetail)
	case strings.ContainsRune(address+r.Message+r.Detail, 0):
		return of, "detail", errors.New("holds U+0000, which no database keeps")
	}
	return feedback.Report{Status: r.Status, Soft: r.Soft, Address: address, Delivery: r.Delivery, Step: r.Step, Message: r.Message, Detail: r.Detail}, "", nil
}

func statuses() string {
	var all []string
	for _, s := range feedback.Statuses() {
		all = append(all, string(s))
	}
	return strings.Join(all, ", ")
}

// check returns which field is wrong. A text is taken as it is: the person has written it, and nobody could mend it.
func (r reply) check() (field string, err error) {
	switch {
	case r.ID == "":
		return "id", errors.New("is missing: the provider's id of the message, by which a repeated one is known")
	case len(r.ID) > maxID:
		return "id", fmt.Errorf("is longer than %d bytes", maxID)
	case strings.TrimSpace(r.From) == "":
		return "from", errors.New("is missing: the address of who wrote it")
	case len(r.From) > maxAddress:
		return "from", fmt.Errorf("is longer than %d bytes", maxAddress)
	case strings.ContainsRune(r.From, 0):
		return "from", errors.New("holds U+0000, which no database keeps")
	}
	return "", nil
}
