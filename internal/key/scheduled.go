package key

import (
	"time"

	"github.com/carillonhq/carillon/internal/civil"
)

// Scheduled names an occasion of the calendar by an instant: the start of the period that a report is about, else the
// instant at which it is due (B14, decision 26). The trigger is empty where a workflow has one alone, written without a name.
func Scheduled(workflowType, workflow, trigger string, at time.Time) Instance {
	return calendar(workflowType, workflow, trigger, "scheduled", basic(at))
}

// Day names an occasion of the calendar that is no report: the local date and, where there are several a day, the time.
func Day(workflowType, workflow, trigger string, date civil.Date, several bool, at civil.TimeOfDay) Instance {
	occurrence := date.String()
	if several {
		clock := at.String()
		occurrence += "T" + clock[:2] + clock[3:5]
	}
	return calendar(workflowType, workflow, trigger, occurrence)
}

func calendar(workflowType, workflow, trigger string, occurrence ...string) Instance {
	parts := []string{kind(workflowType), workflow}
	if trigger != "" {
		parts = append(parts, trigger)
	}
	return name(append(parts, occurrence...)...)
}

// Manual names a run of a workflow by hand: the caller's id of it is what makes it the same run (B15).
func Manual(workflowType, workflow, runID string) Instance {
	return name(kind(workflowType), workflow, "manual", runID)
}
