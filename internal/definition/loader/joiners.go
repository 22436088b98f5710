package loader

import (
	"fmt"
	"slices"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/portable"
)

func lateJoiners() []string {
	return []string{string(definition.LateJoin), string(definition.LateSkip), string(definition.LateFresh)}
}

// lateJoiner reads what becomes of people who come into the audience of a course after its first message.
func (r *reader) lateJoiner(f fields, c *definition.Course) {
	n := f.get("late_joiner")
	c.LateJoiner = definition.LateJoiner(r.word(n, "late_joiner", string(definition.LateJoin), lateJoiners()))
	apart := slices.ContainsFunc(r.items(f.get("sequence")), func(item *portable.Node) bool { return item.Get("audience") != nil })
	if c.ByMember() && apart {
		r.invalid(n.Pos, fmt.Sprintf("late_joiner: %s is for a course with one audience: a message of this one has an audience of its own", c.LateJoiner),
			"write the messages for other people as a trigger of their own, or late_joiner: join")
	}
}

// noJoiners refuses late_joiner where there is no course.
func (r *reader) noJoiners(f fields) {
	if n := f.get("late_joiner"); n != nil && n.Kind != portable.Broken {
		r.invalid(n.Pos, "late_joiner is for a course: people who come into its audience after its first message", "remove it")
	}
}
