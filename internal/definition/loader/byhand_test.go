package loader_test

import (
	"testing"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/loader"
)

// A workflow whose data reads an event cannot be run by hand: there is no event.
//
// Shows: B15.
func TestDataOfAnEventIsNotRunByHand(t *testing.T) {
	t.Parallel()
	for where, want := range map[string]string{
		"record.centre == event.centre":   "trigger t: its data.a reads event",
		"record.centre == recipient.name": "trigger t: its data.a reads recipient",
		"record.open == true":             "",
	} {
		text := "workflow: w\ntype: report\ntriggers:\n  - {id: t, event: asked}\naudience: {everyone: true}\nchannel: sms\nmessage:\n  sms: {text: x}\n" +
			"  data:\n    a:\n      records: class\n      where: " + where + "\n      count: true\n---\nchannel: sms\nprovider: memory\n"
		bundle, problems := loader.Load([]definition.File{{Name: "a.yaml", Text: []byte(text)}}, loader.Options{})
		if definition.HasErrors(problems) {
			t.Fatal(problems)
		}
		if _, why := bundle.Set.ByHand(bundle.Set.Workflow("w")); why != want {
			t.Errorf("%s: %q, want %q", where, why, want)
		}
	}
}
