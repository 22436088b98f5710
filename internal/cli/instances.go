package cli

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/reason"
)

type instancesCmd struct {
	List    listInstancesCmd   `cmd:"" help:"List instances, the newest first."`
	Show    showInstanceCmd    `cmd:"" help:"Show an instance with its deliveries."`
	Cancel  cancelInstanceCmd  `cmd:"" help:"Stop an instance and what has not left of its deliveries."`
	Retry   retryInstanceCmd   `cmd:"" help:"Try an instance at once, or have one that has ended done again."`
	Release releaseInstanceCmd `cmd:"" help:"Let a held instance go on."`
	Forget  forgetCmd          `cmd:"" help:"Free a key, so that the next such event counts as new."`
}

// paging is how much of a list is shown.
type paging struct {
	Limit  limit  `name:"limit" default:"50" placeholder:"N" help:"How many, at most."`
	Cursor string `name:"cursor" placeholder:"CURSOR" help:"Begin after this one; printed when there are more."`
}

// span is the time to which a list is narrowed.
type span struct {
	Since string `name:"since" placeholder:"WHEN" help:"Made at this instant or later, such as 2026-05-14T05:00:00Z, or how long ago: 1d, 6h."`
	Until string `name:"until" placeholder:"WHEN" help:"Made before this instant, written the same way."`
}

// limit is a number of things, at least one.
type limit int

// UnmarshalText reads the number.
func (l *limit) UnmarshalText(text []byte) error {
	n, err := strconv.Atoi(string(text))
	if err != nil || n < 1 {
		return fmt.Errorf("%q is not a number from 1", text)
	}
	*l = limit(n)
	return nil
}

// collect reads as many pages as the limit needs.
func collect[T any](p paging, page func(limit int, cursor string) (client.Page[T], error)) (client.Page[T], error) {
	all := client.Page[T]{Items: []T{}, NextCursor: p.Cursor}
	for {
		next, err := page(min(int(p.Limit)-len(all.Items), client.MaxLimit), all.NextCursor)
		if err != nil {
			return all, err
		}
		all.Items, all.NextCursor = append(all.Items, next.Items...), next.NextCursor
		if all.NextCursor == "" || len(all.Items) >= int(p.Limit) {
			return all, nil
		}
	}
}

// more says how to see the rest.
func (s *session) more(cursor string) {
	if cursor != "" {
		s.note("There are more: --cursor %s", cursor)
	}
}

type listInstancesCmd struct {
	Workflow string `name:"workflow" placeholder:"NAME" help:"Of this workflow."`
	Status   string `name:"status" values:"instance_statuses" placeholder:"STATUS" help:"In this state: ${instance_statuses}."`
	Held     bool   `name:"held" help:"Only those that wait for a person, with since when and why."`
	Event    string `name:"event" placeholder:"ID" help:"Of this event."`
	Record   string `name:"record" placeholder:"TYPE/ID" help:"Of this record."`
	Reason   string `name:"reason" values:"reasons" placeholder:"REASON" help:"With this reason; carillon reasons lists them."`
	Zones    bool   `name:"zones" help:"Each row of an occasion that is due by the zone of each person, instead of the occasion once."`
	span
	paging
	remote
	output
}

// Run lists instances.
func (c *listInstancesCmd) Run(s *session) error {
	page, err := collect(c.paging, func(limit int, cursor string) (client.Page[client.Instance], error) {
		return call(c.remote, func(api *client.Client) (client.Page[client.Instance], error) {
			return api.Instances(s.ctx, client.InstanceQuery{Workflow: c.Workflow, Status: c.Status, Held: c.Held, Event: c.Event, Record: c.Record, Reason: c.Reason, Since: c.Since, Until: c.Until, Zones: c.Zones, Limit: limit, Cursor: cursor})
		})
	})
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(s.Out, page)
	}
	rows := make([][]string, len(page.Items))
	for i, one := range page.Items {
		rows[i] = []string{one.ID, one.Workflow, status(one), c.due(one), one.Reason, one.Key}
		if c.Held {
			rows[i] = []string{one.ID, one.Workflow, status(one), c.due(one), c.at(one.HeldSince), one.HeldFor, one.Key}
		}
	}
	names := []string{"id", "workflow", "status", "due_at", "reason", "key"}
	if c.Held {
		names = []string{"id", "workflow", "status", "due_at", "held_since", "held_for", "key"}
	}
	s.table(names, rows)
	s.more(page.NextCursor)
	return nil
}

