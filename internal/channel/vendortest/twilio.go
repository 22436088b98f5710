// Package vendortest has local servers that behave as the vendors of text messages document it: what they answer, what they call back with, and how they
// sign it. Tests of providers send to them.
package vendortest

import (
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // Twilio signs with it
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
)

// What the accounts are.
const (
	Account = "AC0123456789abcdef0123456789abcdef"
	Service = "MG0123456789abcdef0123456789abcdef"
	Number  = "+15005550006"
)

// Sent is a message that a vendor has taken.
type Sent struct {
	ID       string
	To       string
	From     string
	Text     string
	Callback string // where it reports; empty: nowhere
	Header   http.Header
	Tags     []string // of Telnyx
}

// Vendor is a server of a vendor.
type Vendor struct {
	*httptest.Server
	Secret string // the token or key of the account

	mu   sync.Mutex
	sent []Sent
	next []Answer
}

// Answer is how a vendor answers a message instead of taking it.
type Answer struct {
	Status int
	Code   int    // of the vendor
	Lose   bool   // it takes the message, and no answer arrives
	After  string // Retry-After
}

// Next has the vendor answer the next messages so.
func (v *Vendor) Next(answers ...Answer) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.next = append(v.next, answers...)
}

// Messages returns what the vendor has taken, in its order.
func (v *Vendor) Messages() []Sent {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.sent)
}

// take takes a message, unless another answer is set. take returns its id.
func (v *Vendor) take(s Sent, prefix string) (id string, answer Answer) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.next) > 0 {
		answer, v.next = v.next[0], v.next[1:]
		if answer.Status != 0 {
			return "", answer
		}
	}
	s.ID = fmt.Sprintf("%s%032d", prefix, len(v.sent)+1)
	v.sent = append(v.sent, s)
	return s.ID, answer
}

// Called is a request with which a vendor calls back.
type Called struct {
	URL    string
	Header http.Header
	Body   string
}

// NewTwilio starts a server that takes messages as Twilio's API of 2010-04-01 does.
func NewTwilio(t testing.TB, token string) *Vendor {
	t.Helper()
	v := &Vendor{Secret: token}
	v.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		refuse := func(status, code int, message string) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_ = json.NewEncoder(w).Encode(map[string]any{"code": code, "message": message, "more_info": "https://www.twilio.com/docs/errors/" + fmt.Sprint(code), "status": status})
		}
		user, password, ok := r.BasicAuth()
		switch {
		case r.Method != http.MethodPost || r.URL.Path != "/2010-04-01/Accounts/"+Account+"/Messages.json":
			refuse(http.StatusNotFound, 20404, "The requested resource "+r.URL.Path+" was not found")
			return
		case !ok || user != Account || password != token:
			refuse(http.StatusUnauthorized, 20003, "Authenticate")
			return
		case r.Header.Get("Content-Type") != "application/x-www-form-urlencoded" || r.ParseForm() != nil:
			refuse(http.StatusBadRequest, 21604, "A 'To' phone number is required.")
			return
		}
		f := r.PostForm
		to, whatsApp := strings.CutPrefix(f.Get("To"), "whatsapp:")
		from, sameKind := f.Get("From"), true
		if from == "" {
			from = f.Get("MessagingServiceSid")
		} else {
			sameKind = strings.HasPrefix(from, "whatsapp:") == whatsApp
		}
		switch {
		case from == "":
			refuse(http.StatusBadRequest, 21603, "A 'From' phone number is required.")
			return
		case !sameKind:
			refuse(http.StatusBadRequest, 21910, "Invalid From and To pair. From and To should be of the same channel")
			return
		case (f.Get("Body") == "") == (f.Get("ContentSid") == ""):
			refuse(http.StatusBadRequest, 21602, "Message body is required.")
			return
		case !strings.HasPrefix(to, "+") || len(to) < 8:
			refuse(http.StatusBadRequest, 21211, "Invalid 'To' Phone Number: "+to)
			return
		}
		id, answer := v.take(Sent{To: f.Get("To"), From: from, Text: f.Get("Body") + f.Get("ContentSid") + f.Get("ContentVariables"), Callback: f.Get("StatusCallback"), Header: r.Header}, "SM")
		switch {
		case answer.Status != 0:
			if answer.After != "" {
				w.Header().Set("Retry-After", answer.After)
			}
			refuse(answer.Status, answer.Code, "refused, said the token "+token)
		case answer.Lose:
			panic(http.ErrAbortHandler)
		default:
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusCreated)
			_ = json.NewEncoder(w).Encode(map[string]any{"sid": id, "status": "queued", "error_code": nil, "account_sid": Account, "to": f.Get("To")})
		}
	}))
	t.Cleanup(v.Close)
	return v
}

// Status is Twilio's status callback of a message that it has taken.
func (v *Vendor) Status(s Sent, status, code string) Called {
	form := url.Values{
		"MessageSid": {s.ID}, "SmsSid": {s.ID}, "MessageStatus": {status}, "SmsStatus": {status}, "To": {s.To}, "From": {s.From},
		"AccountSid": {Account}, "ApiVersion": {"2010-04-01"},
	}
	if code != "" {
		form.Set("ErrorCode", code)
	}
	return Signed(v.Secret, s.Callback, form)
}

// Incoming is Twilio's callback of a message that somebody has written to a number.
func (v *Vendor) Incoming(to, id, from, text string) Called {
	return Signed(v.Secret, to, url.Values{
		"MessageSid": {id}, "SmsMessageSid": {id}, "SmsStatus": {"received"}, "From": {from}, "To": {Number}, "Body": {text}, "NumMedia": {"0"}, "NumSegments": {"1"},
		"AccountSid": {Account}, "ApiVersion": {"2010-04-01"}, "ToCountry": {"US"},
	})
}

// Signed is a form that is signed as Twilio does.
func Signed(token, to string, form url.Values) Called {
	text := to
	for _, name := range slices.Sorted(maps.Keys(form)) {
		text += name + form.Get(name)
	}
	mac := hmac.New(sha1.New, []byte(token))
	mac.Write([]byte(text))
	header := http.Header{}
	header.Set("Content-Type", "application/x-www-form-urlencoded; charset=UTF-8")
	header.Set("X-Twilio-Signature", base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	return Called{URL: to, Header: header, Body: form.Encode()}
}
