package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/channel/memory"
	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/definition/loader"
	"github.com/carillonhq/carillon/internal/engine/plumbing/catalog"
	"github.com/carillonhq/carillon/internal/engine/plumbing/channelpool"
	"github.com/carillonhq/carillon/internal/engine/plumbing/topics"
	"github.com/carillonhq/carillon/internal/engine/service/ingest"
	"github.com/carillonhq/carillon/internal/engine/service/item"
	"github.com/carillonhq/carillon/internal/engine/stage/fanout"
	"github.com/carillonhq/carillon/internal/engine/stage/matcher"
	"github.com/carillonhq/carillon/internal/engine/stage/sender"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/topic"
)

const (
	// digestTopics are followed by all subscribers in turn, and digestItems are published in a day, each in three topics.
	digestTopics, digestItems, topicsOfItem = 300, 300, 3
	// itemLess is by how much fewer the subscribers are with which an item to all is compared.
	itemLess = 10
	// manyTopics and fewTopics is how many there are when an item is held against them, matchedOnce how often that is measured.
	manyTopics, fewTopics, matchedOnce = 70_000, 700, 100
	// clicks is how many subscriptions are ended by a click each.
	clicks = 4000
)

const digestDefinitions = `
workflow: news
type: digest
triggers:
  - {id: immediate, event: item.published, audience: {topics: matched, frequency: immediate}, message: {sms: {text: "{{ item.title }}"}}}
  - {id: daily, schedule: {every: 1d, at: "08:30", timezone: UTC, period: 1d, period_end: "08:00"}, audience: {topics: all, frequency: daily}}
channel: memory
message:
  sms: {text: "{% for s in digest.sections %}{{ s.topic.title }}\n{% for i in s.items %}{{ i.title }} {{ i.url }}\n{{ i.summary }}\n{% endfor %}{% endfor %}"}
`

// Subscribers follow a topic each, beginning with the first.
const (
	addressRows    = `UPDATE contact SET addresses = '{"memory":"person-' || id || '"}'`
	subscriberRows = `
INSERT INTO subscription (ws, id, contact_id, topic_id, frequency, source, since, started_at, covered_through)
SELECT c.ws, c.id, c.id, t.id, $2, 'import', $1, $1, 0
FROM contact AS c JOIN topic AS t ON t.ws = c.ws AND t.name = 'topic-' || (c.id % $3::bigint)`
	// sameTable has all columns and indexes of deliveries, and samePage inserts a page of them.
	sameTable = `CREATE TABLE same (LIKE delivery INCLUDING ALL)`
	samePage  = `
WITH page AS (INSERT INTO same SELECT * FROM delivery WHERE instance_id = (SELECT max(instance_id) FROM delivery) AND contact_id > $1 ORDER BY contact_id LIMIT $2
  RETURNING contact_id)
SELECT coalesce(max(contact_id), 0), count(*) FROM page`
)

// digestContenders make a day's digests, tell one item to everybody, find the topics of items, and end subscriptions by links.
func digestContenders(s settings, b *binary) []contender {
	item := func(name string, people int) contender {
		return onDatabase("an item to "+name, []string{"T22"}, func(ctx context.Context, r *round, url string) error {
			return onProduct(ctx, url, func(p *product) error { return p.itemToAll(ctx, r, url, name, people) })
		})
	}
	match := func(name string, n int) contender {
		return onDatabase("items against "+name, []string{"T24"}, func(ctx context.Context, r *round, url string) error {
			return onProduct(ctx, url, func(p *product) error { return p.matchItems(ctx, r, url, name, n) })
		})
	}
	list := []contender{
		onDatabase("digests of a day", []string{"T11"}, func(ctx context.Context, r *round, url string) error {
			return onProduct(ctx, url, func(p *product) error { return p.digests(ctx, s, r, url) })
		}),
		item(itemFew, max(s.people/itemLess, digestTopics)), item(itemMany, s.people), match(matchFew, fewTopics), match(matchMany, manyTopics),
		onDatabase("Carillon, clicks", []string{"T23"}, func(ctx context.Context, r *round, url string) error { return clickServer(ctx, r, b, url) }),
	}
	if s.wants("T23") && !s.wants("T2", "T18") {
		list = append(list, onDatabase("insert", []string{"T23"}, func(ctx context.Context, r *round, url string) error { return insertServer(ctx, r, url, []int{1}) }))
	}
	return list
}

