package api_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/api"
)

// fixture is a request that a route understands, and the scope that a key needs for it. {event}, {instance}, {delivery} and
// {key} stand for things of the workspace that the test is about.
type fixture struct {
	scope      api.Scope
	path, body string
}

const open api.Scope = "" // needs no key

// fixtures has one for every route; a new route without one fails the tests below. The scopes are written here and not read
// from the server: a route that asks for another one is a mistake until this table says the same.
func fixtures() map[string]fixture {
	return map[string]fixture{
		"GET /healthz":       {scope: open, path: "/healthz"},
		"GET /readyz":        {scope: open, path: "/readyz"},
		"GET /openapi.json":  {scope: open, path: "/openapi.json"},
		"GET /docs":          {scope: open, path: "/docs"},
		"GET /docs/page.css": {scope: open, path: "/docs/page.css"},
		"GET /metrics":       {scope: api.ScopeMetrics, path: "/metrics"},

		"POST /v1/inbound/{channel}": {scope: open, path: "/v1/inbound/{channel}", body: `{"feedback":[]}`},

		"POST /v1/events":                      {scope: api.ScopeIngest, path: "/v1/events", body: `{"kind":"nothing"}`},
		"GET /v1/events/{id}":                  {scope: api.ScopeRead, path: "/v1/events/{event}"},
		"POST /v1/definitions":                 {scope: api.ScopeDefinitions, path: "/v1/definitions", body: `{"files":[{"name":"a.yaml","text":"channel: memory:more\nprovider: memory\n"}]}`},
		"GET /v1/definitions":                  {scope: api.ScopeRead, path: "/v1/definitions"},
		"GET /v1/definitions/history":          {scope: api.ScopeRead, path: "/v1/definitions/history?kind=workflow&name={workflow}"},
		"POST /v1/definitions/rollback":        {scope: api.ScopeDefinitions, path: "/v1/definitions/rollback", body: `{"kind":"workflow","name":"{workflow}","version":1,"dry_run":true}`},
		"GET /v1/definitions/{kind}/{name}":    {scope: api.ScopeRead, path: "/v1/definitions/workflow/{workflow}"},
		"DELETE /v1/definitions/{kind}/{name}": {scope: api.ScopeDefinitions, path: "/v1/definitions/workflow/{workflow}?dry_run=true"},
		"GET /v1/reasons":                      {scope: api.ScopeRead, path: "/v1/reasons"},
		"GET /v1/events":                       {scope: api.ScopeRead, path: "/v1/events"},
		"GET /v1/decisions":                    {scope: api.ScopeRead, path: "/v1/decisions"},

		"PUT /v1/secrets/{name}":    {scope: api.ScopeSecrets, path: "/v1/secrets/TOKEN", body: `{"value":"hunter2"}`},
		"GET /v1/secrets":           {scope: api.ScopeDefinitions, path: "/v1/secrets"},
		"DELETE /v1/secrets/{name}": {scope: api.ScopeSecrets, path: "/v1/secrets/{secret}"},

		"GET /v1/channels":             {scope: api.ScopeRead, path: "/v1/channels"},
		"POST /v1/channels/{key}/test": {scope: api.ScopeOperate, path: "/v1/channels/{channel}/test", body: `{"to":"me@example.org"}`},

		"POST /v1/tick": {scope: api.ScopeOperate, path: "/v1/tick"},

		"GET /v1/workflows":                   {scope: api.ScopeRead, path: "/v1/workflows"},
		"GET /v1/workflows/{slug}/recipients": {scope: api.ScopeRead, path: "/v1/workflows/{workflow}/recipients"},
		"GET /v1/workflows/{slug}/preview":    {scope: api.ScopeRead, path: "/v1/workflows/{workflow}/preview?contact={contact}"},
		"POST /v1/workflows/{slug}/pause":     {scope: api.ScopeOperate, path: "/v1/workflows/{workflow}/pause", body: `{"reason":"wrong text"}`},
		"POST /v1/workflows/{slug}/resume":    {scope: api.ScopeOperate, path: "/v1/workflows/{workflow}/resume"},

		"POST /v1/workflows/{slug}/runs": {scope: api.ScopeOperate, path: "/v1/workflows/{workflow}/runs", body: `{"run_id":"19"}`},

		"POST /v1/contacts":                 {scope: api.ScopeIngest, path: "/v1/contacts", body: `{"contacts":[{"id":"someone"}]}`},
		"GET /v1/contacts":                  {scope: api.ScopeRead, path: "/v1/contacts"},
		"POST /v1/topics":                   {scope: api.ScopeIngest, path: "/v1/topics", body: `{"match":[{"tags":{"policy":{"any":["tax"]}}}]}`},
		"GET /v1/topics":                    {scope: api.ScopeRead, path: "/v1/topics"},
		"GET /v1/topics/{name}":             {scope: api.ScopeRead, path: "/v1/topics/{topic}"},
		"DELETE /v1/topics/{name}":          {scope: api.ScopeIngest, path: "/v1/topics/{topic}"},
		"POST /v1/subscriptions":            {scope: api.ScopeIngest, path: "/v1/subscriptions", body: `{"subscriptions":[{"contact":"someone","topic":"tax","frequency":"daily"}]}`},
		"POST /v1/subscriptions/end":        {scope: api.ScopeIngest, path: "/v1/subscriptions/end", body: `{"subscriptions":[{"contact":"someone","topic":"tax"}]}`},
		"POST /v1/subscriptions/bulk":       {scope: api.ScopeOperate, path: "/v1/subscriptions/bulk", body: `{"action":"unsubscribe","topics":["{topic}"],"dry_run":true}`},
		"GET /v1/subscriptions":             {scope: api.ScopeRead, path: "/v1/subscriptions?contact=someone"},
		"POST /v1/items":                    {scope: api.ScopeIngest, path: "/v1/items", body: `{"items":[{"id":"of everybody"}]}`},
		"GET /v1/items":                     {scope: api.ScopeRead, path: "/v1/items"},
		"GET /v1/contacts/{id}/digests":     {scope: api.ScopeRead, path: "/v1/contacts/{contact}/digests"},
		"GET /v1/items/{id}":                {scope: api.ScopeRead, path: "/v1/items/{topic}"},
		"GET /v1/groups":                    {scope: api.ScopeRead, path: "/v1/groups"},
		"GET /v1/groups/{name}":             {scope: api.ScopeRead, path: "/v1/groups/{group}"},
		"GET /v1/status":                    {scope: api.ScopeRead, path: "/v1/status"},
		"GET /v1/top-contacts":              {scope: api.ScopeRead, path: "/v1/top-contacts"},
		"GET /v1/contacts/{id}":             {scope: api.ScopeRead, path: "/v1/contacts/{contact}"},
		"GET /v1/contacts/{id}/limits":      {scope: api.ScopeRead, path: "/v1/contacts/{contact}/limits"},
		"PUT /v1/contacts/{id}":             {scope: api.ScopeIngest, path: "/v1/contacts/someone", body: `{"name":"Someone"}`},
		"PATCH /v1/contacts/{id}":           {scope: api.ScopeIngest, path: "/v1/contacts/{contact}", body: `{"name":"Someone"}`},
		"POST /v1/feedback":                 {scope: api.ScopeIngest, path: "/v1/feedback", body: `{"status":"bounced","address":"nobody@example.org"}`},
		"POST /v1/feedback/mail":            {scope: api.ScopeIngest, path: "/v1/feedback/mail", body: `{"mail":"Q29udGVudC1UeXBlOiBtdWx0aXBhcnQvcmVwb3J0OyByZXBvcnQtdHlwZT1mZWVkYmFjay1yZXBvcnQ7IGJvdW5kYXJ5PWIKCi0tYgpDb250ZW50LVR5cGU6IG1lc3NhZ2UvZmVlZGJhY2stcmVwb3J0CgpGZWVkYmFjay1UeXBlOiBhYnVzZQpPcmlnaW5hbC1SY3B0LVRvOiBub2JvZHlAZXhhbXBsZS5vcmcKCi0tYi0tCg=="}`},
		"POST /v1/feedback/allow":           {scope: api.ScopeOperate, path: "/v1/feedback/allow", body: `{"address":"nobody@example.org"}`},
		"POST /v1/contacts/{id}/merge":      {scope: api.ScopeOperate, path: "/v1/contacts/twin-{contact}/merge", body: `{"into":"survivor"}`},
		"POST /v1/contacts/{id}/suppress":   {scope: api.ScopeOperate, path: "/v1/contacts/{contact}/suppress", body: `{"reason":"asked"}`},
		"POST /v1/contacts/{id}/unsuppress": {scope: api.ScopeOperate, path: "/v1/contacts/{contact}/unsuppress"},

		"POST /v1/records":               {scope: api.ScopeIngest, path: "/v1/records", body: `{"records":[{"type":"kiosk","id":"7","props":{"battery_level":15}}]}`},
		"GET /v1/records":                {scope: api.ScopeRead, path: "/v1/records"},
		"GET /v1/records/{type}":         {scope: api.ScopeRead, path: "/v1/records/kiosk"},
		"GET /v1/records/{type}/{id}":    {scope: api.ScopeRead, path: "/v1/records/kiosk/{record}"},
		"PUT /v1/records/{type}/{id}":    {scope: api.ScopeIngest, path: "/v1/records/kiosk/8", body: `{"props":{"battery_level":80}}`},
		"PATCH /v1/records/{type}/{id}":  {scope: api.ScopeIngest, path: "/v1/records/kiosk/{record}", body: `{"props":{"battery_level":15}}`},
		"DELETE /v1/records/{type}/{id}": {scope: api.ScopeIngest, path: "/v1/records/kiosk/{record}"},

		"GET /v1/throttles": {scope: api.ScopeRead, path: "/v1/throttles"},
		"GET /v1/runs":      {scope: api.ScopeRead, path: "/v1/runs"},

		"POST /v1/runs/{id}/cancel": {scope: api.ScopeOperate, path: "/v1/runs/{run}/cancel"},
		"POST /v1/runs/{id}/undo":   {scope: api.ScopeOperate, path: "/v1/runs/{run}/undo"},
		"POST /v1/runs/{id}/resume": {scope: api.ScopeOperate, path: "/v1/runs/{run}/resume"},

		"GET /v1/instances":               {scope: api.ScopeRead, path: "/v1/instances"},
		"GET /v1/instances/{id}":          {scope: api.ScopeRead, path: "/v1/instances/{instance}"},
		"POST /v1/instances/{id}/cancel":  {scope: api.ScopeOperate, path: "/v1/instances/{instance}/cancel"},
		"POST /v1/instances/{id}/retry":   {scope: api.ScopeOperate, path: "/v1/instances/{instance}/retry"},
		"POST /v1/instances/{id}/release": {scope: api.ScopeOperate, path: "/v1/instances/{instance}/release"},
		"POST /v1/instances/forget":       {scope: api.ScopeAdmin, path: "/v1/instances/forget", body: `{"key":"{key}"}`},

		"GET /v1/deliveries":              {scope: api.ScopeRead, path: "/v1/deliveries"},
		"GET /v1/deliveries/{id}":         {scope: api.ScopeRead, path: "/v1/deliveries/{delivery}"},
		"POST /v1/deliveries/retry":       {scope: api.ScopeOperate, path: "/v1/deliveries/retry", body: `{"workflow":"{workflow}"}`},
		"POST /v1/deliveries/cancel":      {scope: api.ScopeOperate, path: "/v1/deliveries/cancel", body: `{"workflow":"{workflow}"}`},
		"POST /v1/deliveries/{id}/cancel": {scope: api.ScopeOperate, path: "/v1/deliveries/{delivery}/cancel"},
		"POST /v1/deliveries/{id}/retry":  {scope: api.ScopeOperate, path: "/v1/deliveries/{delivery}/retry"},

		"GET /v1/sessions":                   {scope: api.ScopeRead, path: "/v1/sessions"},
		"GET /v1/sessions/{id}":              {scope: api.ScopeRead, path: "/v1/sessions/{session}"},
		"GET /v1/responses":                  {scope: api.ScopeRead, path: "/v1/responses"},
		"POST /v1/deliveries/{id}/responses": {scope: api.ScopeIngest, path: "/v1/deliveries/{survey}/responses", body: `{"answers":{}}`},

		"GET /v1/outbox":                {scope: api.ScopeRead, path: "/v1/outbox"},
		"GET /v1/outbox/{id}":           {scope: api.ScopeRead, path: "/v1/outbox/{told}"},
		"POST /v1/outbox/{id}/redrive":  {scope: api.ScopeOperate, path: "/v1/outbox/{told}/redrive", body: `{}`},
		"GET /v1/sinks":                 {scope: api.ScopeRead, path: "/v1/sinks"},
		"GET /v1/sinks/{name}":          {scope: api.ScopeRead, path: "/v1/sinks/{sink}"},
		"POST /v1/sinks/{name}/pause":   {scope: api.ScopeOperate, path: "/v1/sinks/{sink}/pause"},
		"POST /v1/sinks/{name}/enable":  {scope: api.ScopeOperate, path: "/v1/sinks/{sink}/enable"},
		"POST /v1/sinks/{name}/redrive": {scope: api.ScopeOperate, path: "/v1/sinks/{sink}/redrive"},

		"POST /api/Surveys/SurveyInstances/{id}/responses": {scope: api.ScopeIngest, path: "/api/Surveys/SurveyInstances/{second}/responses", body: `{"answers":{}}`},

		"POST /api/Surveys/Triggers/ingest":         {scope: api.ScopeIngest, path: "/api/Surveys/Triggers/ingest", body: `{"eventKind":"nothing","items":[{}]}`},
		"POST /api/Surveys/Triggers/scheduler/tick": {scope: api.ScopeOperate, path: "/api/Surveys/Triggers/scheduler/tick"},
	}
}

