// Package key makes the names by which the engine recognises what it has done before (model.md §4).
//
// An instance is named by what it stands for: the workflow and the occasion. The key is the policy: whether the
// same thing may happen again is only a question of what goes into its name. A delivery adds the person and the
// channel, a provider's idempotency key the step. The package also makes the hashes and public ids that belong to
// a workspace's secret.
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

const retryMark = ":retry:"

// Event names the occasion of an event with that dedup hash (C8). The trigger is no part of it: two triggers of
// one workflow with equal recipes make one occasion (decision 39).
func Event(workflowType, workflow, hash string) Instance {
	if workflow != AnyWorkflow {
		workflow = escape(workflow)
	}
	return Instance(kind(workflowType) + ":" + workflow + ":event:" + escape(hash))
}

// kind is the first part of a key: the workflow's type, with the source's word for reports (B14).
func kind(workflowType string) string {
	if workflowType == "report" {
		return "report-subscription"
	}
	return escape(workflowType)
}

// Retry is the n-th name of the same occasion, for one that was freed or is sent again by a person (decision 64).
// The names do not stack: the retry of a retry counts on from the occasion's first name.
func (k Instance) Retry(n int) Instance {
	base, _ := k.Base()
	return base + Instance(retryMark+strconv.Itoa(n))
}

// Base returns the occasion's first name, and which retry k is; 0 for the first name itself.
func (k Instance) Base() (Instance, int) {
	at := strings.LastIndex(string(k), retryMark)
	if at < 0 {
		return k, 0
	}
	n, err := strconv.Atoi(string(k[at+len(retryMark):]))
	if err != nil || n < 1 || strconv.Itoa(n) != string(k[at+len(retryMark):]) {
		return k, 0
	}
	return k[:at], n
}

// Delivery names the delivery of this occasion to one contact on one channel (kind:name).
func (k Instance) Delivery(contactExtID, channel string) Delivery {
	return Delivery(string(k) + "|" + escape(contactExtID) + "|" + channel)
}

// Idempotency is the key under which a provider gets one step of a delivery, 1 being the message itself. It is
// the same in every attempt of that step (P3).
func (d Delivery) Idempotency(step int) string { return Hash(string(d) + "|" + strconv.Itoa(step)) }

// escape makes a part that holds none of the grammar's separators. Everything else stays as given: no case is
// folded and nothing is normalised.
func escape(part string) string {
	clean := true
	for i := range len(part) {
		if special(part[i]) {
			clean = false
			break
		}
	}
	if clean {
		return part
	}
	const hex = "0123456789ABCDEF"
	b := make([]byte, 0, len(part)+8)
	for i := range len(part) {
		if c := part[i]; special(c) {
			b = append(b, '%', hex[c>>4], hex[c&15])
		} else {
			b = append(b, c)
		}
	}
	return string(b)
}

func special(c byte) bool { return c == '%' || c == ':' || c == '|' || c < ' ' || c == 0x7f }

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