func onProduct(ctx context.Context, url string, do func(*product) error) (err error) {
	p, err := newProduct(ctx, url)
	if p != nil {
		defer func() { err = errors.Join(err, p.store.Close()) }()
	}
	if err != nil {
		return err
	}
	return do(p)
}

// subscribers puts definitions in force, with topics, and makes people who follow one of them each.
func (p *product) subscribers(ctx context.Context, url, frequency string, people, topics int) error {
	var text strings.Builder
	text.WriteString(digestDefinitions)
	for i := range topics {
		fmt.Fprintf(&text, "---\ntopic: topic-%d\ntitle: Topic %d\n", i, i)
	}
	if err := p.apply(ctx, text.String()); err != nil {
		return err
	}
	now := p.clock.Now().UnixMicro()
	if err := errors.Join(execute(ctx, url, peopleRows, now, people, groupSize), execute(ctx, url, addressRows), execute(ctx, url, limitRows), execute(ctx, url, subscriberRows, now, frequency, topics)); err != nil {
		return fmt.Errorf("fill: %w", err)
	}
	return nil
}

// publish takes items in. Their topics are found by matched.
func (p *product) publish(ctx context.Context, items ...map[string]any) error {
	var list []item.Item
	for _, fields := range items {
		raw, err := json.Marshal(fields)
		if err != nil {
			return err
		}
		list = append(list, item.Parse(raw))
	}
	results, err := p.engine.PublishOnce(ctx, p.workspace, list, nil)
	if err != nil {
		return err
	}
	for _, one := range results {
		if one.Outcome != item.Created {
			return fmt.Errorf("an item was %s: %v", one.Outcome, one.Error)
		}
	}
	return nil
}

// matched finds the topics of all items that wait for them, and nothing else.
func (p *product) matched(ctx context.Context) error {
	m, err := p.matcher()
	if err != nil {
		return err
	}
	for {
		if n, _, err := m.Step(ctx, p.clock.Now(), batch); err != nil || n == 0 {
			return err
		}
	}
}

func (p *product) matcher() (*matcher.Matcher, error) {
	index, err := topics.New(nil)
	if err != nil {
		return nil, err
	}
	return matcher.New(p.store, catalog.New(p.store, loader.Options{}), index, ingest.New(p.store, catalog.New(p.store, loader.Options{}), nil), nil), nil
}

// sendingAt is a sender whose time is an instant that lies ahead.
func (p *product) sendingAt(now time.Time) (*sender.Sender, error) {
	provider := memory.Provider()
	provider.Open = func(map[string]string) (channel.Channel, error) { return counting{accepted: p.accepted}, nil }
	index, err := topics.New(nil)
	if err != nil {
		return nil, err
	}
	return sender.New(sender.Config{
		Store: p.claims, Catalog: catalog.New(p.store, loader.Options{}), Clock: clock.NewManual(now), Failpoint: func(string) error { return nil }, Topics: index,
		Channels: channelpool.New([]channel.Provider{provider}, plain, sender.DefaultConcurrency, slog.New(slog.DiscardHandler)),
	}), nil
}

// digests measures the run of a day: its rows, and then its messages.
func (p *product) digests(ctx context.Context, s settings, r *round, url string) error {
	people := s.people
	if err := p.subscribers(ctx, url, "daily", people, digestTopics); err != nil {
		return err
	}
	var items []map[string]any
	for i := range digestItems {
		var of []string
		for n := range topicsOfItem {
			of = append(of, fmt.Sprintf("topic-%d", (i+n)%digestTopics))
		}
		items = append(items, map[string]any{"id": fmt.Sprint(i), "title": fmt.Sprintf("Item %d", i), "url": "https://www.example.org/item", "summary": note, "topics": of})
	}
	if err := errors.Join(p.publish(ctx, items...), p.matched(ctx), r.calm(ctx, url)); err != nil {
		return err
	}
	now := p.clock.Now()
	run := time.Date(now.Year(), now.Month(), now.Day(), 8, 30, 0, 0, time.UTC)
	for !run.Add(-time.Hour).After(now) { // its window has the items
		run = run.AddDate(0, 0, 1)
	}
	m, err := r.meter()
	if err != nil {
		return err
	}
	rows := fanout.New(p.claims, catalog.New(p.store, loader.Options{}), nil, nil)
	took, err := profiled(s.profile, digestRows, func() (time.Duration, error) {
		return inParallel(ctx, func(ctx context.Context) (int, error) { return rows.Step(ctx, run, batch) })
	})
	if err != nil {
		return err
	}
	if err := errors.Join(p.waiting(ctx, people), m.rate(digestRows, people, took), sameRows(ctx, r, url, people), r.calm(ctx, url)); err != nil {
		return err
	}
	if m, err = r.meter(); err != nil {
		return err
	}
	mails, err := p.sendingAt(run)
	if err != nil {
		return err
	}
	took, err = profiled(s.profile, digestMails, func() (time.Duration, error) {
		return inParallel(ctx, func(ctx context.Context) (int, error) {
			counts, err := mails.Step(ctx, run, batch)
			return counts.Claimed, err
		})
	})
	if err != nil {
		return err
	}
	if n := p.accepted.Load(); n != int64(people) {
		return fmt.Errorf("%d of %d digests were sent", n, people)
	}
	return m.rate(digestMails, people, took)
}