func fixtureOf(t *testing.T, r api.Route) fixture {
	t.Helper()
	f, ok := fixtures()[r.Method+" "+r.Path]
	if !ok {
		t.Fatalf("%s %s has no fixture", r.Method, r.Path)
	}
	return f
}

// things are ids of one workspace.
type things struct{ event, instance, delivery, key, contact, secret, channel, record, workflow, run, survey, second, session, told, sink, group, topic string }

func (x things) in(f fixture) fixture {
	fill := strings.NewReplacer("{event}", x.event, "{instance}", x.instance, "{delivery}", x.delivery, "{key}", x.key, "{contact}", x.contact, "{secret}", x.secret, "{channel}", x.channel, "{record}", x.record, "{workflow}", x.workflow, "{run}", x.run, "{survey}", x.survey, "{second}", x.second, "{session}", x.session, "{told}", x.told, "{sink}", x.sink, "{group}", x.group, "{topic}", x.topic)
	return fixture{f.scope, fill.Replace(f.path), fill.Replace(f.body)}
}

// talk begins a conversation. Its message is sent, so that it comes before what is to wait.
func (b *bundle) talk(c *client.Client, id string) (session string) {
	b.Helper()
	if _, err := c.Apply(b.Context(), []client.File{{Name: "talk.yaml", Text: talking("of-" + id)}}); err != nil {
		b.Fatal(err)
	}
	if _, err := c.PutContact(b.Context(), client.ContactInput{ID: "talks-" + id, Addresses: map[string]string{"sms": "+4930000000"}}); err != nil {
		b.Fatal(err)
	}
	_, _, session = b.post(c, client.Event{ID: "talk with " + id, Kind: "talk-of-" + id, Recipient: &client.Recipient{CustomerRef: "talks-" + id}})
	b.tick()
	return session
}

