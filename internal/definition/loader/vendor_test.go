package loader_test

import (
	"testing"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/loader"
)

// A provider without idempotency keys is not sent a message twice unless somebody has written that it is to be.
//
// Shows: P4.
func TestOnUnknownOfAForgetfulProvider(t *testing.T) {
	t.Parallel()
	const channel = "channel: sms:town\nprovider: telnyx\nsettings: {api_key: {secret: k}, from: \"1\"}\n"
	for text, want := range map[string]string{
		channel:                               definition.OnUnknownHold,
		channel + "on_unknown: resend":        definition.OnUnknownResend,
		channel + "on_unknown: hold":          definition.OnUnknownHold,
		"channel: sms:town\nprovider: memory": definition.OnUnknownResend,
	} {
		bundle, problems := loader.Load([]definition.File{{Name: "a.yaml", Text: []byte(text)}}, loader.Options{Providers: providers()})
		if definition.HasErrors(problems) {
			t.Fatalf("%s: %v", text, problems)
		}
		if got := bundle.Set.Channel("sms:town").OnUnknown; got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
