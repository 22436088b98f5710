package loader_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/carillonhq/carillon/internal/flow"
)

// A trigger's own priority replaces the workflow's. Digests have the last one, unless the definition says otherwise, and so has no other message.
func TestPriority(t *testing.T) {
	t.Parallel()
	const more = "triggers:\n  - {id: at-once, event: item.published, audience: {topics: matched, frequency: immediate}, message: {sms: {text: x}}%s}\n" +
		"  - {id: weekly, schedule: {every: 1w, days: [mon], at: \"09:00\", period: 1w}, audience: {topics: all, frequency: weekly}%s}\n" +
		"channel: sms\nmessage: {sms: {text: \"{%% for s in digest.sections %%}{{ s.topic.title }}{%% endfor %%}\"}}\n---\nchannel: sms\nprovider: memory\n"
	for name, tc := range map[string]struct {
		workflow, first, second string
		want                    []flow.Priority
	}{
		"nothing is said":      {"", "", "", []flow.Priority{flow.Transactional, flow.Digest}},
		"of the workflow":      {"priority: immediate\n", "", "", []flow.Priority{flow.Immediate, flow.Immediate}},
		"of a trigger":         {"priority: immediate\n", ", priority: urgent", ", priority: transactional", []flow.Priority{flow.Urgent, flow.Transactional}},
		"of one trigger alone": {"", ", priority: immediate", "", []flow.Priority{flow.Immediate, flow.Digest}},
	} {
		set := bundleOf(t, yaml("workflow: news\ntype: digest\n"+tc.workflow+fmt.Sprintf(more, tc.first, tc.second))).Set
		var got []flow.Priority
		for _, trigger := range set.Workflow("news").Trigger {
			got = append(got, trigger.Priority)
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}