func (b *bundle) things(c *client.Client, id, session string) things {
	b.Helper()
	x := things{session: session}
	x.event, x.instance, x.delivery = b.post(c, signedUp(id))
	one, err := c.Instance(b.Context(), x.instance)
	if err != nil {
		b.Fatal(err)
	}
	x.key, x.contact, x.secret = one.Key, "cust-"+id, "of-"+id
	if _, err := c.PostContacts(b.Context(), client.ContactInput{ID: "twin-" + x.contact}, client.ContactInput{ID: "survivor"}); err != nil {
		b.Fatal(err)
	}
	if _, err := c.SetSecret(b.Context(), x.secret, "hunter2"); err != nil {
		b.Fatal(err)
	}
	x.channel = "memory:of-" + id
	if _, err := c.Apply(b.Context(), []client.File{{Name: "channel.yaml", Text: "channel: " + x.channel + "\nprovider: memory\n" + byHand("of-"+id, x.channel) + "---\nsink: of-" + id + "\nprovider: file\nsettings: {path: " + id + ".ndjson}\n" + watching("of-"+id, x.channel) + asking("of-"+id, x.channel) + "---\ngroup: of-" + id + "\nmembers: [cust-" + id + "]\n"}}); err != nil {
		b.Fatal(err)
	}
	_, _, x.survey = b.post(c, client.Event{ID: "first of " + id, Kind: "asked-of-" + id, Recipient: &client.Recipient{Address: "asked-" + id + "@example.org"}})
	_, _, x.second = b.post(c, client.Event{ID: "second of " + id, Kind: "asked-of-" + id, Recipient: &client.Recipient{Address: "asked-" + id + "@example.org"}})
	x.record, x.workflow, x.sink, x.group, x.topic = "of-"+id, "of-"+id, "of-"+id, "of-"+id, "of-"+id
	if _, err := c.FindTopic(b.Context(), client.TopicInput{Topic: x.topic}); err != nil {
		b.Fatal(err)
	}
	if _, err := c.Publish(b.Context(), map[string]any{"id": x.topic, "topics": []string{x.topic}}); err != nil {
		b.Fatal(err)
	}
	x.told = b.died(c, x.delivery, x.sink)
	runs, err := c.Runs(b.Context(), client.RunQuery{Limit: 1})
	if err != nil || len(runs.Items) != 1 {
		b.Fatalf("%+v, %v", runs, err)
	}
	x.run = runs.Items[0].ID
	if _, err := c.PutRecord(b.Context(), client.RecordInput{Type: "kiosk", ID: x.record, Props: map[string]any{"battery_level": 80}}); err != nil {
		b.Fatal(err)
	}
	return x
}

