package app

import (
	"math"
	"testing"
)

func TestTuneMemory(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name           string
		memory         int64
		env            map[string]string
		percent, limit int64
	}{
		{"a server", 8 << 30, nil, 400, 2 << 30},
		{"a small machine keeps Go's rule", 512 << 20, nil, 0, 0},
		{"unknown", 0, nil, 0, 0},
		{"GOGC was set", 8 << 30, map[string]string{"GOGC": "100"}, 0, 0},
		{"GOMEMLIMIT was set", 8 << 30, map[string]string{"GOMEMLIMIT": "1GiB"}, 400, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var percent, limit int64
			tune(tt.memory, func(name string) string { return tt.env[name] }, func(p int) int { percent = int64(p); return 100 },
				func(l int64) int64 { limit = l; return math.MaxInt64 })
			if percent != tt.percent || limit != tt.limit {
				t.Errorf("got %d %% and %d bytes, want %d %% and %d", percent, limit, tt.percent, tt.limit)
			}
		})
	}
	if got := total([]byte("MemFree:  1 kB\nMemTotal:        2048 kB\n")); got != 2<<20 {
		t.Errorf("MemTotal is %d", got)
	}
	if got := total([]byte("nothing")); got != math.MaxInt64 {
		t.Errorf("without MemTotal: %d", got)
	}
}
