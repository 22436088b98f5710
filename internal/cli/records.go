package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/rowreader"
	"github.com/carillonhq/carillon/internal/strictjson"
)

type recordsCmd struct {
	Put    putRecordCmd     `cmd:"" help:"Write a record: make it, or have it be this and nothing else."`
	Import importRecordsCmd `cmd:"" help:"Take in the rows of a CSV or NDJSON file as records."`
	List   listRecordsCmd   `cmd:"" help:"List the records of a type, the newest first; without a type, the types."`
	Show   showRecordCmd    `cmd:"" help:"Show a record."`
	Delete deleteRecordCmd  `cmd:"" help:"Take a record away."`
}

type onRecord struct {
	Type string `arg:"" help:"The kind of thing, such as kiosk."`
	ID   string `arg:"" help:"Your own id, unique in its type."`
	remote
}

// onRecords are the records of one type that a command is about.
type onRecords struct {
	Type string   `arg:"" help:"The kind of thing, such as kiosk."`
	IDs  []string `arg:"" name:"id" help:"Your own id, unique in its type; several are done one after the other."`
	remote
}

type putRecordCmd struct {
	onRecord
	Fields []string `arg:"" optional:"" name:"field" placeholder:"FIELD=VALUE" help:"A field and its value; as FIELD:TYPE=VALUE it is read as number, bool, date or datetime; FIELD:datetime=now is the present instant."`
	Props  string   `name:"props" placeholder:"JSON" help:"Fields as a JSON object; - reads it from the standard input."`
	Merge  bool     `name:"merge" help:"Keep what is not mentioned."`
	Unset  []string `name:"unset" sep:"none" placeholder:"FIELD" help:"With --merge: take a field away. May be repeated."`
	Closed *bool    `name:"closed" negatable:"" help:"Nothing is made of it any more; --no-closed ends that."`
	Owner  *string  `name:"owner" placeholder:"KIND/ID" help:"Whose it is: contact/ID, group/NAME or place/NAME; empty is nobody's."`
	Parent []string `name:"parent" sep:"none" placeholder:"NAME=TYPE/ID" help:"A parent, which need not exist yet; with --merge, NAME= takes those of that name away. May be repeated."`
	zoned
	jsonOnly
}

// zoned says in which zone local times are meant.
type zoned struct {
	Timezone zone `name:"timezone" default:"UTC" placeholder:"ZONE" help:"Of instants that are written without an offset."`
}

// Help is the long help.
func (putRecordCmd) Help() string {
	return `A value is a text unless a type is given.

  carillon records put kiosk 123 name='Main hall' battery_level:number=15 charging:bool=false
  carillon records put kiosk 123 --merge battery_level:number=80 --unset charging
  carillon records put kiosk 123 --merge last_heartbeat_at:datetime=now
  carillon records put child c1 --merge --owner contact/ann --parent household=household/h1
  my-probe | carillon records put host $(hostname) --props -`
}

// Validate refuses what would have no effect.
func (c *putRecordCmd) Validate() error {
	if len(c.Unset) > 0 && !c.Merge {
		return errors.New("--unset goes with --merge: without it, what is not mentioned goes away")
	}
	return nil
}

// Run writes a record.
func (c *putRecordCmd) Run(s *session) error {
	props, err := c.props(s.In)
	if err != nil {
		return err
	}
	in := client.RecordInput{Type: c.Type, ID: c.ID, Props: props, Closed: c.Closed}
	if err := c.relations(&in); err != nil {
		return err
	}
	if !c.Merge {
		one, err := call(c.remote, func(api *client.Client) (client.Record, error) { return api.PutRecord(s.ctx, in) })
		return s.wrote(c.JSON, one, one.Warnings, c.untyped(err), "written", one.Type, one.ID, fmt.Sprint("rev ", one.Rev))
	}
	answer, err := call(c.remote, func(api *client.Client) (client.RecordsAnswer, error) { return api.PostRecords(s.ctx, in) })
	if err != nil || len(answer.Items) == 0 {
		return err
	}
	item := answer.Items[0]
	if item.Outcome == "failed" {
		return c.untyped(&client.Problem{Detail: item.Message, Code: item.Reason, Field: item.Field, Hint: item.Hint})
	}
	return s.wrote(c.JSON, answer, item.Warnings, nil, item.Outcome, item.Type, item.ID)
}

