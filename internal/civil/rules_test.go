package civil

import (
	"testing"
	"time"
)

// Two zones with the same offsets have the same rules, although their names differ; other zones have different rules.
func TestRules(t *testing.T) {
	t.Parallel()
	var z Zones
	for _, name := range []string{"Europe/Berlin", "Europe/Stockholm", "Europe/Lisbon", "Asia/Tokyo", "UTC"} {
		if _, err := z.Load(name); err != nil {
			t.Fatal(err)
		}
	}
	z.Use("Asia/Tokyo", time.FixedZone("", 0))
	rules := z.Rules()
	if rules["Europe/Berlin"] != rules["Europe/Stockholm"] || rules["Asia/Tokyo"] != rules["UTC"] {
		t.Errorf("the same time, other rules: %v", rules)
	}
	if rules["Europe/Berlin"] == rules["Europe/Lisbon"] || rules["Europe/Berlin"] == rules["UTC"] {
		t.Errorf("another time, the same rules: %v", rules)
	}
}
