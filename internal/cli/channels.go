package cli

import (
	"fmt"

	"github.com/carillonhq/carillon/client"
)

type channelsCmd struct {
	List listChannelsCmd `cmd:"" help:"List the defined channels and their state."`
	Test testChannelCmd  `cmd:"" help:"Send one real message through a channel, now."`
}

type listChannelsCmd struct {
	remote
	output
}

// Help is the long help.
func (listChannelsCmd) Help() string {
	return `The columns from breaker on describe the requests of the process that answers, since its start or since the channel
was changed. breaker is closed (messages pass), open (the provider is away) or half_open (the next message finds
out whether it is back).`
}

// Run lists channels.
func (c *listChannelsCmd) Run(s *session) error {
	list, err := call(c.remote, func(api *client.Client) (client.Channels, error) { return api.Channels(s.ctx) })
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(s.Out, list)
	}
	rows := make([][]string, len(list.Items))
	for i, x := range list.Items {
		rows[i] = []string{
			x.Key, x.Provider, x.OnUnknown, x.Rate, x.State.Breaker, c.at(x.State.OpenUntil), fmt.Sprint(x.State.InFlight),
			c.at(x.State.LastAcceptedAt), c.at(x.State.LastFailedAt), x.State.LastFailure,
		}
	}
	s.table([]string{"channel", "provider", "on_unknown", "rate", "breaker", "open_until", "in_flight", "last_accepted", "last_failed", "failure"}, rows)
	return nil
}

type testChannelCmd struct {
	Channel string `arg:"" help:"Its key, such as sms:twilio; email is email:default."`
	To      string `name:"to" required:"" placeholder:"ADDRESS" help:"Where to."`
	Subject string `name:"subject" placeholder:"TEXT" help:"The subject; one of ours when left out."`
	Text    string `name:"text" placeholder:"TEXT" help:"The message; a default when left out."`
	remote
	jsonOnly
}

// Help is the long help.
func (testChannelCmd) Help() string {
	return `The server hands the message to the provider as it does every other one, and the command waits for the answer. The
breaker, only_to, --only-to of the server and the suppression of people count; limits and rate do not, and there is no
delivery. It is audited. Exit status 1: the message was not accepted, or the outcome is unknown. Needs a key with the scope operate.`
}

// Run tests a channel.
func (c *testChannelCmd) Run(s *session) error {
	tested, err := call(c.remote, func(api *client.Client) (client.ChannelTested, error) {
		return api.TestChannel(s.ctx, c.Channel, client.ChannelTest{To: c.To, Subject: c.Subject, Text: c.Text})
	})
	if err != nil {
		return err
	}
	if c.JSON {
		err = printJSON(s.Out, tested)
	} else {
		word := "not accepted"
		if tested.Accepted {
			word = "accepted"
		}
		took := ""
		if tested.Outcome != "none" {
			took = fmt.Sprintf("%d ms", tested.Milliseconds)
		}
		s.fields("result", word, "outcome", tested.Outcome, "reason", because(tested.Reason, tested.Message), "error", tested.Error,
			"provider_id", tested.ProviderID, "took", took)
	}
	if err == nil && !tested.Accepted {
		return exit(ExitFailed)
	}
	return err
}