// relations reads --owner and --parent.
func (c *putRecordCmd) relations(in *client.RecordInput) error {
	if c.Owner != nil {
		kind, id, _ := strings.Cut(*c.Owner, "/")
		in.Owner = new(client.Owner)
		switch {
		case *c.Owner == "":
		case kind == "contact" && id != "":
			in.Owner.Contact = id
		case kind == "group" && id != "":
			in.Owner.Group = id
		case kind == "place" && id != "":
			in.Owner.Place = id
		default:
			return fmt.Errorf("%q is not an owner; write contact/ID, group/NAME or place/NAME", *c.Owner)
		}
	}
	for _, written := range c.Parent {
		name, parent, ok := strings.Cut(written, "=")
		typ, id, named := strings.Cut(parent, "/")
		if !ok || name == "" || parent != "" && (!named || typ == "" || id == "") {
			return fmt.Errorf("%q is not a parent; write NAME=TYPE/ID, such as household=household/h1", written)
		}
		if in.Parents == nil {
			in.Parents = map[string]client.Parents{}
		}
		if parent == "" {
			if !c.Merge {
				return fmt.Errorf("--parent %s goes with --merge: without it, what is not mentioned goes away", written)
			}
			in.Parents[name] = nil
			continue
		}
		in.Parents[name] = append(in.Parents[name], client.RecordRef{Type: typ, ID: id})
	}
	return nil
}

// owner is whose a record is, in one text.
func owner(r client.Record) string {
	switch o := r.Owner; {
	case o == nil:
		return ""
	case o.Contact != "":
		return "contact/" + o.Contact
	case o.Group != "":
		return "group/" + o.Group
	default:
		return "place/" + o.Place
	}
}

// parents are the parents of a record, in one text.
func parents(r client.Record) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(r.Parents)) {
		for _, p := range r.Parents[name] {
			all = append(all, name+"="+p.Type+"/"+p.ID)
		}
	}
	return strings.Join(all, ", ")
}

// children are the first children of a record, in one text.
func children(r client.RecordDetail) string {
	all := make([]string, len(r.Children))
	for i, c := range r.Children {
		all[i] = c.Type + "/" + c.ID
	}
	if r.MoreChildren {
		all = append(all, "and more")
	}
	return strings.Join(all, ", ")
}

// orNow is the value of a field, where that is now and the field an instant: the present one.
func orNow(target, value string) string {
	if _, as, _ := strings.Cut(target, ":"); value == "now" && (as == string(rowreader.Instant) || as == "time") {
		return (&clock.System{}).Now().UTC().Format(time.RFC3339Nano)
	}
	return value
}

// untyped explains how a number or a truth value is written on the command line, where the server's error speaks of JSON's
// quotes: a value without a type is a text.
func (c *putRecordCmd) untyped(err error) error {
	var p *client.Problem
	if !errors.As(err, &p) {
		return err
	}
	_, name, _ := strings.Cut(p.Field, "props.")
	written := slices.ContainsFunc(c.Fields, func(f string) bool { return strings.HasPrefix(f, name+"=") })
	if as, ok := typeWanted(p.Detail); ok && written && name != "" {
		p.Hint = fmt.Sprintf("write %s:%s=VALUE; without a type a value is a text", name, as)
	}
	return err
}

// typeWanted is the type that a text would have to be given, where a record was refused because its type declares a number or a bool.
func typeWanted(message string) (rowreader.Type, bool) {
	for _, as := range []rowreader.Type{rowreader.Number, rowreader.Bool} {
		if strings.HasPrefix(message, "is a ") && strings.HasSuffix(message, " says "+string(as)) {
			return as, true
		}
	}
	return "", false
}

// wrote says what came of a write, and what is probably a mistake in it.
func (s *session) wrote(asJSON bool, answer any, warnings []string, err error, cells ...string) error {
	switch {
	case err != nil:
		return err
	case asJSON:
		return printJSON(s.Out, answer)
	}
	s.rows([][]string{cells})
	s.warnings(warnings)
	return nil
}

