package key

import (
	"strconv"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
)

// Date returns the key for a date of a record: it has the day that the occasion is about, and how long before that day the occasion is
// (B12). Anchored is the same for an instant.
func Date(workflowType, workflow, recordType, recordID, trigger string, target civil.Date, offset civil.Duration) Instance {
	return name(kind(workflowType), workflow, recordType, recordID, trigger, target.String(), before(offset))
}

// Anchored is Date for an anchor that is an instant.
func Anchored(workflowType, workflow, recordType, recordID, trigger string, target time.Time, offset civil.Duration) Instance {
	return name(kind(workflowType), workflow, recordType, recordID, trigger, basic(target), before(offset))
}

// OfDate reports whether a key was made by Date.
func (k Instance) OfDate() bool {
	_, err := civil.ParseDate(k.RoundDate())
	return err == nil
}

// before writes an offset in the form of a key: whole days before the target as a number, other lengths in their canonical form. An
// offset after the target is negative (B12).
func before(offset civil.Duration) string {
	ahead := civil.Duration{Months: -offset.Months, Days: -offset.Days, Clock: -offset.Clock}
	if ahead.Months == 0 && ahead.Clock == 0 {
		return strconv.Itoa(ahead.Days)
	}
	return ahead.String()
}

// Words in the key of a threshold, as the source system writes them (B16).
const (
	anyThreshold = "any"
	scopeAll     = "all"
	// OncePerDay is the policy with a day as its scope.
	OncePerDay = "OncePerDay"
)

// Threshold returns the key for a metric that has reached a threshold. The policy, and the scope within which the trigger fires once, are
// part of the key, and only the key enforces them (product decision 25). An empty threshold stands for any threshold, an empty scope for the
// whole life of the record.
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

// ThresholdOf returns the threshold of a key that Threshold has made; empty if it stands for any threshold, or if k is another key.
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

// Lasting returns the key of a threshold that fires once a day without the day, and any other key unchanged.
func Lasting(k Instance) Instance {
	const mark = ":" + OncePerDay + ":"
	if i := strings.LastIndex(string(k), mark); i >= 0 && strings.Contains(string(k), thresholdMark) {
		return k[:i+len(mark)]
	}
	return k
}

// Once returns the key for a condition without a metric that fires once in the life of a record.
func Once(workflowType, workflow, recordType, recordID, trigger string) Instance {
	return name(kind(workflowType), workflow, recordType, recordID, trigger, "once")
}

// InZone returns the key of an occasion's row for the contacts in one zone (R15).
func (k Instance) InZone(zone string) Instance {
	base, n := k.Base()
	return (base + Instance(zoneMark+escape(zone, ":"))).Retry(n)
}

// Everywhere returns the key of the occasion to which a row for one zone belongs.
func (k Instance) Everywhere() Instance { return k.withoutZone() }

// Zone returns the zone of a row's key; empty for the key of an occasion. Names of zones contain no character that keys escape.
func (k Instance) Zone() string {
	whole, _ := k.Everywhere().Base()
	base, _ := k.Base()
	return strings.TrimPrefix(string(base[len(whole):]), zoneMark)
}
