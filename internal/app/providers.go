package app

import (
	"slices"
	"strings"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/channel/httpchan"
	"github.com/carillonhq/carillon/internal/channel/inbox"
	"github.com/carillonhq/carillon/internal/channel/memory"
	"github.com/carillonhq/carillon/internal/channel/smtp"
	"github.com/carillonhq/carillon/internal/channel/telnyx"
	"github.com/carillonhq/carillon/internal/channel/twilio"
	"github.com/carillonhq/carillon/internal/channel/webhook"
	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/definition/loader"
	"github.com/carillonhq/carillon/internal/engine/plumbing/channelpool"
	"github.com/carillonhq/carillon/internal/engine/plumbing/sinkpool"
	"github.com/carillonhq/carillon/internal/expr"
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
		smtp.Provider(smtp.Options{Dial: client.Dial, Clock: clk}), webhook.Provider(client, clk), twilio.Provider(client), telnyx.Provider(client),
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
// of sinks. Functions of a binary of one's own are the caller's to add.
func DefinitionOptions(providers []channel.Provider, sinks ...sink.Provider) loader.Options {
	known := append(append(Sinks(nil, nil, ""), workflow.Provider(nil)), sinks...)
	slices.SortFunc(known, func(a, b sink.Provider) int { return strings.Compare(a.Name, b.Name) })
	return loader.Options{Providers: channelpool.Providers(providers), Sinks: sinkpool.Providers(known), Audiences: []*expr.Function{}}
}