// due is when an instance is due; of an occasion that is due by the zone of each person, by the clock of its zones.
func (c *listInstancesCmd) due(one client.Instance) string {
	switch {
	case one.DueLocal == "":
		return c.at(one.DueAt)
	case c.Zones && one.Occasion != "":
		return one.DueLocal + " in its zone"
	case len(one.Zones) == 0:
		return one.DueLocal + " in each zone"
	}
	counts, parts := map[string]int{}, []string{}
	for _, z := range one.Zones {
		counts[zoneStatus(z)]++
	}
	for _, status := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d %s", counts[status], status))
	}
	zones := "zones"
	if len(one.Zones) == 1 {
		zones = "zone"
	}
	return fmt.Sprintf("%s in %d %s (%s)", one.DueLocal, len(one.Zones), zones, strings.Join(parts, ", "))
}

func zoneStatus(z client.Zone) string { return status(client.Instance{Status: z.Status, Held: z.Held}) }

// printZones lists the zones of an occasion.
func (s *session) printZones(o output, zones []client.Zone) {
	if len(zones) == 0 {
		return
	}
	s.title("zones")
	rows := make([][]string, len(zones))
	for i, z := range zones {
		rows[i] = []string{z.Timezone, z.DueLocal, o.at(z.DueAt), zoneStatus(z), z.Reason, z.ID}
	}
	s.table([]string{"zone", "due_local", "due_at", "status", "reason", "id"}, rows)
}

func status(one client.Instance) string {
	if one.Held {
		return one.Status + ",held"
	}
	if !one.CancelledAt.IsZero() && one.Status != "cancelled" {
		return one.Status + ",cancelled"
	}
	return one.Status
}

type showInstanceCmd struct {
	IDs      []string `arg:"" name:"id" help:"The instance's id, or its key; several are shown one after the other."`
	CountAll bool     `name:"count-all" xor:"part" help:"Count all deliveries, and not the first 100,000 alone, which takes longer."`
	Contact  string   `xor:"part" help:"The id of a contact: show the deliveries to them alone, or why a run of a digest made none for them."`
	remote
	output
}

// Help is the long help.
func (showInstanceCmd) Help() string {
	return `Of an instance with several deliveries it says how many are sent, wait, have failed or were left out, and why, while its
audience is still being taken up too. A delivery is a message to one person by one channel.`
}

// Run shows instances.
func (c *showInstanceCmd) Run(s *session) error {
	return oneByOne(s, c.remote, c.JSON, c.IDs, func(api *client.Client, name string) (client.InstanceDetail, error) {
		id, err := s.instanceID(api, name)
		if err != nil {
			return client.InstanceDetail{}, err
		}
		switch {
		case c.CountAll:
			return api.InstanceCounted(s.ctx, id)
		case c.Contact != "":
			return api.InstanceFor(s.ctx, id, c.Contact)
		}
		return api.Instance(s.ctx, id)
	}, parted(s, c.print))
}

func (c *showInstanceCmd) print(s *session, one client.InstanceDetail) error {
	s.fields("instance", one.ID, "next", nextOf(one.Instance), "key", one.Key, "workflow", versioned(one.Workflow, one.WorkflowVersion), "trigger", one.Trigger,
		"event", one.Event, "record", one.Record, "status", status(one.Instance), "reason", because(one.Reason, one.Message), "due_at", c.at(one.DueAt), "due_local", one.DueLocal,
		"round", positive(one.Round), "round_message", positive(one.RoundMessage), "person", one.Person, "occasion", one.Occasion,
		"held_since", c.at(one.HeldSince), "held_for", heldFor(one.Instance), "next_retry_at", c.at(one.NextRetryAt), "recipients", positive(one.Recipients), "released_from_brake", c.at(one.UnbrakedAt), "attempts", positive(one.Attempts), "crashes", positive(one.Crashes),
		"created_at", c.at(one.CreatedAt), "completed_at", c.at(one.CompletedAt), "cancelled_at", c.at(one.CancelledAt))
	s.printFailures(c.output, one.Failures)
	s.printConflict(one.Conflict)
	s.printZones(c.output, one.Zones)
	if run := one.DigestRun; run != nil {
		s.title("digest run")
		s.fields("status", run.Status, "window_start", c.at(run.WindowStart), "window_end", c.at(run.WindowEnd), "begun_at", c.at(run.BegunAt),
			"expanded_at", c.at(run.ExpandedAt), "over_at", c.at(run.OverAt))
	}
	s.printCounts(one.Counts)
	if w := one.Without; w != nil {
		s.title("nothing for " + w.Contact)
		s.fields("reason", because(w.Reason, w.Message))
	}
	if len(one.Deliveries) > 0 {
		s.title("deliveries")
		s.printDeliveries(c.output, one.Deliveries)
	}
	s.printTrace(one.Trace)
	return nil
}