// waiting sees that there is a delivery for everybody.
func (p *product) waiting(ctx context.Context, people int) error {
	counts, err := p.store.Counts(ctx, p.workspace.ID)
	if n := counts.DeliveriesByStatus["scheduled"]; err == nil && n != int64(people) {
		err = fmt.Errorf("%d deliveries for %d subscribers", n, people)
	}
	return err
}

// sameRows is the limit of the rows of a run: they are inserted again, with their indexes, one page after the other as in the run.
func sameRows(ctx context.Context, r *round, url string, people int) error {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	if _, err := pool.Exec(ctx, sameTable); err != nil {
		return err
	}
	if err := r.calm(ctx, url); err != nil {
		return err
	}
	m, err := r.meter()
	if err != nil {
		return err
	}
	elapsed, last, all := clock.Monotonic(), int64(0), 0
	for all < people {
		n := 0
		if err := pool.QueryRow(ctx, samePage, last, batch).Scan(&last, &n); err != nil || n == 0 {
			return fmt.Errorf("%d of %d rows are there: %w", all, people, err)
		}
		all += n
	}
	return m.rate(digestProbe, people, elapsed())
}

// itemToAll measures an item that everybody follows, from its publication to the last message.
func (p *product) itemToAll(ctx context.Context, r *round, url, name string, people int) error {
	if err := errors.Join(p.subscribers(ctx, url, "immediate", people, 1), r.calm(ctx, url)); err != nil {
		return err
	}
	m, err := r.meter()
	if err != nil {
		return err
	}
	elapsed := clock.Monotonic()
	if err := errors.Join(p.publish(ctx, map[string]any{"id": "1", "title": "News", "topics": []string{"topic-0"}}), p.matched(ctx)); err != nil {
		return err
	}
	rows := fanout.New(p.claims, catalog.New(p.store, loader.Options{}), nil, nil)
	mails, err := p.sendingAt(p.clock.Now())
	if err != nil {
		return err
	}
	if _, err := inParallel(ctx, func(ctx context.Context) (int, error) {
		now := p.clock.Now()
		expanded, err := rows.Step(ctx, now, batch)
		if err != nil {
			return 0, err
		}
		counts, err := mails.Step(ctx, now, batch)
		return expanded + counts.Claimed, err
	}); err != nil {
		return err
	}
	if n := p.accepted.Load(); n != int64(people) {
		return fmt.Errorf("%d of %d got the item", n, people)
	}
	return m.rate(name, people, elapsed())
}

// copiedTopics are like the first one that programs have made, but for the value that their rules name.
const (
	copiedTopics = `
INSERT INTO topic (ws, id, name, source, hash, document, version, created_at, updated_at)
SELECT t.ws, t.id + n, t.name || n, t.source, md5(t.hash || n), replace(t.document, 'value-0', 'value-' || n), t.version, t.created_at, t.updated_at
FROM topic AS t, generate_series(1, $1::bigint) AS n WHERE t.source = 'data'`
	copiedTerms = `
INSERT INTO topic_term (ws, term, topic_id)
SELECT f.ws, replace(f.term, 'value-0', 'value-' || n), f.topic_id + n
FROM topic_term AS f, generate_series(1, $1::bigint) AS n`
)

