package flow

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// Sends counts the messages that a workflow has sent, by the minute (max_sends_per_hour): pairs of a minute since 1970 UTC and the number of
// messages in it, the earliest first.
//
// A message counts until its minute is more than an hour old. So it counts for 60 to 61 minutes, and no hour has more messages than the minutes that
// touch it. Minutes ahead count too: a clock that is set back lets nothing through that it would not have let through before.
type Sends [][2]int64

// sendMinutes is how many minutes before the present one count.
const sendMinutes = 60

func minuteOf(at time.Time) int64 { return at.Unix() / int64(time.Minute/time.Second) }

// Within is how many messages count at an instant.
func (s Sends) Within(now time.Time) (n int) {
	for _, m := range s {
		if m[0] >= minuteOf(now)-sendMinutes {
			n += int(m[1])
		}
	}
	return n
}

// Add counts one more message. Minutes that count no more are dropped.
func (s Sends) Add(now time.Time) Sends {
	minute := minuteOf(now)
	out := slices.DeleteFunc(slices.Clone(s), func(m [2]int64) bool { return m[0] < minute-sendMinutes })
	i, found := slices.BinarySearchFunc(out, minute, func(m [2]int64, at int64) int { return int(m[0] - at) })
	if !found {
		out = slices.Insert(out, i, [2]int64{minute, 0})
	}
	out[i][1]++
	return out
}

// ParseSends reads what String writes.
func ParseSends(text string) (s Sends, err error) {
	if err = json.Unmarshal([]byte(text), &s); err != nil {
		return nil, fmt.Errorf("a count of sends: %w", err)
	}
	return s, nil
}

// String returns the text by which they are stored, such as [[29645640,12]].
func (s Sends) String() string {
	if s == nil {
		return "[]"
	}
	text, err := json.Marshal([][2]int64(s))
	if err != nil { // of numbers
		panic(err)
	}
	return string(text)
}