// printCounts says what has become of several deliveries.
func (s *session) printCounts(n client.InstanceCounts) {
	const several = 2
	if n.Deliveries < several && !n.TakingUp {
		return
	}
	s.title("counts")
	first, more := "", ""
	if n.More {
		first = " counted, and there are more: --count-all counts them"
	}
	if n.TakingUp {
		more = "yes: people of its audience are still taken up"
	}
	counted := func(n string) string {
		if n != "" && first != "" {
			n += "+"
		}
		return n
	}
	s.fields("deliveries", fmt.Sprint(n.Deliveries)+first, "taking_up", more, "sent", counted(fmt.Sprint(n.Sent)), "waiting", counted(positive(n.Waiting)),
		"unknown", counted(positive(n.Unknown)), "failed", counted(positive(n.Failed)), "left_out", counted(positive(n.LeftOut)))
	if len(n.Reasons) == 0 {
		return
	}
	rows := make([][]string, len(n.Reasons))
	for i, r := range n.Reasons {
		rows[i] = []string{counted(fmt.Sprint(r.Count)), r.Status, because(r.Reason, r.Message)}
	}
	s.rows(rows)
}

// nextOf names the commands that let a held instance go on.
func nextOf(one client.Instance) string {
	release, stop := "held: carillon instances release "+one.ID+" ", "; carillon instances cancel "+one.ID+" stops it for good"
	switch {
	case !one.Held:
		return ""
	case one.HeldFor == string(reason.WorkflowPaused):
		return "held: carillon workflows resume " + one.Workflow + " lets everything go on that the pause has parked"
	case one.HeldFor == string(reason.InputConflict) && (one.Status == "completed" || one.Status == "skipped" || one.Status == "cancelled"):
		return release + "accepts the new inputs, and it is not sent again; carillon instances retry " + one.ID + " has it done again"
	case one.HeldFor == string(reason.InputConflict):
		return release + "accepts the new inputs, and it goes on" + stop
	case one.HeldFor == string(reason.TooManyRecipients):
		return release + "has it take up all the others too" + stop
	}
	return release + "lets it go on, with a new ladder of tries" + stop
}

// heldFor is why an instance is held, where its reason says something else: that of its end.
func heldFor(one client.Instance) string {
	if one.HeldFor == one.Reason {
		return ""
	}
	return one.HeldFor
}

func (s *session) printFailures(o output, failures []client.Failure) {
	if len(failures) == 0 {
		return
	}
	s.title("failures")
	rows := make([][]string, len(failures))
	for i, f := range failures {
		rows[i] = []string{o.at(f.At), f.Error}
	}
	s.rows(rows)
}

// printConflict sets the inputs of a held instance side by side.
func (s *session) printConflict(c *client.InputConflict) {
	if c == nil {
		return
	}
	s.title("inputs")
	rows := make([][]string, len(c.Fields))
	for i, f := range c.Fields {
		stored, now, differs := f.Stored, f.New, ""
		switch {
		case !c.Known:
			stored = "not known"
		case !c.Defined:
			now = "not defined"
		case f.Differs:
			differs = "yes"
		}
		rows[i] = []string{f.Name, stored, now, differs}
	}
	now := "new"
	if c.NewVersion > 0 {
		now = fmt.Sprintf("new, version %d", c.NewVersion)
	}
	s.table([]string{"field", fmt.Sprintf("stored, version %d", c.StoredVersion), now, "differs"}, rows)
	switch {
	case !c.Known:
		s.note("What it was planned by was never written down, as by an older version of this program.")
	case !c.Defined:
		s.note("Its trigger is defined no longer: released, it ends when it is due.")
	case c.Agrees:
		s.note("By now both are the same: release it, and it goes on.")
	}
}

// instanceID is the id of what is named by its id or its key. What is not there keeps its name, for the server to refuse.
func (s *session) instanceID(api *client.Client, name string) (string, error) {
	if !strings.Contains(name, ":") { // an id has no colon
		return name, nil
	}
	page, err := api.Instances(s.ctx, client.InstanceQuery{Key: name, Limit: 1})
	if err != nil || len(page.Items) == 0 {
		return name, err
	}
	return page.Items[0].ID, nil
}

func versioned(workflow string, version int64) string {
	return fmt.Sprintf("%s, version %d", workflow, version)
}

func because(reason, sentence string) string {
	if reason == "" {
		return ""
	}
	return reason + ": " + sentence
}