// matchItems measures how long it takes to find the topic of an item among many.
func (p *product) matchItems(ctx context.Context, r *round, url, name string, n int) error {
	if err := p.apply(ctx, digestDefinitions); err != nil {
		return err
	}
	raw := json.RawMessage(`{"match": [{"tags": {"policy": {"any": ["value-0"]}}, "fields": {"document_type": "guide"}}]}`)
	if _, err := p.engine.Topics().Find(ctx, p.workspace, raw, p.clock.Now(), nil); err != nil {
		return err
	}
	if err := errors.Join(execute(ctx, url, copiedTerms, n-1), execute(ctx, url, copiedTopics, n-1), r.calm(ctx, url)); err != nil {
		return fmt.Errorf("fill: %w", err)
	}
	m, err := p.matcher()
	if err != nil {
		return err
	}
	var took []time.Duration
	for i := range matchedOnce {
		value := fmt.Sprintf("value-%d", i*stride%n)
		if err := p.publish(ctx, map[string]any{"id": fmt.Sprint(i), "title": "News", "tags": map[string]any{"policy": []string{value, "other"}}, "fields": map[string]any{"document_type": "guide"}}); err != nil {
			return err
		}
		elapsed := clock.Monotonic()
		if done, _, err := m.Step(ctx, p.clock.Now(), batch); err != nil || done != 1 {
			return fmt.Errorf("%d items were matched: %w", done, err)
		}
		took = append(took, elapsed())
	}
	found, err := countOf(ctx, url, `SELECT count(*) FROM topic_match`)
	if err != nil || found != matchedOnce {
		return fmt.Errorf("%d of %d items have a topic: %w", found, matchedOnce, err)
	}
	return r.lateness(name, took)
}

// clickServer measures the requests by which mail programs end subscriptions (RFC 8058), each with a link of its own.
func clickServer(ctx context.Context, r *round, b *binary, url string) (err error) {
	const secret = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
	keys, err := key.ParseLinkKeys(secret)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "carillon-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.WriteFile(filepath.Join(dir, "links"), []byte(secret), 0o600); err != nil {
		return err
	}
	err = onProduct(ctx, url, func(p *product) error { return p.subscribers(ctx, url, "daily", clicks, 1) })
	if err != nil {
		return err
	}
	first, err := countOf(ctx, url, `SELECT id FROM topic`)
	if err != nil {
		return err
	}
	ws, err := countOf(ctx, url, `SELECT id FROM workspace`)
	if err != nil {
		return err
	}
	tokens := make([]string, clicks)
	for i := range tokens {
		about := topic.Leaving{Contact: subject.ContactID(i + 1), Topic: subject.TopicID(first)}.String()
		if tokens[i], err = keys.Sign(key.Link{Purpose: key.LinkUnsubscribe, Workspace: int64(ws), Subject: about, Expires: time.Now().AddDate(1, 0, 0)}); err != nil {
			return err
		}
	}
	p, err := b.serve(ctx, url, "--link-key-file", filepath.Join(dir, "links"), "--trust-proxy", "127.0.0.1/32")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	if err := r.calm(ctx, url); err != nil {
		return err
	}
	plain := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: callers}, Timeout: answersWithin}
	m, err := r.meter(p.pid)
	if err != nil {
		return err
	}
	elapsed := clock.Monotonic()
	err = atOnce(callers, clicks, func(i int) (err error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.address+"/u/"+tokens[i], strings.NewReader("List-Unsubscribe=One-Click"))
		if err != nil {
			return err
		}
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		request.Header.Set("X-Forwarded-For", fmt.Sprintf("10.%d.%d.%d", i>>16&255, i>>8&255, i&255)) // each address has a limit of its own
		answer, err := plain.Do(request)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, answer.Body.Close()) }()
		if answer.StatusCode != http.StatusOK {
			return fmt.Errorf("a click was answered with %s", answer.Status)
		}
		_, err = io.Copy(io.Discard, answer.Body)
		return err
	})
	if err != nil {
		return err
	}
	took := elapsed()
	left, err := countOf(ctx, url, `SELECT count(*) FROM subscription WHERE ended_at = 0`)
	if err != nil || left != 0 {
		return fmt.Errorf("%d subscriptions are left: %w", left, err)
	}
	return m.rate(clickOurs, clicks, took)
}
