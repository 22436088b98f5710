package api_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const tips = `
workflow: tips
type: broadcast
triggers:
  - id: weekly
    schedule: {timezone: [contact.timezone, Europe/Berlin], at: "10:00", every: 1w, days: [fri]}
audience: {persona: Mother}
channel: inbox
message:
  inbox: {text: A tip}
---
persona: Mother
`

// An occasion that is due by the zone of each person is one item of a list, with its zones and what became of each; zones=true
// lists its rows. The instance of any of them shows all of it.
//
// Shows: R15.
func TestAnOccasionByZonesIsOneItem(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bundle) {
		b.apply(tips)
		for name, zone := range map[string]string{"amina": "Africa/Nairobi", "berta": "Europe/Berlin", "carol": "America/New_York"} {
			if status, answer := b.ask("PUT", "/v1/contacts/"+name, fmt.Sprintf(`{"addresses": {"inbox": %q}, "timezone": %q, "persona": "Mother"}`, name, zone)); status >= 300 {
				t.Fatal(answer)
			}
		}
		until := func(at time.Time) {
			t.Helper()
			b.clock.Set(at)
			for range 4 {
				if _, err := b.Tick(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		list := func(query string) []string {
			t.Helper()
			var lines []string
			for cursor := ""; ; {
				status, answer := b.ask("GET", "/v1/instances?workflow=tips&limit=1&"+query+"&cursor="+url.QueryEscape(cursor), "")
				var page struct {
					Items []struct {
						Key, Status string
						DueLocal    string `json:"due_local"`
						Zones       []struct{ Timezone, Status string }
					}
					NextCursor string `json:"next_cursor"`
				}
				if err := json.Unmarshal([]byte(answer), &page); err != nil || status >= 300 {
					t.Fatal(answer, err)
				}
				for _, one := range page.Items {
					line := strings.TrimPrefix(one.Key, "broadcast:tips:weekly:") + " " + one.Status + " " + one.DueLocal
					for _, z := range one.Zones {
						line += ", " + z.Timezone + " " + z.Status
					}
					lines = append(lines, strings.TrimSpace(line))
				}
				if cursor = page.NextCursor; cursor == "" {
					return lines
				}
			}
		}
		mustBe := func(what string, got []string, want ...string) {
			t.Helper()
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", what, diff)
			}
		}
		until(start)
		mustBe("planned", list(""), "2026-05-15 pending 2026-05-15T10:00")
		until(time.Date(2026, 5, 14, 21, 0, 0, 0, time.UTC))
		begun := "2026-05-15 pending 2026-05-15T10:00, Africa/Nairobi pending, Europe/Berlin pending, America/New_York pending"
		mustBe("begun", list(""), "2026-05-22 pending 2026-05-22T10:00", begun)
		until(time.Date(2026, 5, 15, 9, 0, 0, 0, time.UTC))
		at9 := "2026-05-15 pending 2026-05-15T10:00, Africa/Nairobi completed, Europe/Berlin completed, America/New_York pending"
		zones := strings.TrimPrefix(at9, "2026-05-15 pending ")
		mustBe("under way", list(""), "2026-05-22 pending 2026-05-22T10:00", at9)
		mustBe("those of a status, each once", list("status=completed"), "2026-05-15:z:Africa/Nairobi completed "+zones)
		mustBe("its rows", list("zones=true"), "2026-05-22 pending 2026-05-22T10:00", "2026-05-15:z:Europe/Berlin completed "+zones,
			"2026-05-15:z:America/New_York pending "+zones, "2026-05-15:z:Africa/Nairobi completed "+zones, at9)
		mustBe("its rows of a status", list("zones=true&status=completed"), "2026-05-15:z:Europe/Berlin completed "+zones, "2026-05-15:z:Africa/Nairobi completed "+zones)

		whole := func(k string) (id string, people []string) {
			t.Helper()
			_, answer := b.ask("GET", "/v1/instances?key="+url.QueryEscape(k), "")
			var page struct{ Items []struct{ ID string } }
			if err := json.Unmarshal([]byte(answer), &page); err != nil || len(page.Items) != 1 {
				t.Fatal(answer, err)
			}
			_, answer = b.ask("GET", "/v1/instances/"+page.Items[0].ID, "")
			var one struct {
				Occasion   string
				Zones      []struct{ Timezone string }
				Deliveries []struct{ Address string }
			}
			if err := json.Unmarshal([]byte(answer), &one); err != nil || len(one.Zones) != 3 {
				t.Errorf("%s: %s", k, answer)
			}
			for _, d := range one.Deliveries {
				people = append(people, d.Address)
			}
			slices.Sort(people)
			if strings.Contains(k, ":z:") == (one.Occasion == "") {
				t.Errorf("%s is of occasion %q", k, one.Occasion)
			}
			return page.Items[0].ID, people
		}
		head, people := whole("broadcast:tips:weekly:2026-05-15")
		mustBe("the contacts whom the occasion has notified", people, "amina", "berta")
		_, people = whole("broadcast:tips:weekly:2026-05-15:z:America/New_York")
		mustBe("the same, asked for a zone", people, "amina", "berta")
		if page := b.page("/instances/" + head); !strings.Contains(page, "Africa/Nairobi") || !strings.Contains(page, "15 May 10:00") {
			t.Errorf("the page of the occasion:\n%s", page)
		}
		if page := b.page("/instances"); strings.Contains(page, ":z:") || !strings.Contains(page, "3 zones") {
			t.Errorf("the page of instances:\n%s", page)
		}
	})
}
