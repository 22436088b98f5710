package api_test

import (
	"strings"
	"testing"
)

const visitsOfPeople = `
record_type: visit
fields: {who: contact, guard: contact, note: text}
`

// A field of a record that says contact and names nobody is said at the write, in the answer of one record and of many, and as long
// as it is so where the record is shown. It is no refusal: the person may come later.
func TestContactFieldsThatNameNobody(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bundle) {
		b.apply(visitsOfPeople)
		if status, answer := b.ask("PUT", "/v1/contacts/ann", `{"addresses": {"inbox": "ann"}}`); status >= 300 {
			t.Fatal(answer)
		}
		says := func(method, path, body string, want bool) {
			t.Helper()
			status, answer := b.ask(method, path, body)
			if status >= 300 || strings.Contains(answer, `"warnings":["props.who: no contact has the id bob`) != want || strings.Contains(answer, "props.guard") || strings.Contains(answer, "props.note") {
				t.Errorf("%s %s: %d %s", method, path, status, answer)
			}
		}
		says("PUT", "/v1/records/visit/1", `{"props": {"who": "bob", "guard": "ann", "note": "nobody"}}`, true)
		says("PATCH", "/v1/records/visit/1", `{"props": {"note": "x"}}`, true)
		says("POST", "/v1/records", `{"records": [{"type": "visit", "id": "2", "props": {"who": "ann"}}, {"type": "visit", "id": "3", "props": {"who": "bob"}}]}`, true)
		says("PUT", "/v1/records/visit/4", `{"props": {"who": "ann", "guard": "ann"}}`, false)
		says("GET", "/v1/records/visit/1", "", true)
		says("GET", "/v1/records/visit", "", false)
		if page := b.page("/records/visit/1"); strings.Count(page, "names nobody") != 1 {
			t.Errorf("the page of the record:\n%s", page)
		}
		if status, answer := b.ask("PUT", "/v1/contacts/bob", `{"addresses": {"inbox": "bob"}}`); status >= 300 {
			t.Fatal(answer)
		}
		says("GET", "/v1/records/visit/1", "", false)
		says("PATCH", "/v1/records/visit/1", `{"props": {"note": "y"}}`, false)
		if page := b.page("/records/visit/1"); strings.Contains(page, "names nobody") {
			t.Errorf("the page of the record, when the contact exists:\n%s", page)
		}
	})
}
