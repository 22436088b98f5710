package console

import (
	"fmt"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/reason"
)

// groupedFrom is how many equal entries of the journal are shown as one.
const groupedFrom = 3

// batch is what one row of the journal stands for: the newest of equal entries, how many there are, and since when.
type batch struct {
	journal.Entry
	n     int
	since time.Time
}

// sameRow identifies entries that differ only in their message: what happened, why, and on which channel or in which workflow.
type sameRow struct {
	what              journal.What
	why               reason.Reason
	channel, workflow string
}

// grouped joins equal entries, the newest first. Sent messages and entries without a reason stay single.
func grouped(entries []journal.Entry, most int) []batch {
	counts := map[sameRow]int{}
	of := func(e journal.Entry) (sameRow, bool) {
		if e.Reason == "" || e.Reason == reason.Delivered {
			return sameRow{}, false
		}
		row := sameRow{e.What, e.Reason, e.Channel, e.Workflow}
		if e.Channel != "" {
			row.workflow = "" // a channel is down for every workflow
		}
		return row, true
	}
	for _, e := range entries {
		if row, ok := of(e); ok {
			counts[row]++
		}
	}
	place := map[sameRow]int{}
	var out []batch
	for _, e := range entries {
		row, ok := of(e)
		if !ok || counts[row] < groupedFrom {
			out = append(out, batch{e, 1, e.At})
			continue
		}
		if i, there := place[row]; there {
			out[i].n++
			out[i].since = e.At
			continue
		}
		place[row] = len(out)
		out = append(out, batch{e, 1, e.At})
	}
	return out[:min(len(out), most)]
}

// batchLine is the row of several equal entries.
func (v visit) batchLine(b batch) line {
	l := v.line(b.Entry)
	if b.n == 1 {
		return l
	}
	where := b.Channel
	if where == "" {
		where = b.Workflow
	}
	l.what, l.to, l.detail = fmt.Sprintf("%d × %s", b.n, words(string(b.Reason))), "", ""
	if where != "" {
		l.what += ", " + channelName(where)
	}
	l.why = b.Reason.Sentence() + " Since " + strings.TrimSuffix(v.short(b.since), ":00") + "."
	l.href = ""
	switch {
	case b.Delivery != 0:
		l.href = listAt("/deliveries", "reason", string(b.Reason), "channel", b.Channel, "workflow", workflowOf(b))
	case b.Instance != 0:
		l.href = listAt("/instances", "reason", string(b.Reason), "workflow", b.Workflow)
	case b.Workflow != "":
		l.href = listAt("/decisions", "reason", string(b.Reason), "workflow", b.Workflow)
	}
	l.id = "batch " + l.what[strings.Index(l.what, "×"):] + string(b.What)
	return l
}

func workflowOf(b batch) string {
	if b.Channel != "" {
		return ""
	}
	return b.Workflow
}
