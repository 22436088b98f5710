// Package key makes the keys by which the engine recognises occasions and messages that it has handled before (docs/concepts/keys-and-dedup.md).
//
// The key of an instance consists of the workflow and the occasion. Whether the same event or condition may make another instance depends
// only on the parts of the key. A delivery's key adds the contact and the channel, and a provider's idempotency key adds the step. The
// package also makes the hashes and public ids that depend on a workspace's secret.
//
// Invariants:
//   - Different occasions never share a key, and an occasion always has the same key. Every part is escaped, so that a key can be read
//     in only one way.
//   - No random value, display text, recipient or template is part of an instance's key.
//   - The key of an occasion never changes between versions: TestCorpus makes the keys of testdata/corpus.json again.
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

// AnyWorkflow takes the place of the workflow in the key of an occasion that is one for the whole workspace (product decision 39).
const AnyWorkflow = "*"

// The texts before the number of a retry and before a zone.
const (
	retryMark = ":retry:"
	zoneMark  = ":z:"
)

// Event returns the key for an event with that dedup hash (C8). The trigger is not part of it: two triggers of one workflow with equal
// recipes make one occasion (product decision 39).
func Event(workflowType, workflow, hash string) Instance {
	return name(kind(workflowType), workflow, "event", hash)
}

// kind returns the first part of a key: the workflow's type, with the source's word for reports (B14).
func kind(workflowType string) string {
	if workflowType == "report" {
		return "report-subscription"
	}
	return workflowType
}

// name builds a key: the escaped parts with colons between them. Different lists of parts give different keys.
func name(parts ...string) Instance {
	for i, part := range parts {
		parts[i] = escape(part, ":")
	}
	return Instance(strings.Join(parts, ":"))
}

// Retry returns the n-th further key of the same occasion, for an occasion whose key was freed or that a person sends again (product decision
// 64). A retry of a retry is a retry of the occasion's first key, which Retry returns for 0.
func (k Instance) Retry(n int) Instance {
	base, _ := k.Base()
	if n < 1 {
		return base
	}
	return base + Instance(retryMark+strconv.Itoa(n))
}

// Base returns the occasion's first key, and the number of the retry; 0 if k is the first key.
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

// Delivery returns the key for the delivery of this occasion to one contact on one channel, which is written kind:name. The zone is not
// part of it: a contact who moves from one zone to another gets one message of the occasion (R15).
func (k Instance) Delivery(contactExtID, channel string) Delivery {
	return k.About(contactExtID, "", channel)
}

// About is Delivery for a message about one topic of the contact, whose others have messages of their own; empty: it is about all of them.
func (k Instance) About(contactExtID, topic, channel string) Delivery {
	// The parts are separated by bars, so the channel keeps its colon.
	who := string(k.withoutZone()) + "|" + escape(contactExtID, ":")
	if topic != "" {
		who += "|" + escape(topic, ":")
	}
	return Delivery(who + "|" + escape(channel, ""))
}

// withoutZone removes the part :z:zone, which is at the end or before the retry. Names of zones begin with a capital letter; no other
// part that ends a key after a part z does.
func (k Instance) withoutZone() Instance {
	if !strings.Contains(string(k), zoneMark) { // nearly all keys
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

// On returns the key for the delivery of the same occasion to the same contact on another channel.
func (d Delivery) On(channel string) Delivery {
	return d[:strings.LastIndexByte(string(d), '|')+1] + Delivery(escape(channel, ""))
}

// Turn returns the key of the n-th further message of the session that a delivery began. No channel is a number, so no other delivery has it.
func (d Delivery) Turn(n int) Delivery { return d + Delivery("|"+strconv.Itoa(n)) }

// Idempotency returns the idempotency key that a provider gets with one step of a delivery, 1 being the message itself. It is the same in
// every attempt of the step (P3).
func (d Delivery) Idempotency(step int) string { return Hash(string(d) + "|" + strconv.Itoa(step)) }

// firstWorkspace is the number of the first workspace of every database.
const firstWorkspace = 1

// IdempotencyIn is Idempotency with the workspace. Workspaces may share an account of a provider, and two workspaces may have equal
// delivery keys for different messages. In the first workspace the result is that of Idempotency. No two results are equal, because no
// delivery key begins with a number and a bar.
func (d Delivery) IdempotencyIn(workspace int64, step int) string {
	if workspace == firstWorkspace {
		return d.Idempotency(step)
	}
	return Delivery(strconv.FormatInt(workspace, 10) + "|" + string(d)).Idempotency(step)
}

// escape writes a part with percent signs, bars, the control characters of ASCII and the bytes of also as %XX, so that it contains no
// separator of keys. All other bytes are unchanged: letters keep their case, and nothing is normalised.
func escape(part, also string) string {
	const hexDigits = "0123456789ABCDEF"
	var b []byte
	clean := 0 // the bytes before this offset are in b already
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

// unescape returns the part that escape has written.
func unescape(part string) string {
	if !strings.Contains(part, "%") {
		return part
	}
	b := make([]byte, 0, len(part))
	for i := 0; i < len(part); i++ {
		if part[i] == '%' && i+2 < len(part) {
			if c, err := strconv.ParseUint(part[i+1:i+3], 16, 8); err == nil {
				b = append(b, byte(c))
				i += 2
				continue
			}
		}
		b = append(b, part[i])
	}
	return string(b)
}

func special(c byte, also string) bool {
	for i := range len(also) {
		if c == also[i] {
			return true
		}
	}
	return c == '%' || c == '|' || c < ' ' || c == 0x7f
}

// reserved returns the words that have a meaning in keys, which no name may be.
func reserved() []string {
	return []string{"once", "event", "context", "threshold", "scheduled", "manual", "retry"}
}

// maxSlug bounds the name of a workflow, trigger or record type, in bytes.
const maxSlug = 100

// Slug returns an error unless s can be the name of a workflow, a trigger or a record type: [A-Za-z0-9._-]+ and not a reserved word.
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
