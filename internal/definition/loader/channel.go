package loader

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/cadence"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/portable"
	"github.com/carillonhq/carillon/internal/flow"
	"github.com/carillonhq/carillon/internal/reply"
	"github.com/carillonhq/carillon/internal/suggest"
)

const (
	// DefaultJitter spreads retries after an outage without moving any by much.
	DefaultJitter = 20
	// DefaultTimezone and DefaultLocale are the defaults of a workspace.
	DefaultTimezone = "UTC"
	DefaultLocale   = "en"
	// maxTimeout is as long as any provider plausibly takes; a stopping process waits for requests in flight.
	maxTimeout = 5 * time.Minute
	// maxConcurrency catches typing mistakes: each request in flight holds a connection.
	maxConcurrency = 1000
)

// defaultRetry is the backoff of product decision 31, which covers an outage of an hour: after that a person handles the instance, or the
// delivery moves to its fallback. A delivery without a fallback is retried for more than a day.
func defaultRetry() definition.Retry {
	short := []time.Duration{5 * time.Minute, 15 * time.Minute, time.Hour}
	long := append(slices.Clone(short), 2*time.Hour, 4*time.Hour, 8*time.Hour, 12*time.Hour)
	return definition.Retry{Backoff: short, Patient: long, Jitter: DefaultJitter, Then: definition.RetryFail, OnCrash: definition.CrashNow}
}

// defaultWorkspace has the limits that apply when none are set (A37, product decision 60).
func defaultWorkspace() definition.Workspace {
	return definition.Workspace{
		Timezone: DefaultTimezone, Locale: DefaultLocale, Retry: defaultRetry(),
		Cadence: cadence.Rules{Policy: cadence.Default()}, Limits: cadence.LayerDefault,
	}
}

func (r *reader) workspace(root *portable.Node) definition.Workspace {
	w := defaultWorkspace()
	f, ok := r.fields(root, "workspace")
	if !ok {
		return w
	}
	if n := f.get("timezone"); n != nil {
		if text, ok := r.text(n); ok {
			if r.zone(n) {
				w.Timezone = text
			}
		}
	}
	if locale := r.locale(f.get("locale")); locale != "" {
		w.Locale = locale
	}
	if n := f.get("base_url"); n != nil {
		if text, ok := r.text(n); ok {
			if u, err := url.Parse(text); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
				r.invalid(n.Pos, fmt.Sprintf("%q is not the base of links", text), "such as https://carillon.example.org")
			} else {
				w.BaseURL = strings.TrimRight(text, "/")
			}
		}
	}
	if n := f.get("retry"); n != nil {
		w.Retry = r.retry(n)
	}
	if n := f.get("cadence"); n != nil {
		w.Cadence, w.Limits = r.cadence(n), cadence.LayerWorkspace
	}
	return w
}

func (r *reader) channel(root *portable.Node) *definition.Channel {
	c := &definition.Channel{Key: r.name, OnUnknown: definition.OnUnknownResend}
	c.Kind, _, _ = strings.Cut(r.name, ":")
	f, ok := r.fields(root, "channel")
	if !ok {
		return c
	}
	r.need(f)
	info := r.configured(root, f, r.opts.Providers, &c.Provider, &c.Settings)
	if info != nil && info.Kinds != nil && !r.stored && !slices.Contains(info.Kinds, c.Kind) {
		r.invalid(f.get("provider").Pos, fmt.Sprintf("provider %s does not serve channels of the kind %s", info.Name, c.Kind), "its kinds: "+strings.Join(info.Kinds, ", "))
	}
	r.unknowns(c, f, info)
	r.flow(c, f)
	if n := f.get("keywords"); n != nil {
		c.Keywords = r.keywords(n)
	}
	if d, ok := r.duration(f.get("timeout")); ok {
		if c.Timeout = d.Exact(); c.Timeout > maxTimeout {
			r.invalid(f.get("timeout").Pos, fmt.Sprintf("a request takes at most %s", "5m"), "")
		}
	}
	return c
}

// keywords reads the words of a channel for keywords.
func (r *reader) keywords(n *portable.Node) reply.Words {
	f, ok := r.fields(n, "keywords")
	if !ok {
		return nil
	}
	words := reply.Words{}
	for _, k := range reply.Keywords() {
		list := f.get(string(k))
		if list != nil && list.Kind == portable.List && len(list.Items) == 0 {
			r.invalid(list.Pos, "an empty list would leave people without a word", "name one, or remove the line for the built-in ones")
		}
		for _, item := range r.items(list) {
			text, ok := r.text(item)
			switch {
			case !ok:
			case reply.Blank(text):
				r.invalid(item.Pos, "a word has a letter or a digit", "")
			case words.Has(text):
				r.invalid(item.Pos, fmt.Sprintf("%q stands there already", text), "each word has one meaning")
			default:
				words[k] = append(words[k], text)
			}
		}
	}
	return words
}

