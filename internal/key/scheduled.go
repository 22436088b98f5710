package key

import (
	"strconv"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
)

// Scheduled returns the key for an occasion of a schedule that is identified by an instant: the start of a report's period, else the
// instant at which it is due (B14, product decision 26). The trigger is empty if the workflow has a single trigger without a name.
func Scheduled(workflowType, workflow, trigger string, at time.Time) Instance {
	return calendar(workflowType, workflow, trigger, "scheduled", basic(at))
}

// Day returns the key for an occasion of a schedule that is not a report: it has the local date and, if there are several a day, the
// time.
func Day(workflowType, workflow, trigger string, date civil.Date, several bool, at civil.TimeOfDay) Instance {
	occurrence := date.String()
	if several {
		clock := at.String()
		occurrence += "T" + clock[:2] + clock[3:5]
	}
	return calendar(workflowType, workflow, trigger, occurrence)
}

// RestOf returns the key for the digest of what a person has not got yet when they begin to get each item of a topic at once. subscription is the row id
// of the subscription that has begun.
func RestOf(workflowType, workflow, trigger string, subscription int64) Instance {
	return calendar(workflowType, workflow, trigger, "rest", strconv.FormatInt(subscription, 10))
}

func calendar(workflowType, workflow, trigger string, occurrence ...string) Instance {
	parts := []string{kind(workflowType), workflow}
	if trigger != "" {
		parts = append(parts, trigger)
	}
	return name(append(parts, occurrence...)...)
}

// Manual returns the key for a run of a workflow that a person starts. Two requests with the same run id are the same run (B15).
func Manual(workflowType, workflow, runID string) Instance {
	return name(kind(workflowType), workflow, "manual", runID)
}
