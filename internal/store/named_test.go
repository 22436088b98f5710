package store_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
	"github.com/carillonhq/carillon/internal/subject"
)

// Events are found by the person that they name, with or without an instance.
func TestEventsNaming(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		f.contact("ada")
		var writes store.OccasionWrites
		for _, r := range []*subject.Recipient{
			{CustomerRef: "ada"},
			{Address: "+49 (30) 123-456"},
			{Address: "+4930123456", CustomerRef: "bob"}, // bob, at a number that another contact has too
			{Address: "Eve@Example.org"},
			nil,
			{CustomerRef: "Ada"},
		} {
			e := f.event(fmt.Sprint("kind-", len(writes.Events)))
			e.Recipient = r
			writes.Events = append(writes.Events, e)
		}
		f.add(writes)
		for _, c := range []struct {
			to   string
			f    store.EventFilter
			p    store.Page
			want string
		}{
			{to: "ada", want: "kind-0"},
			{to: "Ada", want: "kind-5"},
			{to: "+4930123456", want: "kind-2 kind-1"},
			{to: "+4930123456", p: store.Page{Limit: 1}, want: "kind-2"},
			{to: "+4930123456", p: store.Page{Before: int64(writes.Events[2].ID)}, want: "kind-1"},
			{to: "+4930123456", f: store.EventFilter{Kind: "kind-1"}, want: "kind-1"},
			{to: "ada", f: store.EventFilter{Made: store.Span{Since: now.Add(time.Hour)}}},
			{to: "eve@example.org", want: "kind-3"},
			{to: "bob", want: "kind-2"},
			{to: "nobody"},
		} {
			c.f.To = store.ContactQuery{Text: c.to}
			rows, err := s.Events(t.Context(), f.ws, c.f, c.p)
			f.must(err)
			var got []string
			for _, e := range rows {
				got = append(got, e.Kind)
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("%+v %+v: got %s, want %s", c.f, c.p, got, c.want)
			}
		}
	})
}
