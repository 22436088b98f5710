package condition

import (
	"fmt"
	"testing"
	"time"
)

// Each entry is an evaluation: the rules and thresholds, the metric, and the thresholds that have been reached for long enough if
// these are fewer than those reached. Want is Over with the numbers of the crossings.
//
// Shows: R10, R11, B36.
func TestCross(t *testing.T) {
	t.Parallel()
	type step struct {
		rules   string
		defined []string
		level   float64
		ripe    []string
		want    string
		moving  bool
	}
	some := func(names ...string) []string { return names }
	for name, c := range map[string]struct {
		fresh bool
		steps []step
	}{
		"first evaluation":          {false, []step{{rules: "r", defined: some("80"), level: 85, want: "map[80:0]"}}},
		"of a new record":           {true, []step{{rules: "r", defined: some("80"), level: 85, want: "map[80:1]"}}},
		"falls and rises":           {true, []step{{"r", some("80"), 85, nil, "map[80:1]", false}, {"r", some("80"), 70, nil, "map[]", false}, {"r", some("80"), 90, nil, "map[80:2]", false}}},
		"one more threshold":        {true, []step{{"r", some("80"), 85, nil, "map[80:1]", false}, {"r", some("70", "80"), 85, nil, "map[70:0 80:1]", false}}},
		"crossed together with it":  {true, []step{{"r", some("80"), 60, nil, "map[]", false}, {"r", some("70", "80"), 75, nil, "map[70:1]", false}}},
		"one that went and came":    {true, []step{{"r", some("80"), 85, nil, "map[80:1]", false}, {"r", some("70"), 85, nil, "map[70:0 80:1]", false}, {"r", some("80"), 85, nil, "map[70:0 80:1]", false}}},
		"it falls while it is gone": {true, []step{{"r", some("80"), 85, nil, "map[80:1]", false}, {"r", some("70"), 75, nil, "map[70:0]", false}, {"r", some("80"), 75, nil, "map[70:0]", false}, {"r", some("80"), 85, nil, "map[70:0 80:2]", false}}},
		"other rules":               {true, []step{{"r", some("80"), 60, nil, "map[]", false}, {"s", some("80"), 85, nil, "map[80:0]", false}, {"s", some("80"), 60, nil, "map[]", false}, {"s", some("80"), 85, nil, "map[80:1]", false}}},
		"not for long enough":       {true, []step{{"r", some("80"), 60, nil, "map[]", false}, {"r", some("80"), 85, []string{}, "map[]", false}, {"r", some("70", "80"), 85, []string{}, "map[70:0]", false}, {"r", some("70", "80"), 85, some("70", "80"), "map[70:0 80:1]", false}}},
		"the last level is unknown": {true, []step{{"r", some("80"), 60, nil, "map[]", true}, {"r", some("80"), 85, nil, "map[80:1]", true}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var a Ahead
			since := map[string]time.Time{}
			for i, l := range c.steps {
				v := Crossing{Rules: l.rules, Fresh: c.fresh && i == 0, Defined: l.defined, Level: &l.level, Moving: l.moving}
				for _, at := range l.defined {
					if below(at, &l.level) {
						v.Met = append(v.Met, at)
					}
				}
				if v.Ripe = l.ripe; l.ripe == nil {
					v.Ripe = v.Met
				}
				a = a.Cross(v, since)
				if got := fmt.Sprint(a.Over); got != l.want || (a.Level == nil) != l.moving {
					t.Fatalf("step %d: over %s, want %s; level %v", i+1, got, l.want, a.Level)
				}
				since = map[string]time.Time{}
				for _, at := range v.Met {
					since[at] = ten
				}
			}
		})
	}
	if a := (Ahead{By: "r", Over: map[string]int{"80": 1}}).Cross(Crossing{Rules: "s", Defined: []string{"80"}, Failed: []string{"80"}}, nil); a.Over["80"] != 1 {
		t.Error("a threshold that cannot be evaluated has ended a crossing")
	}
	if a := (Ahead{By: Afresh}).Cross(Crossing{Rules: "s", Defined: []string{""}, Met: []string{""}, Ripe: []string{""}}, nil); a.Over[""] != 1 {
		t.Error("a record that has come back has crossed nothing")
	}
}
