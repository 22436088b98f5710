package key

import (
	"strconv"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
)

// Date names the occasion of a date of a record: the day it is about, and how long before it the occasion is (B12).
// Anchored names that of an instant.
func Date(workflowType, workflow, recordType, recordID, trigger string, target civil.Date, offset civil.Duration) Instance {
	return name(kind(workflowType), workflow, recordType, recordID, trigger, target.String(), before(offset))
}

// Anchored is Date for an anchor that is an instant.
func Anchored(workflowType, workflow, recordType, recordID, trigger string, target time.Time, offset civil.Duration) Instance {
	return name(kind(workflowType), workflow, recordType, recordID, trigger, basic(target), before(offset))
}

// OfDate reports whether an occasion is that of a date of a record, and not of an instant.
func (k Instance) OfDate() bool {
	base, _ := k.Everywhere().Base()
	parts := strings.Split(string(base), ":")
	if len(parts) < 2 {
		return false
	}
	_, err := civil.ParseDate(parts[len(parts)-2])
	return err == nil
}

// before writes an offset as the key has it: the whole days before the target, and other lengths in their canonical form;
// what lies after the target is negative (B12).
func before(offset civil.Duration) string {
	ahead := civil.Duration{Months: -offset.Months, Days: -offset.Days, Clock: -offset.Clock}
	if ahead.Months == 0 && ahead.Clock == 0 {
		return strconv.Itoa(ahead.Days)
	}
	return ahead.String()
}

// Words of a threshold's key, as the source system writes them (B16).
const (
	anyThreshold = "any"
	scopeAll     = "all"
	// OncePerDay is the policy whose scope is a day.
	OncePerDay = "OncePerDay"
)

// Threshold names the occasion of a metric that has reached a threshold. The policy, and the scope within which it fires
// once, are part of the key, which alone enforces it (decision 25). An empty threshold stands for any of them, an empty
// scope for the whole life of the record.
func Threshold(workflowType, workflow, recordType, recordID, trigger, metric, threshold, policy, scope string) Instance {
	if threshold == "" {
		threshold = anyThreshold
	}
	if scope == "" {
		scope = scopeAll
	}
	return name(kind(workflowType), workflow, recordType, recordID, trigger, "threshold", metric, threshold, policy, scope)
}

const thresholdMark = ":threshold:"

// ThresholdOf is the threshold of a key that Threshold has made; empty when it stands for any of them, or there is none.
func ThresholdOf(k Instance) string {
	const after = 4 // metric, threshold, policy, scope
	base, _ := k.withoutZone().Base()
	_, rest, ok := strings.Cut(string(base), thresholdMark)
	parts := strings.Split(rest, ":")
	if !ok || len(parts) != after || parts[1] == anyThreshold {
		return ""
	}
	return parts[1]
}

// Lasting is an occasion that comes once a day without its day; any other as it is.
func Lasting(k Instance) Instance {
	const mark = ":" + OncePerDay + ":"
	if i := strings.LastIndex(string(k), mark); i >= 0 && strings.Contains(string(k), thresholdMark) {
		return k[:i+len(mark)]
	}
	return k
}

// Once names the one occasion that a condition without a metric has in the life of a record.
func Once(workflowType, workflow, recordType, recordID, trigger string) Instance {
	return name(kind(workflowType), workflow, recordType, recordID, trigger, "once")
}

// InZone is the occasion for the people of one zone (R15).
func (k Instance) InZone(zone string) Instance {
	base, n := k.Base()
	return (base + Instance(zoneMark+escape(zone, ":"))).Retry(n)
}

// Everywhere is the occasion of which a row is that of one zone.
func (k Instance) Everywhere() Instance { return k.withoutZone() }

// Zone is the zone of whose people a row is; empty: it is that of an occasion. Names of zones hold nothing that keys escape.
func (k Instance) Zone() string {
	whole, _ := k.Everywhere().Base()
	base, _ := k.Base()
	return strings.TrimPrefix(string(base[len(whole):]), zoneMark)
}
