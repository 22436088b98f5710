package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/rowreader"
)

type putContactCmd struct {
	onContact
	Fields []string `arg:"" optional:"" name:"field" placeholder:"FIELD=VALUE" help:"A field and its value; attributes.NAME:TYPE=VALUE is read as number, bool, date or datetime; :datetime=now is the present instant."`
	Merge  bool     `name:"merge" help:"Keep what is not mentioned."`
	Unset  []string `name:"unset" sep:"none" placeholder:"FIELD" help:"With --merge: take a value away. May be repeated."`
	zoned
	jsonOnly
}

// Help is the long help.
func (putContactCmd) Help() string {
	return `Fields are name, locale, timezone, persona, place, the addresses email, sms, whatsapp, push, inbox and webhook, limits of
their own such as cadence.max_per_day, and attributes.NAME for whatever else you know of them.

  carillon contacts put ada name='Ada Lovelace' email=ada@example.org timezone=Europe/London persona=Manager
  carillon contacts put ada --merge cadence.max_per_day=3 attributes.points:number=7 --unset persona`
}

// Validate refuses what would have no effect.
func (c *putContactCmd) Validate() error {
	if len(c.Unset) > 0 && !c.Merge {
		return errors.New("--unset goes with --merge: without it, what is not mentioned goes away")
	}
	return nil
}

// Run writes a contact.
func (c *putContactCmd) Run(s *session) error {
	object, err := c.object()
	if err != nil {
		return err
	}
	raw, err := json.Marshal(object)
	if err != nil {
		return err
	}
	if !c.Merge {
		var in client.ContactInput
		if err := json.Unmarshal(raw, &in); err != nil {
			return err
		}
		one, err := call(c.remote, func(api *client.Client) (client.Contact, error) { return api.PutContact(s.ctx, in) })
		return s.wrote(c.JSON, one, nil, err, "written", one.ID)
	}
	answer, err := call(c.remote, func(api *client.Client) (client.ContactsAnswer, error) {
		return api.PostRawContacts(s.ctx, []json.RawMessage{raw})
	})
	if err != nil || len(answer.Items) == 0 {
		return err
	}
	item := answer.Items[0]
	if item.Outcome == "failed" {
		return &client.Problem{Detail: item.Message, Code: item.Reason, Field: item.Field, Hint: item.Hint}
	}
	return s.wrote(c.JSON, answer, nil, nil, item.Outcome, item.ID)
}

// object is the contact as it is written: fields as a file's columns would be read.
func (c *putContactCmd) object() (map[string]any, error) {
	shape := rowreader.Contacts()
	shape.Fields = slices.DeleteFunc(shape.Fields, func(name string) bool { return name == "id" }) // it is the argument
	var rules []string
	var row rowreader.Row
	for i, written := range c.Fields {
		target, value, ok := strings.Cut(written, "=")
		if !ok || target == "" || value == "" {
			return nil, fmt.Errorf("%q is not a field; write FIELD=VALUE, such as email=ada@example.org, and --unset to take one away", written)
		}
		column := fmt.Sprint(i)
		rules, row.Cells = append(rules, target+"="+column), append(row.Cells, rowreader.Cell{Column: column, Text: orNow(target, value)})
	}
	m, err := rowreader.NewMapping(shape, rules, nil, nil, c.Timezone.Location)
	if err != nil {
		return nil, err
	}
	object, wrong := m.Object(row)
	if wrong != nil {
		return nil, errors.New(strings.TrimSpace(wrong.Field + ": " + wrong.Message))
	}
	for _, target := range c.Unset {
		path := target
		if long, ok := shape.Short[target]; ok {
			path = long
		}
		group, name, nested := strings.Cut(path, ".")
		at := object
		if nested {
			inner, ok := object[group].(map[string]any)
			if !ok {
				inner = map[string]any{}
				object[group] = inner
			}
			at = inner
		} else {
			name = path
		}
		if _, twice := at[name]; twice {
			return nil, fmt.Errorf("the field %s is given a value, and --unset", target)
		}
		at[name] = nil
	}
	object["id"] = c.ID
	return object, nil
}