// watching is a workflow that evaluates records.
func watching(name, channel string) string {
	return "---\nworkflow: watch-" + name + "\ntype: alert\ntriggers: {id: t, record: kiosk, when: record.battery_level < 0}\naudience: {everyone: true}\nchannel: " + channel + "\nmessage: {inbox: {text: Hello}}\n"
}

// asking is a workflow that sends a survey.
func asking(name, channel string) string {
	return "---\nworkflow: ask-" + name + "\ntype: survey\ntriggers: {id: t, event: asked-" + name + "}\naudience: {to: event.recipient}\nchannel: " + channel +
		"\nmessage: {survey: " + name + "}\n---\nsurvey: " + name + "\ntitle: T\ninvitation: {text: T}\nquestions: [{id: rate, type: number, text: Q}]\n"
}

// talking is a workflow that asks by messages.
func talking(name string) string {
	return "workflow: talk-" + name + "\ntype: survey\ntriggers: {id: t, event: talk-" + name + "}\naudience: {to: event.recipient}\nchannel: sms:" + name +
		"\nmessage: {survey: talk-" + name + ", mode: conversation}\n---\nsurvey: talk-" + name + "\ntitle: T\nquestions: [{id: rate, type: number, text: Q}]\n---\nchannel: sms:" + name + "\nprovider: memory\n"
}