// warnings prints what was taken and is probably a mistake.
func (s *session) warnings(texts []string) {
	for _, text := range texts {
		s.note("! %s", cell(text))
	}
}

// props joins --props, the fields and --unset.
func (c *putRecordCmd) props(in io.Reader) (map[string]any, error) {
	props := map[string]any{}
	text := c.Props
	if text == "-" {
		raw, err := io.ReadAll(in)
		if err != nil {
			return nil, fmt.Errorf("read the standard input: %w", err)
		}
		text = string(raw)
	}
	if text != "" {
		value, wrong := strictjson.Parse([]byte(text), strictjson.MaxDepth)
		given, ok := value.(map[string]any)
		if wrong != nil || !ok {
			return nil, errors.New(`--props is not a JSON object; write it like {"battery_level": 15}`)
		}
		props = given
	}
	for _, written := range c.Fields {
		target, value, ok := strings.Cut(written, "=")
		name, as, _ := strings.Cut(target, ":")
		if !ok || name == "" {
			return nil, fmt.Errorf("%q is not a field; write FIELD=VALUE, such as battery_level:number=15", written)
		}
		read, err := rowreader.Value(orNow(target, value), rowreader.Type(as), c.Timezone.Location)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", target, err)
		}
		if _, twice := props[name]; twice {
			return nil, fmt.Errorf("the field %s is listed twice", name)
		}
		props[name] = read
	}
	for _, name := range c.Unset {
		if _, twice := props[name]; twice {
			return nil, fmt.Errorf("the field %s is given a value, and --unset", name)
		}
		props[name] = nil
	}
	return props, nil
}

type importRecordsCmd struct {
	importing
	Type string `name:"type" placeholder:"TYPE" help:"The kind of thing, for all rows; without it, a column type says it."`
	ID   string `name:"id" placeholder:"COLUMN" help:"The column with your id of each record, where it is not called id."`
}

// Help is the long help.
func (importRecordsCmd) Help() string {
	return `Every row changes what it mentions of a record, or makes one. Columns named like a field (id, type, closed,
owner, parents.NAME, props.NAME) go there; --map says it for others; the rest become fields under their own names, as text unless a type is
given. An owner is written contact/ID, group/NAME or place/NAME, a parent TYPE/ID. Empty cells change nothing. NDJSON holds one object a line, whose values keep their types.

  carillon records import kiosks.csv --type kiosk --id serial --map props.battery_level:number=battery

The same file again changes nothing. An import that was interrupted goes on where it was when the same command is
given again. Refused rows go into kiosks.rejected.csv with their reasons, and stop no others.

Exit status: 0 all were taken in · 1 rows were refused, or the file was not finished.`
}

// Run imports records.
func (c *importRecordsCmd) Run(s *session) error {
	return c.run(s, importOfRecords(), c.ID, given("type", c.Type))
}

type listRecordsCmd struct {
	Type string `arg:"" optional:"" help:"The kind of thing, such as kiosk; without it the types are listed."`
	paging
	remote
	output
}

// Run lists records, or their types.
func (c *listRecordsCmd) Run(s *session) error {
	if c.Type == "" {
		return c.types(s)
	}
	page, err := collect(c.paging, func(limit int, cursor string) (client.Page[client.Record], error) {
		return call(c.remote, func(api *client.Client) (client.Page[client.Record], error) {
			return api.Records(s.ctx, c.Type, client.RecordQuery{Limit: limit, Cursor: cursor})
		})
	})
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(s.Out, page)
	}
	rows := make([][]string, len(page.Items))
	for i, one := range page.Items {
		props, err := compact(one.Props)
		if err != nil {
			return err
		}
		rows[i] = []string{one.ID, closed(one), fmt.Sprint(one.Rev), c.at(one.UpdatedAt), one.LastModifiedBy, props}
	}
	s.table([]string{"id", "closed", "rev", "updated_at", "by", "props"}, rows)
	s.more(page.NextCursor)
	return nil
}

