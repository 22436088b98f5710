package app

import (
	"errors"
	"slices"
	"strings"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/channel/httpchan"
	"github.com/carillonhq/carillon/internal/channel/inbox"
	"github.com/carillonhq/carillon/internal/channel/memory"
	"github.com/carillonhq/carillon/internal/channel/smtp"
	"github.com/carillonhq/carillon/internal/channel/webhook"
	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/loader"
	"github.com/carillonhq/carillon/internal/engine/plumbing/channelpool"
	"github.com/carillonhq/carillon/internal/outbound"
	"github.com/carillonhq/carillon/internal/sink"
	"github.com/carillonhq/carillon/internal/sink/file"
	"github.com/carillonhq/carillon/internal/sink/nats"
	sinkwebhook "github.com/carillonhq/carillon/internal/sink/webhook"
	"github.com/carillonhq/carillon/internal/sink/workflow"
)

// Providers lists the built-in providers of channels. For checking definitions, where nothing is opened, client and
// clk may be nil.
func Providers(client *outbound.Client, clk clock.Clock) []channel.Provider {
	return []channel.Provider{
		memory.Provider(), inbox.Provider(), httpchan.Provider(client),
		smtp.Provider(smtp.Options{Dial: client.Dial, Clock: clk}), webhook.Provider(client, clk),
	}
}

// Sinks lists the built-in providers of sinks that lead out of the process; files are below folder. The engine adds the provider workflow,
// which leads into itself. For checking definitions, where nothing is opened, client and clk may
// be nil, and folder empty.
func Sinks(client *outbound.Client, clk clock.Clock, folder string) []sink.Provider {
	return []sink.Provider{
		file.Provider(file.Options{Folder: folder, Clock: clk}), nats.Provider(nats.Options{Dial: client.Dial}), sinkwebhook.Provider(client, clk),
	}
}

// DefinitionOptions says which providers and settings definitions may name: those of channels, the built-in ones of sinks, and further ones
// of sinks.
func DefinitionOptions(providers []channel.Provider, sinks ...sink.Provider) loader.Options {
	known := append(append(Sinks(nil, nil, ""), workflow.Provider(nil)), sinks...)
	slices.SortFunc(known, func(a, b sink.Provider) int { return strings.Compare(a.Name, b.Name) })
	return loader.Options{Providers: channelpool.Providers(providers), Sinks: describe(known)}
}

// describe describes the providers of sinks for validating definitions.
func describe(list []sink.Provider) []definition.ProviderInfo {
	all := make([]definition.ProviderInfo, len(list))
	for i, p := range list {
		all[i] = definition.ProviderInfo{Name: p.Name}
		for _, s := range p.Settings {
			all[i].Settings = append(all[i].Settings, definition.SettingInfo{Name: s.Name, Required: s.Required, Secret: s.Secret})
		}
		all[i].Check = func(settings map[string]string) (string, error) {
			err := p.Check(settings)
			var wrong *sink.SettingError
			if errors.As(err, &wrong) {
				return wrong.Setting, err
			}
			return "", err
		}
	}
	return all
}