// byHand is a workflow that needs no event.
func byHand(name, channel string) string {
	return "---\nworkflow: " + name + "\ntype: custom\ntriggers: {id: t, event: never}\naudience: {everyone: true}\nchannel: " + channel + "\nmessage: {inbox: {text: Hello}}\n"
}

// Every route, asked with no key, with keys that are none, and with a key of each scope.
// Shows: C1.
func TestRoutesByScope(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bundle) {
		own := b.things(b.Client, "own", b.talk(b.Client, "own"))
		revoked := b.newKey(b.app.Workspace(), "revoked", "admin")
		if _, err := b.app.Store().RevokeKey(t.Context(), b.app.Workspace().ID, "revoked", b.clock.Now()); err != nil {
			t.Fatal(err)
		}
		keys := map[api.Scope]string{}
		for _, scope := range api.Scopes() {
			keys[scope] = b.newKey(b.app.Workspace(), "only "+string(scope), string(scope))
		}
		cells := 0
		for _, r := range api.New(api.Deps{}).Routes() {
			f := own.in(fixtureOf(t, r))
			if r.Scope != f.scope {
				t.Errorf("%s %s asks for scope %q, want %q", r.Method, r.Path, r.Scope, f.scope)
			}
			for name, key := range map[string]string{
				"none": "", "unknown": api.KeyPrefix + "x", "without prefix": strings.TrimPrefix(b.key, api.KeyPrefix), "revoked": revoked,
			} {
				cells++
				status, text := b.askAs(key, r.Method, f.path, f.body)
				if r.Signed { // it shows nothing to who has not signed, whatever their key is
					if status != http.StatusNotFound {
						t.Errorf("%s %s answered %d", r.Method, f.path, status)
					}
					continue
				}
				if f.scope == "" {
					if status != http.StatusOK {
						t.Errorf("%s %s is open and answered %d", r.Method, f.path, status)
					}
					continue
				}
				if status != http.StatusUnauthorized || problemOf(t, text).Code != client.CodeUnauthorized {
					t.Errorf("%s %s with key %q: got %d %s", r.Method, f.path, name, status, text)
				}
			}
			for scope, key := range keys {
				cells++
				status, text := b.askAs(key, r.Method, f.path, f.body)
				switch may := f.scope == "" || scope == f.scope || scope == api.ScopeAdmin; {
				case may && (status == http.StatusUnauthorized || status == http.StatusForbidden || status >= 500):
					t.Errorf("%s %s with scope %s: got %d %s", r.Method, f.path, scope, status, text)
				case !may && (status != http.StatusForbidden || problemOf(t, text).Code != client.CodeForbidden):
					t.Errorf("%s %s with scope %s: got %d %s, want 403", r.Method, f.path, scope, status, text)
				}
			}
		}
		// Every route has answered as it is described; hold_test.go releases, inbound_test.go calls back.
		if _, err := b.FindTopic(t.Context(), client.TopicInput{Topic: "joined"}); err != nil {
			t.Fatal(err)
		}
		of, err := b.ChangeSubscriptions(t.Context(), client.BulkSubscriptions{Action: "subscribe", Contacts: []string{own.contact}, To: "joined", Frequency: "daily"})
		if err != nil || of.Run == nil {
			t.Fatal(of, err)
		}
		if _, err := b.app.Engine().Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
		if run, err := b.UndoRun(t.Context(), of.Run.ID); err != nil || run.Kind != "undo" {
			t.Fatal(run, err)
		}
		if _, err := b.PutRecord(t.Context(), client.RecordInput{Type: "kiosk", ID: own.record}); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Record(t.Context(), "kiosk", own.record); err != nil {
			t.Fatal(err)
		}
		for pattern := range theDocument().operations {
			if !b.check.answered(pattern) && pattern != "POST /v1/instances/{id}/release" && pattern != "POST /v1/inbound/{channel}" {
				t.Errorf("%s answered no success that the document was held against", pattern)
			}
		}
		t.Logf("%d cells", cells)
	})
}