func positive(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

type onInstance struct {
	IDs []string `arg:"" name:"id" help:"The instance's id, or its key; several are done one after the other."`
	remote
	jsonOnly
}

// act carries an action on the instances out.
func (c *onInstance) act(s *session, done string, do func(api *client.Client, id string) (client.Operated, error)) error {
	return s.operatedAll(c.remote, c.JSON, done, c.IDs, func(api *client.Client, name string) (client.Operated, error) {
		id, err := s.instanceID(api, name)
		if err != nil {
			return client.Operated{}, err
		}
		return do(api, id)
	})
}

type (
	cancelInstanceCmd struct{ onInstance }
	retryInstanceCmd  struct {
		All bool `help:"Of a run of a digest: have everybody get its items again, also those who have got them."`
		onInstance
	}
	releaseInstanceCmd struct{ onInstance }
)

// Help is the long help.
func (cancelInstanceCmd) Help() string {
	return `What was sent stays sent and gets no more reminders. A message that is on its way to the provider cannot be
called back; what follows it is stopped. Of an instance with more than 500 deliveries nothing is sent from this
moment on either; a run ends the deliveries one after the other, and runs list shows how far it is.`
}

// Run cancels an instance.
func (c *cancelInstanceCmd) Run(s *session) error {
	return c.act(s, "cancelled", func(api *client.Client, id string) (client.Operated, error) { return api.CancelInstance(s.ctx, id) })
}

// Help is the long help.
func (retryInstanceCmd) Help() string {
	return `One that waits or is held is tried at once. One that has ended, however it did, is done again as a new instance
whose key ends in :retry:N, with the audience of now; where the event names the recipient, to that one. What ended
before it was due keeps its time. Asked for twice it is done once: retry the new one to have it once more.

A run of a digest reaches those who have not got its items. With --all everybody gets the items of its window again,
such as after a run whose text was wrong.`
}

// Run retries an instance.
func (c *retryInstanceCmd) Run(s *session) error {
	return c.act(s, "retried", func(api *client.Client, id string) (client.Operated, error) {
		if c.All {
			return api.RetryInstanceForAll(s.ctx, id)
		}
		return api.RetryInstance(s.ctx, id)
	})
}

// Help is the long help.
func (releaseInstanceCmd) Help() string {
	return `One that is held with input_conflict goes on with the inputs of now, which instances show sets beside those that it
was planned by. One that is completed or cancelled only loses the flag, and is not sent again. What is held because
its workflow is paused goes on with workflows resume.`
}

// Run releases an instance.
func (c *releaseInstanceCmd) Run(s *session) error {
	return c.act(s, "released", func(api *client.Client, id string) (client.Operated, error) { return api.ReleaseInstance(s.ctx, id) })
}

type forgetCmd struct {
	Keys []string `arg:"" name:"instance-key" help:"The key of an instance, or its id, as instances list prints them; several are done one after the other."`
	remote
	jsonOnly
}

// Help is the long help.
func (forgetCmd) Help() string {
	return `Nothing is deleted: the instance stays as history, and what it still had to send is cancelled. The next event
of the same occasion makes a new instance, whose key ends in :retry:1. The key of an event that began a course stands for
all of its messages. Needs a key with the scope admin; it is audited.`
}

// Run frees a key.
func (c *forgetCmd) Run(s *session) error {
	return s.operatedAll(c.remote, c.JSON, "forgot", c.Keys, func(api *client.Client, name string) (client.Operated, error) {
		if !strings.Contains(name, ":") { // a key has colons
			one, err := api.Instance(s.ctx, name)
			if err != nil {
				return client.Operated{}, err
			}
			name = one.Key
		}
		return api.Forget(s.ctx, name)
	})
}

// operatedAll performs an action on each of several objects, and prints what it did.
func (s *session) operatedAll(r remote, asJSON bool, done string, names []string, do func(*client.Client, string) (client.Operated, error)) error {
	return oneByOne(s, r, asJSON, names, do, func(o client.Operated) error {
		s.operated(done, o)
		return nil
	})
}

// operated prints what an action did.
func (s *session) operated(done string, o client.Operated) {
	for _, d := range o.BeingSent {
		s.rows([][]string{{"! being sent", d, "it may arrive, and nothing follows it"}})
	}
	if o.Reason != "" {
		return // nothing was changed, and the lines above say why
	}
	if !o.Changed && o.NewInstance != "" {
		s.rows([][]string{{"=", o.Instance, done + " already, as " + o.NewInstance}})
		return
	}
	if !o.Changed && o.Run != "" {
		s.rows([][]string{{"=", o.Instance, done + " already; run " + o.Run + " ends its deliveries"}})
		return
	}
	if !o.Changed {
		s.rows([][]string{{"=", o.Instance, "it was so already"}})
		return
	}
	s.rows([][]string{{"~ " + done, o.Instance, oneOrMany(o.Deliveries)}})
	if o.Run != "" {
		s.rows([][]string{{"~ run", o.Run, "ends its deliveries; nothing of it is sent meanwhile"}})
	}
	if o.NewInstance != "" {
		s.rows([][]string{{"+ created", o.NewInstance, oneOrMany(o.NewDeliveries)}})
	}
}

// oneOrMany is the id of a delivery, or how many there are.
func oneOrMany(deliveries []string) string {
	if len(deliveries) > 1 {
		return fmt.Sprintf("%d deliveries", len(deliveries))
	}
	return strings.Join(deliveries, "")
}
