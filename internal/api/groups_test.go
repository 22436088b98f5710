package api_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/client"
)

// Groups are listed with the number of their contacts; one is shown with its contacts, a page at a time. A contact has the names of its groups.
func TestGroups(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bundle) {
		b.apply("group: vip\nwhere: [contact.attributes.vip == true, contact.locale == 'de']\n---\ngroup: board\nmembers: [c-1, c-9]\n")
		for i := range 5 {
			if _, err := b.PutContact(t.Context(), client.ContactInput{ID: fmt.Sprint("c-", i), Locale: "de", Attributes: map[string]any{"vip": i%2 == 1}}); err != nil {
				t.Fatal(err)
			}
		}
		list, err := b.Groups(t.Context())
		if err != nil || len(list.Items) != 2 || list.Items[0].Computed {
			t.Errorf("before they are computed: %+v, %v", list, err)
		}
		for range 3 {
			if _, err := b.Tick(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		want := []client.Group{
			{Name: "board", IDs: 2, Computed: true, Members: 1},
			{Name: "vip", Where: "all(contact.attributes.vip == true\ncontact.locale == 'de')", Computed: true, Members: 2},
		}
		if list, err = b.Groups(t.Context()); cmp.Diff(want, list.Items) != "" || err != nil {
			t.Errorf("groups (-want +got):\n%s%v", cmp.Diff(want, list.Items), err)
		}
		var ids []string
		for q := (client.GroupQuery{Limit: 1}); ; {
			page, err := b.Group(t.Context(), "vip", q)
			if err != nil || len(page.Items) != 1 || page.Members != 2 || !slices.Equal(page.Items[0].Groups[len(page.Items[0].Groups)-1:], []string{"vip"}) {
				t.Fatalf("%+v, %v", page, err)
			}
			ids = append(ids, page.Items[0].ID)
			if q.Cursor = page.NextCursor; q.Cursor == "" {
				break
			}
		}
		if !slices.Equal(ids, []string{"c-3", "c-1"}) {
			t.Errorf("members %q", ids)
		}
		one, err := b.Contact(t.Context(), "c-1")
		if err != nil || !slices.Equal(one.Groups, []string{"board", "vip"}) {
			t.Errorf("%+v, %v", one, err)
		}
		page, err := b.Contacts(t.Context(), client.ContactQuery{Q: "c-3"})
		if err != nil || len(page.Items) != 1 || !slices.Equal(page.Items[0].Groups, []string{"vip"}) {
			t.Errorf("%+v, %v", page, err)
		}
		if status, text := b.ask(http.MethodGet, "/v1/groups/none", ""); status != http.StatusNotFound {
			t.Errorf("%d %s", status, text)
		}
	})
}
