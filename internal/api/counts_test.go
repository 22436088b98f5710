package api_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/client"
)

const newsToReaders = `
workflow: news
type: broadcast
triggers: [{id: t, schedule: {every: 1y, from: 2099-01-01, at: "10:00"}}]
audience: [{persona: Reader}]
channel: email
message: {email: {subject: News, text: News}}
---
persona: Reader
---
channel: email
provider: memory
rate: 1/h
---
workspace: default
cadence: {max_per_day: 0}
`

// An instance says what has become of its deliveries: as the audience is taken up, when a part has left, and when a person has stopped it. The page of the
// console has the same numbers.
//
// Shows: D2.
func TestCountsOfABroadcast(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bundle) {
		b.apply(newsToReaders)
		const people = 700 // two pages of an audience
		var batch []client.ContactInput
		for i := range people {
			one := client.ContactInput{ID: fmt.Sprintf("c%03d", i), Persona: "Reader", Addresses: map[string]string{"email": fmt.Sprintf("c%d@example.org", i)}}
			if i%100 == 7 {
				one.Addresses = nil
			}
			batch = append(batch, one)
		}
		if _, err := b.PostContacts(t.Context(), batch...); err != nil {
			t.Fatal(err)
		}
		if status, answer := b.ask("POST", "/v1/contacts/c001/suppress", `{"reason": "asked"}`); status >= 300 {
			t.Fatal(answer)
		}
		run, err := b.RunWorkflow(t.Context(), "news", "1")
		if err != nil {
			t.Fatal(err)
		}
		counts := func(what string, want client.InstanceCounts) {
			t.Helper()
			one, err := b.Instance(t.Context(), run.Instance)
			if err != nil {
				t.Fatal(err)
			}
			reasons := []client.ReasonCount{}
			for _, r := range one.Counts.Reasons {
				if r.Message == "" || r.Count < 1 {
					t.Errorf("%s: %+v", what, r)
				}
				if r.Message = ""; r.Status != "scheduled" { // how many wait for the rate depends on the size of a batch
					reasons = append(reasons, r)
				}
			}
			one.Counts.Reasons = reasons
			if diff := cmp.Diff(want, one.Counts); diff != "" {
				t.Errorf("%s (-want +got):\n%s", what, diff)
			}
			all, err := b.InstanceCounted(t.Context(), run.Instance)
			if err != nil || all.Counts.Deliveries != one.Counts.Deliveries {
				t.Errorf("%s: all of them are %d, %v", what, all.Counts.Deliveries, err)
			}
		}
		counts("before it is taken up", client.InstanceCounts{Reasons: []client.ReasonCount{}})
		skipped := func(why string, n int) client.ReasonCount {
			return client.ReasonCount{Status: "skipped", Reason: why, Count: n}
		}
		suppressed := client.ReasonCount{Status: "cancelled", Reason: "suppressed", Count: 1}
		if _, err := b.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
		counts("the first page", client.InstanceCounts{Deliveries: 500, TakingUp: true, Sent: 1, Waiting: 493, LeftOut: 6, Reasons: []client.ReasonCount{skipped("no_address", 5), suppressed}})
		for range 3 {
			if _, err := b.Tick(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		counts("taken up", client.InstanceCounts{Deliveries: 700, Sent: 1, Waiting: 691, LeftOut: 8, Reasons: []client.ReasonCount{skipped("no_address", 7), suppressed}})
		page := b.page("/instances/" + run.Instance)
		for _, want := range []string{"So far", "<dt>deliveries</dt><dd>700</dd>", "<dt>sent</dt><dd>1</dd>", "<dt>left out</dt><dd>8</dd>", "no address", "The person must not be messaged."} {
			if !strings.Contains(page, want) {
				t.Errorf("the page lacks %s:\n%s", want, page)
			}
		}
		if _, err := b.CancelInstance(t.Context(), run.Instance); err != nil {
			t.Fatal(err)
		}
		counts("stopped", client.InstanceCounts{Deliveries: 700, Sent: 1, LeftOut: 699, Reasons: []client.ReasonCount{
			{Status: "cancelled", Reason: "cancelled_by_operator", Count: 691}, skipped("no_address", 7), suppressed,
		}})
	})
}
