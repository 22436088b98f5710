package demo

import "testing"

func TestReadHost(t *testing.T) {
	t.Parallel()
	const memory = "MemTotal:        8000000 kB\nMemFree:  100 kB\nMemAvailable:    5000000 kB\nHugePages_Total:       0\n"
	for _, test := range []struct {
		name, memory, load string
		want               host
		ok                 bool
	}{
		{"as it is", memory, "0.52 0.40 0.31 3/412 9876\n", host{memory: 37.5, tasks: 412}, true},
		{"no memory", "", "0.52 0.40 0.31 3/412 9876\n", host{tasks: 412}, false},
		{"no tasks", memory, "0.52 0.40 0.31\n", host{}, false},
		{"other words", memory, "0.52 0.40 0.31 3:412 9876\n", host{memory: 37.5}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var got host
			if ok := got.parse(test.memory, test.load); ok != test.ok || ok && got != test.want {
				t.Errorf("got %+v %v, want %+v %v", got, ok, test.want, test.ok)
			}
		})
	}
	if h := (host{memory: 37.5, tasks: 412}); h.memoryLimit() != 18 || h.tasksLimit() != 206 {
		t.Errorf("limits %d and %d", h.memoryLimit(), h.tasksLimit())
	}
}