// configured reads the provider and the settings of a channel or a sink, and checks the settings if the provider is known. It returns nil for a
// provider that is unknown or unchecked.
func (r *reader) configured(root *portable.Node, f fields, known []definition.ProviderInfo, provider *string, all *map[string]definition.Setting) *definition.ProviderInfo {
	var info *definition.ProviderInfo
	if n := f.get("provider"); n != nil {
		*provider, _ = r.defName(n)
		info = r.provider(n, *provider, known)
	}
	settings := f.get("settings")
	*all = r.settings(settings, info)
	if info != nil && len(*all) == given(settings) {
		r.needSettings(root, settings, info)
		r.checkSettings(root, settings, info, *all)
	}
	return info
}

// flow reads the channel's rate and its allowlist.
func (r *reader) flow(c *definition.Channel, f fields) {
	if n := f.get("rate"); n != nil {
		if text, ok := r.text(n); ok {
			rate, err := flow.ParseRate(text)
			if err != nil {
				r.refuse(n, err)
			}
			c.Rate = rate
		}
	}
	if c.Concurrency = r.count(f.get("concurrency")); c.Concurrency > maxConcurrency {
		r.invalid(f.get("concurrency").Pos, fmt.Sprintf("at most %d requests can be in flight at once", maxConcurrency), "")
		c.Concurrency = maxConcurrency
	}
	for _, item := range r.items(f.get("only_to")) {
		text, ok := r.text(item)
		if !ok {
			continue
		}
		if err := flow.CheckPattern(text); err != nil {
			r.invalid(item.Pos, err.Error(), "")
			continue
		}
		c.OnlyTo = append(c.OnlyTo, text)
	}
	if n := f.get("only_to"); n != nil && n.Kind == portable.List && len(n.Items) == 0 {
		r.invalid(n.Pos, "an empty list would allow everybody", "name who may be written to, or remove the line")
	}
}

// unknowns reads what follows a send of unknown outcome (P3, P4).
func (r *reader) unknowns(c *definition.Channel, f fields, info *definition.ProviderInfo) {
	n := f.get("on_unknown")
	usual := definition.OnUnknownResend
	if info != nil && info.Forgetful {
		usual = definition.OnUnknownHold
	}
	c.OnUnknown = r.word(n, "on_unknown", usual, []string{definition.OnUnknownResend, definition.OnUnknownHold, definition.OnUnknownVerify})
	if d, ok := r.duration(f.get("idempotency_ttl")); ok {
		c.KeyLife = d.Exact()
		if c.OnUnknown != definition.OnUnknownResend {
			r.invalid(f.get("idempotency_ttl").Pos, "idempotency_ttl bounds on_unknown: resend only: hold never sends again, verify asks first", "remove it")
		}
	}
	if c.OnUnknown != definition.OnUnknownVerify || info == nil || r.stored {
		return
	}
	const hint = "write resend if it recognises a repeated idempotency key, else hold"
	if info.Verifies == nil {
		r.invalid(n.Pos, fmt.Sprintf("provider %s cannot look up the outcome of a message", info.Name), hint)
		return
	}
	var lacking []string
	for _, name := range info.Verifies {
		if _, ok := c.Settings[name]; !ok {
			lacking = append(lacking, name)
		}
	}
	if len(lacking) > 0 {
		r.report(definition.CodeMissing, n.Pos, fmt.Sprintf("on_unknown: verify needs the %s %s of provider %s", plural("setting", lacking), sentence(lacking), info.Name), hint)
	}
}

// checkSettings has the provider check the settings.
func (r *reader) checkSettings(root, settings *portable.Node, info *definition.ProviderInfo, given map[string]definition.Setting) {
	if info.Check == nil || r.stored {
		return
	}
	values := make(map[string]string, len(given))
	for name, s := range given {
		values[name] = s.Value
	}
	wrong, err := info.Check(values)
	if err == nil {
		return
	}
	at := root.Pos
	if settings != nil {
		at = settings.Pos
		if n := settings.Get(wrong); n != nil {
			at = n.Pos
		}
	}
	r.invalid(at, err.Error(), "")
}

// given counts the settings that the definition writes.
func given(settings *portable.Node) int {
	if settings == nil {
		return 0
	}
	if settings.Kind != portable.Map || settings.Partial {
		return -1
	}
	return len(settings.Fields)
}

// plural is the name of one thing, or of several.
func plural(one string, of []string) string {
	if len(of) == 1 {
		return one
	}
	return one + "s"
}

func (r *reader) needSettings(root, settings *portable.Node, info *definition.ProviderInfo) {
	at := root.Pos
	if settings != nil {
		at = settings.Pos
	}
	var lacking []string
	for _, s := range info.Settings {
		if s.Required && (settings == nil || settings.Get(s.Name) == nil) {
			lacking = append(lacking, s.Name)
		}
	}
	if len(lacking) > 0 && !r.stored {
		r.report(definition.CodeMissing, at, fmt.Sprintf("provider %s needs the %s %s", info.Name, plural("setting", lacking), sentence(lacking)), "")
	}
}

