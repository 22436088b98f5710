package app

import (
	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/channel/httpchan"
	"github.com/carillonhq/carillon/internal/channel/inbox"
	"github.com/carillonhq/carillon/internal/channel/memory"
	"github.com/carillonhq/carillon/internal/channel/smtp"
	"github.com/carillonhq/carillon/internal/channel/webhook"
	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/definition/loader"
	"github.com/carillonhq/carillon/internal/engine/plumbing/channelpool"
	"github.com/carillonhq/carillon/internal/outbound"
)

// Providers lists the built-in providers of channels. For checking definitions, where nothing is opened, client and
// clk may be nil.
func Providers(client *outbound.Client, clk clock.Clock) []channel.Provider {
	return []channel.Provider{
		memory.Provider(), inbox.Provider(), httpchan.Provider(client),
		smtp.Provider(smtp.Options{Dial: client.Dial, Clock: clk}), webhook.Provider(client, clk),
	}
}

// DefinitionOptions says which providers and settings definitions may name.
func DefinitionOptions(providers []channel.Provider) loader.Options {
	return loader.Options{Providers: channelpool.Providers(providers)}
}
