package loader_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestMistakesOfAudiences shows what is said of audiences that would reach nobody.
func TestMistakesOfAudiences(t *testing.T) {
	t.Parallel()
	class := "---\nrecord_type: kiosk\nfields: {name: text, owner: contact}\n"
	for _, tc := range []struct {
		name, text string
		want       []string
	}{
		{"children", onRecord("    when: record.name == \"x\"\n    audience: {to: record.children}\n") + class, nil},
		{"children of children", onRecord("    when: record.children.children.name == \"x\"\n    audience: {to: record.children}\n") + class, []string{
			`6:35 expression: children of children are not read | in: record.children.children.name == "x"`,
		}},
		{"a field of the owner", onRecord("    when: record.owner.name == \"x\"\n    audience: {to: record.owner}\n") + strings.Replace(class, "owner: contact", "guard: contact", 1), []string{
			"6:23 expression: an owner has kind and id, and no field 'name' | in: record.owner.name == \"x\"\nask about record.owner.id; the fields of a contact are read where the contact gets the message, as contact.name",
		}},
		{"more than three parents", onRecord("    when: record.parent.parent.parent.parent.name == \"x\"\n    audience: {to: record.children}\n") + class, []string{
			`6:45 expression: this follows more than 3 records, from one to the next | in: record.parent.parent.parent.parent.name == "x"`,
		}},
		{"a whole parent as a text", strings.Replace(onRecord("    when: record.name == \"x\"\n    audience: {to: record.parent}\n")+class, "Hello", "\"{{ record.parent }} {{ record.children }} {{ record.parent.name }}\"", 1), []string{
			"13:15 template: record.parent is one or several whole records | write a field, such as record.parent.name, or {% for child in record.children %}{{ child.name }}{% endfor %}",
			"13:35 template: record.children is one or several whole records | write a field, such as record.parent.name, or {% for child in record.children %}{{ child.name }}{% endfor %}",
		}},
		{"owner that is a field", onRecord("    when: record.name == \"x\"\n    audience: {to: record.owner}\n") + class, nil},
		{"children of an open type", onRecord("    when: record.name == \"x\"\n    audience: {to: record.children}\n"), nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, said(load(tc.text))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestMistakesOfData shows what is said of what a message reads.
func TestMistakesOfData(t *testing.T) {
	t.Parallel()
	report := func(data, text string) string {
		return "workflow: w\ntype: report\ntriggers:\n  - schedule: {every: 1d, at: \"07:00\"}\naudience: {everyone: true}\nchannel: sms\nmessage:\n  data:\n" +
			data + "  sms:\n    text: '" + text + "'\n---\nchannel: sms\nprovider: memory\n---\nrecord_type: class\nfields: {name: text, booked: number, centre: record(centre)}\n" +
			"---\nrecord_type: centre\nfields: {name: text}\n"
	}
	for _, tc := range []struct {
		name, text string
		want       []string
	}{
		{"groups", report("    a: {records: class, group_by: record.centre.name, sum: record.booked, count: true, order_by: sum desc, limit: 3}\n", "{% for r in data.a %}{{ r.group }} {{ r.sum }}{% endfor %} {{ data.a.size }} {{ data.a[0].sum }}"), nil},
		{"a sum", report("    a: {records: class, sum: record.booked, where: record.name == contact.id}\n", "{{ data.a.sum }}"), nil},
		{"a document", report("    a: {http: https://example.org/x.json, timeout: 3s}\n", "{{ data.a.b.c }}"), nil},
		{"fields", report("    a: {records: class, where: record.nmae == \"x\", sum: record.name, group_by: record.centre.nmae}\n", "{{ data.a.size }}"), []string{
			"9:38 expression: undefined field 'nmae' | in: record.nmae == \"x\"\ndid you mean name?",
			"9:57 expression: this must be a number, and is a text | in: record.name",
			"9:93 expression: records of type centre have no field 'nmae' | in: record.centre.nmae\ndid you mean name?",
		}},
		{"names in texts", report("    a: {records: class, count: true}\n    b: {records: class}\n", "{{ data.c }} {{ data.a.sum }} {{ data.b.name }} {{ dta }}"), []string{
			`12:15 template: the message has no data named "c" | there is a and b`,
			`12:28 template: data.a has no "sum" | it has count`,
			`12:45 template: data.b is a list of rows | {% for row in data.b %} … {{ row.name }} … {% endfor %}`,
			`12:63 template: there is no variable "dta" | did you mean data?`,
		}},
		{"neither", report("    a: {limit: 3}\n", "x"), []string{
			`9:8 missing: nothing says what data.a reads | records: the type of records to read, or http: where a JSON document is`,
		}},
		{"both", report("    a: {records: class, http: https://example.org}\n", "x"), []string{
			`9:31 invalid: records and http exclude each other | write data of another name for each`,
		}},
		{"addresses", report("    a: {http: ftp://example.org}\n    b: {http: https://u:p@example.org}\n    c: {http: https://example.org, where: \"true\", timeout: 2m}\n", "x"), []string{
			`9:15 invalid: this is no http or https address | such as https://rates.example.org/today.json`,
			`10:15 invalid: an address holds no user or password here | serve the document without, in a network that outbound_allow names`,
			`11:43 invalid: where is for records | texts choose of a document what they show`,
			`11:60 invalid: a document is waited for no longer than 1m`,
		}},
		{"without effect", report("    a: {records: class, sum: record.booked, order_by: sum, limit: 2}\n    b: {records: class, group_by: record.name}\n    c: {records: class, timeout: 1s, limit: 2000, count: false}\n", "x"), []string{
			`9:55 invalid: order_by has no effect: data.a is one row | remove it, or write group_by`,
			`9:67 invalid: limit has no effect: data.a is one row | remove it, or write group_by`,
			`10:35 missing: nothing says what is computed for each group | write count: true, or sum: record.FIELD`,
			`11:34 invalid: timeout is for http | remove it`,
			`11:45 invalid: a text is given 1000 rows at most`,
			`11:45 invalid: limit has no effect: data.c is one row | remove it, or write group_by`,
			`11:58 invalid: count is true, or it is not written | remove it`,
		}},
		{"order", report("    a: {records: class, group_by: record.name, sum: record.booked, order_by: count}\n    b: {records: class, order_by: record.nmae desc}\n", "x"), []string{
			`9:78 invalid: "count" is not a column of data.a | it is group or sum, and desc behind it turns the order round`,
			`10:41 expression: undefined field 'nmae' | in: record.nmae
did you mean name?`,
		}},
		{"an unknown type, and a name", report("    a b: {records: clas}\n    c: {records: clas}\n", "x"), []string{
			`9:5 invalid: "a b" is not a name that a text can read | it has letters, digits and _, and does not begin with a digit`,
			`warning 10:18 reference: no record type named "clas" | did you mean class?`,
		}},
		{"no data", strings.Replace(report("    a: {records: class}\n", "{{ data.a }}"), "  data:\n    a: {records: class}\n", "", 1), []string{
			`9:15 template: there is no data here: the message reads none`,
		}},
		{"a template", strings.Replace(report("    a: {records: class}\n", "x"), "  sms:\n    text: 'x'\n", "  template: t\n", 1) + "---\ntemplate: t\nsms:\n  text: \"{{ data.b.size }}\"\n", []string{
			`10:13 template: the message has no data named "b" | there is a`,
		}},
		{"an invitation", strings.Replace(report("    a: {records: class}\n", "x"), "  sms:\n    text: 'x'\n", "  survey: s\n", 1), []string{
			`9:5 invalid: an invitation reads no data | remove it, or write texts with a link of your own`,
		}},
		{"folded", strings.Replace(report("    a: {records: class}\n", "x"), "channel: sms\nmessage", "channel: sms\nlimits: {at_send: fold}\nmessage", 1), []string{
			`7:19 invalid: trigger : at_send: fold does not go with data | a report is read by itself: write at_send: defer`,
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, said(load(tc.text))); diff != "" {
				t.Error(diff)
			}
		})
	}
}
