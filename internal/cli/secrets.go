package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/secret"
)

type secretsCmd struct {
	Set    setSecretCmd    `cmd:"" help:"Set a secret of channels; the value comes from the standard input."`
	List   listSecretsCmd  `cmd:"" help:"List the names of secrets; values are never shown."`
	Remove removeSecretCmd `cmd:"" help:"Remove a secret."`
}

type setSecretCmd struct {
	Name string `arg:"" help:"What definitions call it: {secret: NAME}."`
	remote
	jsonOnly
}

// Help is the long help.
func (setSecretCmd) Help() string {
	return `The value is what the standard input holds, without the line break at its end. It is never taken from the
command line, which everybody on a machine can see:

  carillon secrets set SMS_TOKEN < token.txt
  pass show sms/token | carillon secrets set SMS_TOKEN

The server seals it with its key (CARILLON_SECRET_KEY or --secret-key-file of carillon serve). Nobody can read it
again. Channels that use it take the new value within ten seconds. Needs a key with the scope secrets.`
}

// Run sets a secret.
func (c *setSecretCmd) Run(s *session) error {
	raw, err := io.ReadAll(io.LimitReader(s.In, secret.MaxValue+3))
	if err != nil {
		return fmt.Errorf("read the standard input: %w", err)
	}
	text, _ := strings.CutSuffix(string(raw), "\n")
	text, _ = strings.CutSuffix(text, "\r")
	if text == "" {
		return errors.New("the standard input is empty\n    carillon secrets set " + c.Name + " < FILE")
	}
	if err := secret.CheckValue(secret.New(text)); err != nil {
		return err
	}
	changed, err := call(c.remote, func(api *client.Client) (client.SecretChanged, error) { return api.SetSecret(s.ctx, c.Name, text) })
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(s.Out, changed)
	}
	fmt.Fprintln(s.Out, "set", changed.Name)
	return nil
}

type listSecretsCmd struct {
	remote
	output
}

// Help is the long help.
func (listSecretsCmd) Help() string {
	return `state is usable, old_key (usable, and sealed with a key that is being exchanged: set it again before that key is
taken away) or sealed (the server's keys do not open it).`
}

// Run lists secrets.
func (c *listSecretsCmd) Run(s *session) error {
	list, err := call(c.remote, func(api *client.Client) (client.Secrets, error) { return api.Secrets(s.ctx) })
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(s.Out, list)
	}
	rows := make([][]string, len(list.Items))
	for i, x := range list.Items {
		rows[i] = []string{x.Name, x.State, c.at(x.UpdatedAt)}
	}
	s.table([]string{"name", "state", "updated_at"}, rows)
	return nil
}

type removeSecretCmd struct {
	Names []string `arg:"" name:"name" help:"The secret's name; several are done one after the other."`
	remote
	jsonOnly
}

// Help is the long help.
func (removeSecretCmd) Help() string {
	return `Messages of channels that use it fail for now, with the reason secret_missing, and are tried again.
Needs a key with the scope secrets.`
}

// Run removes a secret.
func (c *removeSecretCmd) Run(s *session) error {
	return oneByOne(s, c.remote, c.JSON, c.Names, func(api *client.Client, name string) (client.SecretChanged, error) {
		return api.RemoveSecret(s.ctx, name)
	}, func(changed client.SecretChanged) error {
		fmt.Fprintln(s.Out, "removed", changed.Name)
		return nil
	})
}
