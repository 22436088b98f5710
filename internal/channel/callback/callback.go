// Package callback reads what a provider, or a program beside it, calls back with: requests that are signed as Standard Webhooks lays down (package
// signature), under a secret of the channel.
//
//	webhook-id: the id of the request, the same in every try
//	{"feedback": [{"status": "bounced", "address": "ann@example.org", "delivery": "d_…", "detail": "550 no such user"}]}
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
	// MaxReports bounds one request.
	MaxReports = 1000
	// maxDetail and maxAddress bound a report, in characters and bytes.
	maxDetail, maxAddress = 500, 254
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
	reports, err := read(c.Body)
	return channel.Inbound{ID: id, Reports: reports}, err
}

// read reads a body. Its errors name the field.
func read(body []byte) ([]feedback.Report, error) {
	var in struct {
		Feedback []struct {
			Status   feedback.Status `json:"status"`
			Address  string          `json:"address"`
			Delivery string          `json:"delivery"`
			Detail   string          `json:"detail"`
		} `json:"feedback"`
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		return nil, &channel.CallbackError{Field: "body", Err: err}
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, &channel.CallbackError{Field: "body", Err: errors.New("something follows the object")}
	}
	if n := len(in.Feedback); n == 0 || n > MaxReports {
		return nil, &channel.CallbackError{Field: "body.feedback", Err: fmt.Errorf("holds %d reports, not 1 to %d", n, MaxReports)}
	}
	reports := make([]feedback.Report, len(in.Feedback))
	for n, f := range in.Feedback {
		at := func(field string) string { return fmt.Sprintf("body.feedback[%d].%s", n, field) }
		address := strings.TrimSpace(f.Address)
		switch {
		case !slices.Contains(feedback.Statuses(), f.Status):
			return nil, &channel.CallbackError{Field: at("status"), Err: fmt.Errorf("%q is none of delivered, deferred, bounced, complained", f.Status)}
		case address == "" && f.Delivery == "":
			return nil, &channel.CallbackError{Field: at("address"), Err: errors.New("is missing, and so is the delivery")}
		case len(address) > maxAddress:
			return nil, &channel.CallbackError{Field: at("address"), Err: fmt.Errorf("is longer than %d bytes", maxAddress)}
		case utf8.RuneCountInString(f.Detail) > maxDetail:
			return nil, &channel.CallbackError{Field: at("detail"), Err: fmt.Errorf("is longer than %d characters", maxDetail)}
		case strings.ContainsRune(address+f.Detail, 0):
			return nil, &channel.CallbackError{Field: at("detail"), Err: errors.New("holds U+0000, which no database keeps")}
		}
		reports[n] = feedback.Report{Status: f.Status, Address: address, Delivery: f.Delivery, Detail: f.Detail}
	}
	return reports, nil
}
