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

// signedBy says how callers sign.
const signedBy = "sign each try as Standard Webhooks says: webhook-id, webhook-timestamp and the bytes of the body, with the channel's inbound_secret"

// Inbound checks that a callback is signed, and reads it.
func (r Receiver) Inbound(c channel.Callback) (channel.Inbound, error) {
	if len(r.keys) == 0 {
		return channel.Inbound{}, channel.ErrNoInbound
	}
	id, err := signature.Verify(r.keys, c.Header, c.Body, c.At)
	if err != nil {
		return channel.Inbound{}, &channel.NotSignedError{Err: err, Hint: signedBy}
	}
	in, err := read(c.Body)
	in.ID = id
	return in, err
}

// body is what a request holds.
type body struct {
	Feedback []json.RawMessage `json:"feedback"`
	Replies  []json.RawMessage `json:"replies"`
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
	ID   string `json:"id"`
	From string `json:"from"`
	Text string `json:"text"`
	At   string `json:"at"`

	at time.Time
}

const (
	bodyKeys     = "the keys are feedback and replies"
	reportedKeys = "a report has status, address, delivery, step, message, soft and detail"
	replyKeys    = "a reply has id, from, text and at"
)

// read reads a body. Its errors name the field.
func read(text []byte) (in channel.Inbound, err error) {
	var b body
	if err := decode(text, &b, "body", bodyKeys); err != nil {
		return in, err
	}
	if n := len(b.Feedback) + len(b.Replies); n == 0 || n > MaxReports {
		return in, &channel.CallbackError{Field: "body", Err: fmt.Errorf("feedback and replies hold %d entries, not 1 to %d", n, MaxReports)}
	}
	for n, one := range b.Feedback {
		place := fmt.Sprintf("body.feedback[%d]", n)
		var r reported
		if err := decode(one, &r, place, reportedKeys); err != nil {
			return in, err
		}
		report, err := r.check(place)
		if err != nil {
			return in, err
		}
		in.Reports = append(in.Reports, report)
	}
	for n, one := range b.Replies {
		place := fmt.Sprintf("body.replies[%d]", n)
		var r reply
		if err := decode(one, &r, place, replyKeys); err != nil {
			return in, err
		}
		if err := r.check(place); err != nil {
			return in, err
		}
		in.Replies = append(in.Replies, channel.Reply{ID: r.ID, From: strings.TrimSpace(r.From), Text: r.Text, At: r.at})
	}
	return in, nil
}

// decode reads one object. Its error names the field, and the keys that there are.
func decode(text []byte, into any, place, keys string) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil {
		if _, err := d.Token(); !errors.Is(err, io.EOF) {
			return &channel.CallbackError{Field: place, Err: errors.New("something follows the object")}
		}
		return nil
	}
	if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
		if wrong.Field != "" {
			place += "." + wrong.Field
		}
		found, _, _ := strings.Cut(wrong.Value, " ")
		return &channel.CallbackError{Field: place, Err: errors.New("cannot be a JSON " + found), Hint: keys}
	}
	if name, unknown := strings.CutPrefix(err.Error(), "json: unknown field "); unknown {
		return &channel.CallbackError{Field: place, Err: fmt.Errorf("has an unknown key %.50s", name), Hint: keys}
	}
	return &channel.CallbackError{Field: place, Err: errors.New("is not JSON"), Hint: keys}
}

// check returns the report, or which field is wrong.
func (r reported) check(place string) (of feedback.Report, err error) {
	wrong := func(field string, err error, hint string) (feedback.Report, error) {
		return of, &channel.CallbackError{Field: place + "." + field, Err: err, Hint: hint}
	}
	address := strings.TrimSpace(r.Address)
	switch {
	case !slices.Contains(feedback.Statuses(), r.Status):
		return wrong("status", fmt.Errorf("%q is none of %s", r.Status, statuses()), "")
	case r.Soft && r.Status != feedback.Bounced:
		return wrong("soft", errors.New("is of use with the status bounced alone"), "leave it out")
	case r.Step < 0:
		return wrong("step", errors.New("counts from 1"), "leave it out if you do not know it")
	case len(r.Message) > maxID:
		return wrong("message", fmt.Errorf("is longer than %d bytes", maxID), "")
	case address == "" && r.Delivery == "":
		return wrong("address", errors.New("is missing, and so is delivery: nothing says whom the report is about"), "write address, or delivery: the id that the request to the provider had as id")
	case len(address) > maxAddress:
		return wrong("address", fmt.Errorf("is longer than %d bytes", maxAddress), "")
	case utf8.RuneCountInString(r.Detail) > maxDetail:
		return wrong("detail", fmt.Errorf("is longer than %d characters", maxDetail), "")
	case strings.ContainsRune(address+r.Message+r.Detail, 0):
		return wrong("detail", errors.New("holds U+0000, which no database keeps"), "")
	}
	return feedback.Report{Status: r.Status, Soft: r.Soft, Address: address, Delivery: r.Delivery, Step: r.Step, Message: r.Message, Detail: r.Detail}, nil
}

func statuses() string {
	var all []string
	for _, s := range feedback.Statuses() {
		all = append(all, string(s))
	}
	return strings.Join(all, ", ")
}

// check returns which field is wrong. A text is taken as it is: the person has written it, and nobody could mend it.
func (r *reply) check(place string) (err error) {
	wrong := func(field, text, hint string) error {
		return &channel.CallbackError{Field: place + "." + field, Err: errors.New(text), Hint: hint}
	}
	if r.At != "" {
		if r.at, err = time.Parse(time.RFC3339, r.At); err != nil {
			return wrong("at", "is no instant", "write it as RFC 3339, such as 2026-05-14T10:00:00Z, or leave it out")
		}
	}
	switch {
	case r.ID == "":
		return wrong("id", "is missing: the provider's id of the message, by which a repeated one is known", "")
	case len(r.ID) > maxID:
		return wrong("id", fmt.Sprintf("is longer than %d bytes", maxID), "")
	case strings.TrimSpace(r.From) == "":
		return wrong("from", "is missing: the address of who wrote it", "")
	case len(r.From) > maxAddress:
		return wrong("from", fmt.Sprintf("is longer than %d bytes", maxAddress), "")
	case strings.ContainsRune(r.From, 0):
		return wrong("from", "holds U+0000, which no database keeps", "")
	}
	return nil
}