// provider finds a provider among those that are known; nil when it is unknown or none are given.
func (r *reader) provider(n *portable.Node, name string, known []definition.ProviderInfo) *definition.ProviderInfo {
	if known == nil || name == "" {
		return nil
	}
	var names []string
	for i := range known {
		if known[i].Name == name {
			return &known[i]
		}
		names = append(names, known[i].Name)
	}
	hint := suggest.DidYouMean(name, names)
	if hint == "" {
		hint = "providers are " + sentence(names)
	}
	r.report(definition.CodeReference, n.Pos, fmt.Sprintf("no provider named %q", name), hint)
	return nil
}

// settings reads a provider's settings: literals, or references to secrets.
func (r *reader) settings(n *portable.Node, info *definition.ProviderInfo) map[string]definition.Setting {
	if n == nil || n.Kind == portable.Broken {
		return nil
	}
	if n.Kind != portable.Map {
		r.wrong(n, "a map of settings", "")
		return nil
	}
	all := make(map[string]definition.Setting, len(n.Fields))
	for _, f := range n.Fields {
		secret := false
		if info != nil {
			var names []string
			known := false
			for _, s := range info.Settings {
				names = append(names, s.Name)
				if s.Name == f.Key.Text {
					known, secret = true, s.Secret
				}
			}
			if !known && !r.stored {
				hint := suggest.DidYouMean(f.Key.Text, names)
				if hint == "" {
					hint = "its settings are " + sentence(names)
				}
				if len(names) == 0 {
					hint = "it has no settings"
				}
				r.report(definition.CodeUnknownKey, f.Key.Pos, fmt.Sprintf("provider %s has no setting %q", info.Name, f.Key.Text), hint)
				continue
			}
		}
		if s, ok := r.setting(f.Value, secret); ok {
			all[f.Key.Text] = s
		}
	}
	return all
}

func (r *reader) setting(n *portable.Node, secret bool) (definition.Setting, bool) {
	const places = "write {secret: NAME}, {env: NAME} or {file: PATH}"
	if n.Kind != portable.Map {
		text, ok := r.text(n)
		if ok && secret {
			r.invalid(n.Pos, "a secret is never written into a definition", places)
			return definition.Setting{}, false
		}
		return definition.Setting{Value: text}, ok
	}
	if len(n.Fields) != 1 || !slices.Contains([]string{"env", "file", "secret"}, n.Fields[0].Key.Text) {
		if !n.Partial {
			r.invalid(n.Pos, "a setting is a text, or the place of a secret", places)
		}
		return definition.Setting{}, false
	}
	at := n.Fields[0].Value
	place, ok := r.text(at)
	if !ok {
		return definition.Setting{}, false
	}
	switch n.Fields[0].Key.Text {
	case "file":
		return definition.Setting{File: place}, true
	case "secret":
		if !isMadeOf(place, "_-.") {
			r.invalid(at.Pos, fmt.Sprintf("%q is not the name of a secret", place), "")
			return definition.Setting{}, false
		}
		if r.opts.Secret != nil && !r.stored {
			if err := r.opts.Secret(place); err != nil {
				r.warn(definition.CodeReference, at.Pos, err.Error(), "carillon secrets set "+place)
			}
		}
		return definition.Setting{Secret: place}, true
	}
	if !isMadeOf(place, "_") {
		r.invalid(at.Pos, fmt.Sprintf("%q is not the name of an environment variable", place), "")
		return definition.Setting{}, false
	}
	return definition.Setting{Env: place}, true
}

// channelRef reads the channel of a workflow. An undefined channel is no error: its messages wait (C44).
func (r *reader) channelRef(n *portable.Node, set *definition.Set) (string, bool) {
	if n != nil && n.Kind == portable.List && len(n.Items) > 1 {
		others := make([]string, len(n.Items)-1)
		for i, item := range n.Items[1:] {
			others[i] = item.Text
		}
		r.wrong(n, "a text", fmt.Sprintf("write channel: %s, and the others as fallback: [%s]", n.Items[0].Text, strings.Join(others, ", ")))
		return "", false
	}
	key, ok := r.channelKey(n)
	if !ok {
		return "", false
	}
	if set.Channel(key) == nil {
		r.unresolved(reference{definition.KindChannel, key, n.Text}, n.Pos, r.noChannel(key), !r.opts.Whole)
	}
	return key, true
}

func (r *reader) noChannel(key string) string {
	names := r.defined(definition.KindChannel)
	for _, kind := range addressKinds() {
		names = append(names, kind+":default")
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name == key })
	if hint := suggest.DidYouMean(key, names); hint != "" {
		return hint
	}
	if r.opts.Whole {
		return "define it with channel: " + key + "; one that is in force is found with --server"
	}
	return "define it with channel: " + key
}
