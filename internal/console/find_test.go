package console_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/internal/console"
	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/engine/service/contact"
)

// One field on every page finds people, rows by their public id or key and records, and goes straight to the only hit.
func TestFind(t *testing.T) {
	t.Parallel()
	b := lived(t, inMemory(t))
	for _, text := range []string{
		`{"id":"c-1","name":"Ada Lovelace","addresses":{"email":"ada@example.org"}}`, `{"id":"c-2","name":"Adam","addresses":{"email":"adam@example.org"}}`,
	} {
		if _, err := b.engine.Contacts().Write(t.Context(), b.ws, upsert.Merge, []contact.Item{contact.Parse([]byte(text), "")}, b.clock.Now(), nil); err != nil {
			t.Fatal(err)
		}
	}
	h := b.handler(t, console.Deps{Guest: "default"})
	if body := get(t, h, "/records").body; !strings.Contains(body, `action="/find"`) || !strings.Contains(body, `id="find"`) {
		t.Error("a page has no search field")
	}
	list := get(t, h, "/deliveries").body
	_, id, _ := strings.Cut(list, `href="/deliveries/d_`)
	delivery, _, _ := strings.Cut("d_"+id, `"`)
	detail := plain(get(t, h, "/deliveries/"+delivery).body)
	_, rest, _ := strings.Cut(detail, "instance i_")
	instance, _, _ := strings.Cut("i_"+rest, " ")
	_, rest, _ = strings.Cut(plain(get(t, h, "/instances/"+instance).body), "key survey:")
	key, _, _ := strings.Cut("survey:"+rest, " ")
	for _, c := range []struct{ q, to string }{
		{"ada@example.org", "/contacts/c-1"},
		{"c-2", "/contacts/c-2"},
		{"ADA L", "/contacts/c-1"},
		{"+964770000-0001", "/contacts/addr:"},
		{delivery, "/deliveries/" + delivery},
		{instance, "/instances/" + instance},
		{key, "/instances/" + instance},
		{"visit", "visit"},
	} {
		a := get(t, h, "/find?q="+strings.NewReplacer("+", "%2B", " ", "+").Replace(c.q))
		if a.status != http.StatusSeeOther || !strings.Contains(a.header.Get("Location"), c.to) {
			t.Errorf("%q: %d %s, want %s\n%s", c.q, a.status, a.header.Get("Location"), c.to, plain(a.body))
		}
	}
	if a := get(t, h, "/find?q=ada"); a.status != http.StatusOK || !strings.Contains(a.body, "/contacts/c-1") || !strings.Contains(a.body, "/contacts/c-2") || !strings.Contains(a.body, `value="ada"`) {
		t.Errorf("two are called ada: %d\n%s", a.status, plain(a.body))
	}
	for _, q := range []string{"", "nothing", "d_" + strings.Repeat("0", 26), "<script>"} {
		if a := get(t, h, "/find?q="+q); a.status != http.StatusOK || strings.Contains(a.body, "<script>") {
			t.Errorf("%q: status %d", q, a.status)
		}
	}
	if body := get(t, h, "/contacts?q=lovelace").body; !strings.Contains(body, "nobody's name or id begins with it") {
		t.Error("a word in the midst of a name is found")
	}
	if body := get(t, h, "/contacts?q=ada").body; !strings.Contains(body, "Adam") || !strings.Contains(body, "Lovelace") || strings.Contains(body, "+964") {
		t.Errorf("contacts: %s", plain(body))
	}
}

// A text that no row can hold, which no form sends, leads nowhere on every page that looks for one, and is no failure of the page.
func TestTextsThatNothingHas(t *testing.T) {
	t.Parallel()
	b := setup(t, inMemory(t))
	h := b.handler(t, console.Deps{Guest: "default"})
	for _, text := range []string{"%00", "a%ffb"} {
		for _, path := range []string{
			"/throttles?after=", "/deliveries?workflow=", "/find?q=", "/contacts?q=", "/instances?workflow=", "/records/", "/contacts/", "/groups/", "/workflows/", "/topics/",
			"/responses.csv?workflow=",
		} {
			if got := get(t, h, path+text); got.status != http.StatusNotFound {
				t.Errorf("%s%s is answered %d", path, text, got.status)
			}
		}
	}
}