// Every route with a thing in its path or body, asked for things of another workspace, for things of another kind,
// and for what is no id at all: 404, as if they did not exist, and nothing is changed.
func TestRoutesByWorkspace(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bundle) {
		other, err := b.app.Store().EnsureWorkspace(t.Context(), "other", []byte("another workspace's secret: 32 b"), b.clock.Now())
		if err != nil {
			t.Fatal(err)
		}
		stranger := b.as(b.newKey(other, "admin", "admin"))
		if _, err := stranger.Apply(t.Context(), []client.File{{Name: "test.yaml", Text: definitions}}); err != nil {
			t.Fatal(err)
		}
		said, saidThere := b.talk(b.Client, "own"), b.talk(stranger, "theirs")
		theirs := b.things(stranger, "theirs", saidThere)
		own := b.things(b.Client, "own", said)
		mixed := things{event: own.instance, instance: own.delivery, delivery: own.event, key: own.key + ":x", contact: own.event, secret: own.secret + "-x", channel: own.event, record: own.event, workflow: own.event, run: own.event, survey: own.event, second: own.instance, session: own.instance, told: own.delivery, sink: own.event, group: own.event}
		none := things{event: "e_0", instance: "nonsense", delivery: "d_0", key: "no:such:key", contact: "no-such-contact", secret: "none", channel: "none", record: "none", workflow: "none", run: "none", survey: "d_0", second: "none", session: "none", told: "o_0", sink: "none", group: "none"}
		cells := 0
		for _, r := range api.New(api.Deps{}).Routes() {
			f := fixtureOf(t, r)
			if f == (things{}).in(f) {
				continue
			}
			for name, x := range map[string]things{"theirs": theirs, "mixed": mixed, "none": none} {
				cells++
				asked := x.in(f)
				status, text := b.ask(r.Method, asked.path, asked.body)
				if status != http.StatusNotFound || problemOf(t, text).Code != client.CodeNotFound {
					t.Errorf("%s %s (%s): got %d %s, want 404", r.Method, asked.path, name, status, text)
				}
			}
		}
		for _, path := range []string{
			"/v1/instances?event=" + theirs.event, "/v1/deliveries?to=theirs@example.org",
			"/v1/instances?key=" + theirs.key, "/v1/deliveries?to=cust-theirs",
			"/v1/throttles?type=kiosk&id=" + theirs.record,
			"/v1/outbox?delivery=" + theirs.delivery, "/v1/outbox?sink=" + theirs.sink,
		} {
			cells++
			if status, text := b.ask(http.MethodGet, path, ""); status != http.StatusOK || text != `{"items":[]}` {
				t.Errorf("%s: got %d %s", path, status, text)
			}
		}
		for _, path := range []string{"/v1/deliveries?instance=" + theirs.instance, "/v1/deliveries?instance=" + theirs.key, "/v1/deliveries?instance=none", "/v1/outbox?instance=" + theirs.instance, "/v1/outbox?instance=" + theirs.key} {
			cells++
			if status, text := b.ask(http.MethodGet, path, ""); status != http.StatusNotFound || problemOf(t, text).Code != client.CodeNotFound {
				t.Errorf("%s: got %d %s", path, status, text)
			}
		}
		for _, path := range []string{"/v1/instances?cursor=" + theirs.instance, "/v1/deliveries?cursor=" + own.instance, "/v1/outbox?cursor=" + theirs.told} {
			cells++
			if status, text := b.ask(http.MethodGet, path, ""); status != http.StatusUnprocessableEntity {
				t.Errorf("%s: got %d %s", path, status, text)
			}
		}
		after, err := stranger.Instance(t.Context(), theirs.instance)
		if err != nil || after.Deliveries[0].Status != "scheduled" {
			t.Errorf("theirs was touched: %+v, %v", after, err)
		}
		if told, err := stranger.OutboxEvent(t.Context(), theirs.told); err != nil || told.Status != "dead" {
			t.Errorf("theirs was redriven: %+v, %v", told, err)
		}
		if sink, err := stranger.Sink(t.Context(), theirs.sink); err != nil || sink.State != client.SinkActive || sink.Dead != 1 {
			t.Errorf("theirs was changed: %+v, %v", sink, err)
		}
		if sinks, err := b.Sinks(t.Context()); err != nil || len(sinks.Items) != 1 || sinks.Items[0].Name != own.sink {
			t.Errorf("the sinks are %+v, %v", sinks.Items, err)
		}
		list, err := b.Deliveries(t.Context(), client.DeliveryQuery{})
		if err != nil || len(list.Items) != 4 || list.Items[0].ID != own.second || list.Items[1].ID != own.survey || list.Items[2].ID != own.delivery || list.Items[3].ID != own.session {
			t.Errorf("the list holds %+v, %v", list.Items, err)
		}
		t.Logf("%d cells", cells)
	})
}

// A revoked key ends within the time that is promised.
func TestRevokedKeyEnds(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bundle) {
		key := b.newKey(b.app.Workspace(), "temporary", "read")
		ask := func() int {
			status, _ := b.askAs(key, http.MethodGet, "/v1/reasons", "")
			return status
		}
		if got := ask(); got != http.StatusOK {
			t.Fatalf("got %d", got)
		}
		if _, err := b.app.Store().RevokeKey(t.Context(), b.app.Workspace().ID, "temporary", b.clock.Now()); err != nil {
			t.Fatal(err)
		}
		b.clock.Set(start.Add(api.RevokedWithin - time.Millisecond))
		if got := ask(); got != http.StatusOK {
			t.Errorf("before the time: got %d; the key is looked up every time", got)
		}
		b.clock.Set(start.Add(api.RevokedWithin))
		if got := ask(); got != http.StatusUnauthorized {
			t.Errorf("after the time: got %d", got)
		}
	})
}
