package engine

import (
	"testing"

	"github.com/carillonhq/carillon/internal/store"
)

// Whatever is due, a stage is woken for it.
func TestEachKindOfWorkHasAStage(t *testing.T) {
	t.Parallel()
	var taken store.Works
	stages := new(Engine).stages()
	for _, s := range stages {
		taken |= s.takes
	}
	for w := range len(store.Due{}) {
		if !taken.Any(store.WorksOf(store.Work(w))) {
			t.Errorf("no stage takes work %d", w)
		}
	}
	var c stageSet
	if c.fill(); len(stages) > 32 {
		t.Fatalf("%d stages have no bit each", len(stages))
	}
	for i := range stages {
		if !c.take(i) || c.take(i) {
			t.Errorf("stage %d is not called once", i)
		}
		c.add(i)
		if !c.take(i) {
			t.Errorf("stage %d is not called again", i)
		}
	}
}
