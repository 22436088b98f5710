package definition

import (
	"maps"
	"slices"
)

// SecretChange says that an apply would change where a definition's secrets go: it changes a reference to a secret, or the provider or
// a setting next to one. A caller who may only write definitions may not do that: they could send a secret to an address of their own
// and read it there.
type SecretChange struct {
	Kind    Kind     `json:"kind"`
	Name    string   `json:"name"`
	Fields  []string `json:"fields"`  // provider and settings.NAME that are added, changed or removed, sorted
	Secrets []string `json:"secrets"` // the secrets that it refers to now or did before, sorted: secret NAME, env NAME, file PATH
}

// Reference returns where the value of a setting is kept, such as secret SMS_TOKEN, or "" when it is a literal.
func (s Setting) Reference() string {
	switch {
	case s.Secret != "":
		return "secret " + s.Secret
	case s.Env != "":
		return "env " + s.Env
	case s.File != "":
		return "file " + s.File
	}
	return ""
}

// holder is a definition that may refer to secrets.
type holder struct {
	provider string
	settings map[string]Setting
}

// SecretChanges compares the channels and sinks of a set with those in force; nil means that none are in force. Definitions are
// compared by content and by name: a channel under a new name refers to its secrets for the first time. All settings count except
// those that affect only the message (SettingInfo.Free).
func SecretChanges(inForce, next *Set, providers []ProviderInfo) []SecretChange {
	var all []SecretChange
	for _, kind := range []Kind{KindChannel, KindSink} {
		if kind == KindSink {
			providers = nil // providers of channels; no setting of a sink is only about the message
		}
		before, after := holders(inForce, kind), holders(next, kind)
		names := map[string]bool{}
		for name := range before {
			names[name] = true
		}
		for name := range after {
			names[name] = true
		}
		for _, name := range slices.Sorted(maps.Keys(names)) {
			if fields, secrets := compareHolders(before[name], after[name], providers); len(fields) > 0 {
				all = append(all, SecretChange{Kind: kind, Name: name, Fields: fields, Secrets: secrets})
			}
		}
	}
	return all
}

func holders(s *Set, kind Kind) map[string]holder {
	all := map[string]holder{}
	if s == nil {
		return all
	}
	if kind == KindSink {
		for _, sink := range s.Sinks() {
			all[sink.Name] = holder{sink.Provider, sink.Settings}
		}
		return all
	}
	for _, c := range s.Channels() {
		all[c.Key] = holder{c.Provider, c.Settings}
	}
	return all
}

// compareHolders returns the differences and the secrets that they concern; nothing when neither definition refers to a secret.
func compareHolders(before, after holder, providers []ProviderInfo) (fields, secrets []string) {
	refers := map[string]bool{}
	for _, h := range []holder{before, after} {
		for _, s := range h.settings {
			if at := s.Reference(); at != "" {
				refers[at] = true
			}
		}
	}
	if len(refers) == 0 {
		return nil, nil
	}
	if before.provider != after.provider {
		fields = append(fields, "provider")
	}
	names := map[string]bool{}
	for _, h := range []holder{before, after} {
		for name := range h.settings {
			names[name] = true
		}
	}
	free := freeSettings(after.provider, providers)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		old, wasSet := before.settings[name]
		now, isSet := after.settings[name]
		literal := old.Reference() == "" && now.Reference() == ""
		if old == now && wasSet == isSet || literal && slices.Contains(free, name) {
			continue
		}
		fields = append(fields, "settings."+name)
	}
	return fields, slices.Sorted(maps.Keys(refers))
}

func freeSettings(provider string, providers []ProviderInfo) []string {
	var free []string
	for _, p := range providers {
		for _, s := range p.Settings {
			if p.Name == provider && s.Free && !s.Secret {
				free = append(free, s.Name)
			}
		}
	}
	return free
}
