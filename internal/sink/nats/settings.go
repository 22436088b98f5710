package nats

import (
	"errors"
	"net/url"
	"slices"
	"strings"

	natsio "github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/carillonhq/carillon/internal/outbound"
	"github.com/carillonhq/carillon/internal/sink"
)

const (
	// maxSubject bounds a subject, in bytes: the whole control line of a publish has 4096.
	maxSubject = 255
	// credsMark stands in every .creds file.
	credsMark = "-----BEGIN "
	// minHidden is the length from which a part of the credentials is kept out of errors; a shorter one is part of any text.
	minHidden = 4
)

func check(settings map[string]string) error {
	if text := settings[settingURL]; text != "" {
		for _, server := range servers(text) {
			u, err := url.Parse(server)
			if err != nil || u.Scheme != "nats" && u.Scheme != "tls" || u.Hostname() == "" || u.User != nil || u.Path != "" || u.RawQuery != "" || strings.Contains(server, "#") {
				return &sink.SettingError{Setting: settingURL, Err: errors.New("must be nats://HOST:PORT or tls://HOST:PORT, several with commas between; credentials have a setting of their own")}
			}
		}
	}
	if text := settings[settingSubject]; text != "" && !isSubject(text) {
		return &sink.SettingError{Setting: settingSubject, Err: errors.New("must be one subject, such as csi.tickets: words with dots between, without blanks, * and >, and without $ in front")}
	}
	return nil
}

// servers parts a list of addresses.
func servers(text string) []string {
	all := strings.Split(text, ",")
	for i, server := range all {
		all[i] = strings.TrimSpace(server)
	}
	return all
}

// isSubject reports whether events can be published to a subject. Those that begin with $ are the server's own: a message there is a command. Those
// of _INBOX are for answers.
func isSubject(text string) bool {
	if len(text) > maxSubject || strings.HasPrefix(text, "$") || strings.HasPrefix(text, "_INBOX.") {
		return false
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '*' || r == '>' }) {
		return false
	}
	return !slices.Contains(strings.Split(text, "."), "")
}

// signIn reads credentials; nil: there are none. Its error never repeats them.
func signIn(credentials string) (natsio.Option, error) {
	switch {
	case credentials == "":
		return nil, nil //nolint:nilnil // no option is no error
	case strings.Contains(credentials, credsMark):
		text := []byte(credentials)
		if _, err := nkeys.ParseDecoratedJWT(text); err != nil {
			return nil, errors.New("the text of the .creds file holds no user JWT")
		}
		pair, err := nkeys.ParseDecoratedUserNKey(text)
		if err != nil {
			return nil, errors.New("the text of the .creds file holds no user seed")
		}
		pair.Wipe()
		return natsio.UserCredentialBytes(text), nil
	}
	text := strings.TrimSpace(credentials)
	if user, password, ok := strings.Cut(text, ":"); ok {
		return natsio.UserInfo(user, password), nil
	}
	return natsio.Token(text), nil
}

// hidden returns the parts of credentials that no error may repeat.
func hidden(credentials string) []string {
	var all []string
	for _, part := range strings.FieldsFunc(credentials, func(r rune) bool { return r <= ' ' || r == ':' }) {
		if len(part) >= minHidden && !strings.HasPrefix(part, "---") {
			all = append(all, part)
		}
	}
	return all
}

// hiding returns an error whose text is one short line without the credentials.
func (s *Sink) hiding(err error) error {
	return &quiet{outbound.Words([]byte(err.Error()), s.hide), err}
}

type quiet struct {
	text string
	err  error
}

func (q *quiet) Error() string { return q.text }

func (q *quiet) Unwrap() error { return q.err }
