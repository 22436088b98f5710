// Package key makes the names by which the engine recognises what it has done before (model.md §4).
//
// The key of an instance consists of the workflow and the occasion. The key is the policy: whether the same thing may happen again only
// depends on the parts of the key. A delivery's key adds the contact and the channel, and a provider's idempotency key adds the step.
// The package also makes the hashes and public ids that depend on a workspace's secret.
//
// Invariants:
//   - Different occasions never share a key, and the same occasion always has the same one: every part is escaped,
//     so that the grammar can be read in one way only.
//   - No random value, display text, recipient or template is part of an instance's key.
//   - A key that was ever made stays as it is: testdata/corpus.json is replayed for ever.
package key

import (
	"fmt"
	"strconv"
	"strings"
)

// Instance is the key of an instance, such as survey:csi-gr:event:6383….
type Instance string

// Delivery is the key of a delivery: instance|contact|channel.
type Delivery string

// AnyWorkflow stands in the place of the workflow where an occasion is one for the whole workspace (decision 39).
const AnyWorkflow = "*"

// The prefixes of the number of a retry and of a zone.
const (
	retryMark = ":retry:"
	zoneMark  = ":z:"
)

// Event names the occasion of an event with that dedup hash (C8). The trigger is no part of it: two triggers of
// one workflow with equal recipes make one occasion (decision 39).
func Event(workflowType, workflow, hash string) Instance {
	return name(kind(workflowType), workflow, "event", hash)
}

// kind is the first part of a key: the workflow's type, with the source's word for reports (B14).
func kind(workflowType string) string {
	if workflowType == "report" {
		return "report-subscription"
	}
	return workflowType
}

// name builds every key: the parts, escaped, with colons between them. Different lists of parts give different keys.
func name(parts ...string) Instance {
	for i, part := range parts {
		parts[i] = escape(part, ":")
	}
	return Instance(strings.Join(parts, ":"))
}

// Retry is the n-th further name of the same occasion, for one that was freed or is sent again by a person
// (decision 64). The names do not stack: the retry of a retry is one of the occasion's first name, which is what 0
// stands for.
func (k Instance) Retry(n int) Instance {
	base, _ := k.Base()
	if n < 1 {
		return base
	}
	return base + Instance(retryMark+strconv.Itoa(n))
}

// Base returns the occasion's first name, and which retry k is; 0 for the first name itself.
func (k Instance) Base() (Instance, int) {
	at := strings.LastIndex(string(k), retryMark)
	if at < 0 {
		return k, 0
	}
	number := string(k[at+len(retryMark):])
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 || strconv.Itoa(n) != number {
		return k, 0
	}
	return k[:at], n
}

// Delivery names the delivery of this occasion to one contact on one channel, written kind:name. The zone is no
// part of it: a contact who moves from one zone to another gets the occasion once (R15).
func (k Instance) Delivery(contactExtID, channel string) Delivery {
	// What parts a delivery's key is the bar: the channel keeps its colon.
	return Delivery(string(k.withoutZone()) + "|" + escape(contactExtID, ":") + "|" + escape(channel, ""))
}

// withoutZone takes the part :z:zone out, which stands at the end or before the retry. The names of zones, and
// nothing else that ends a key behind a part z, begin with a capital letter.
func (k Instance) withoutZone() Instance {
	if !strings.Contains(string(k), zoneMark) { // as nearly all keys: nothing to take apart
		return k
	}
	base, n := k.Base()
	at := strings.LastIndex(string(base), zoneMark)
	if at < 0 {
		return k
	}
	zone := string(base[at+len(zoneMark):])
	if zone == "" || zone[0] < 'A' || zone[0] > 'Z' || strings.Contains(zone, ":") {
		return k
	}
	return base[:at].Retry(n)
}

// On is the delivery of the same occasion to the same contact on another channel.
func (d Delivery) On(channel string) Delivery {
	return d[:strings.LastIndexByte(string(d), '|')+1] + Delivery(escape(channel, ""))
}

// Idempotency is the key under which a provider gets one step of a delivery, 1 being the message itself. It is
// the same in every attempt of that step (P3).
func (d Delivery) Idempotency(step int) string { return Hash(string(d) + "|" + strconv.Itoa(step)) }

// firstWorkspace is the number of the workspace that every database begins with.
const firstWorkspace = 1

// IdempotencyIn is Idempotency in a workspace. Workspaces may share an account of a provider, and two of them may have equal
// delivery keys: their messages are not one. In the first workspace it is Idempotency; no delivery key begins with a number and a
// bar.
func (d Delivery) IdempotencyIn(workspace int64, step int) string {
	if workspace == firstWorkspace {
		return d.Idempotency(step)
	}
	return Delivery(strconv.FormatInt(workspace, 10) + "|" + string(d)).Idempotency(step)
}

// escape writes a part with percent signs, bars, the controls of ASCII and the bytes of also as %XX, so that it
// holds none of the grammar's separators. Everything else stays as given: no case is folded and nothing is
// normalised.
func escape(part, also string) string {
	const hexDigits = "0123456789ABCDEF"
	var b []byte
	clean := 0 // the bytes before clean are in b already
	for i := range len(part) {
		if c := part[i]; special(c, also) {
			b = append(append(b, part[clean:i]...), '%', hexDigits[c>>4], hexDigits[c&15])
			clean = i + 1
		}
	}
	if clean == 0 {
		return part
	}
	return string(append(b, part[clean:]...))
}

func special(c byte, also string) bool {
	for i := range len(also) {
		if c == also[i] {
			return true
		}
	}
	return c == '%' || c == '|' || c < ' ' || c == 0x7f
}

// reserved are the words of the grammar, which no name may be.
func reserved() []string {
	return []string{"once", "event", "context", "threshold", "scheduled", "manual", "retry"}
}

// maxSlug is the longest name of a workflow, trigger or record type in bytes.
const maxSlug = 100

// Slug checks the name of a workflow, a trigger or a record type: [A-Za-z0-9._-]+ and none of the grammar's words.
func Slug(s string) error {
	switch {
	case s == "":
		return fmt.Errorf("a name is missing")
	case len(s) > maxSlug:
		return fmt.Errorf("the name is longer than %d characters", maxSlug)
	}
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '_', c == '-':
		default:
			return fmt.Errorf("%q is not a name: letters, digits, - _ and . only", s)
		}
	}
	for _, word := range reserved() {
		if s == word {
			return fmt.Errorf("%q is a word of the engine's own keys; take another name", s)
		}
	}
	return nil
}