func (c *listRecordsCmd) types(s *session) error {
	types, err := call(c.remote, func(api *client.Client) (client.RecordTypes, error) { return api.RecordTypes(s.ctx) })
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(s.Out, types)
	}
	rows := make([][]string, len(types.Items))
	for i, one := range types.Items {
		var fields []string
		for _, name := range slices.Sorted(maps.Keys(one.Fields)) {
			fields = append(fields, name+" "+one.Fields[name])
		}
		rows[i] = []string{one.Type, strings.Join(fields, ", ")}
	}
	s.table([]string{"type", "fields"}, rows)
	return nil
}

func closed(r client.Record) string {
	if r.Closed {
		return "closed"
	}
	return ""
}

func compact(v any) (string, error) {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return "", err
	}
	return strings.TrimSpace(b.String()), nil
}

type showRecordCmd struct {
	onRecords
	output
}

// Help is the long help.
func (showRecordCmd) Help() string {
	return `With how each trigger stands to it now: matched would fire; every other state says why it does not, and until when that
is so. --json has every line of their conditions, judged on its own.`
}

// Run shows records.
func (c *showRecordCmd) Run(s *session) error {
	return oneByOne(s, c.remote, c.JSON, c.IDs, func(api *client.Client, id string) (client.RecordDetail, error) {
		return api.Record(s.ctx, c.Type, id)
	}, parted(s, c.print))
}

func (c *showRecordCmd) print(s *session, one client.RecordDetail) error {
	s.fields("record", one.Type+" "+one.ID, "closed", closed(one.Record), "owner", owner(one.Record), "parents", parents(one.Record), "children", children(one),
		"rev", fmt.Sprint(one.Rev), "last_modified_by", one.LastModifiedBy,
		"created_at", c.at(one.CreatedAt), "updated_at", c.at(one.UpdatedAt))
	if one.Error != "" {
		s.note("%s", one.Error)
	}
	if err := s.props(one.Props); err != nil {
		return err
	}
	s.warnings(one.Warnings)
	if len(one.Triggers) == 0 {
		return nil
	}
	s.title("triggers")
	s.fields("evaluated at", c.at(one.EvaluatedAt), "evaluated again at", c.at(one.EvaluateAt))
	rows := make([][]string, len(one.Triggers))
	for i, t := range one.Triggers {
		rows[i] = []string{
			t.Workflow, t.Trigger, c.standing(t), strings.Join(t.Issues, ", "), c.at(t.Since), fmt.Sprint(t.Episode), c.at(t.FiredAt),
		}
	}
	s.table([]string{"workflow", "trigger", "state", "issues", "since", "episode", "fired_at"}, rows)
	s.broken(one.Triggers)
	return nil
}

// broken says why triggers can make nothing of the record.
func (s *session) broken(triggers []client.RecordTrigger) {
	var rows [][]string
	for _, t := range triggers {
		if t.Error != "" {
			rows = append(rows, []string{t.Workflow, t.Trigger, t.Error})
		}
	}
	if len(rows) > 0 {
		s.title("errors")
		s.rows(rows)
	}
}

// standing says how a trigger stands, and how long that lasts.
func (c *showRecordCmd) standing(t client.RecordTrigger) string {
	if t.Until.IsZero() {
		return t.Reason
	}
	return t.Reason + " until " + c.at(t.Until)
}

// props prints the fields of a record.
func (s *session) props(props map[string]any) error {
	if len(props) == 0 {
		return nil
	}
	s.title("props")
	var rows [][]string
	for _, name := range slices.Sorted(maps.Keys(props)) {
		value, err := compact(props[name])
		if err != nil {
			return err
		}
		rows = append(rows, []string{name, value})
	}
	s.rows(rows)
	return nil
}

type deleteRecordCmd struct {
	onRecords
	jsonOnly
}

// Help is the long help.
func (deleteRecordCmd) Help() string {
	return `Its fields go, and nothing is made of it any more. One that is made again under its id is the same thing: its cooldowns
and counts go on where they were.`
}

// Run deletes records.
func (c *deleteRecordCmd) Run(s *session) error {
	return oneByOne(s, c.remote, c.JSON, c.IDs, func(api *client.Client, id string) (client.RecordDeleted, error) {
		return api.DeleteRecord(s.ctx, c.Type, id)
	}, func(gone client.RecordDeleted) error {
		s.rows([][]string{{"deleted", gone.Type, gone.ID}})
		return nil
	})
}
