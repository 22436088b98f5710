package loader

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/portable"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/suggest"
)

// audience reads the entries of an audience.
func (r *reader) audience(n *portable.Node, scope expr.Scope, set *definition.Set) []definition.Audience {
	var all []definition.Audience
	items := r.items(n)
	if n != nil && n.Kind == portable.List && len(items) == 0 {
		r.invalid(n.Pos, "the audience is empty", "")
	}
	for _, item := range items {
		f, ok := r.fields(item, "audience")
		if !ok {
			continue
		}
		var a definition.Audience
		to, address, kind, persona, group := f.get("to"), f.get("address"), f.get("kind"), f.get("persona"), f.get("group")
		place, above, everyone, function, topics := f.get("place"), f.get("place_above"), f.get("everyone"), f.get("function"), f.get("topics")
		people := scope
		people.Contact = true
		a.Where = r.condition(f.get("where"), people)
		switch who := present(to, address, persona, group, place, above, everyone, function, topics); {
		case who > 1:
			r.invalid(item.Pos, "to, address, persona, group, place, place_above, topics, function and everyone exclude each other", "write an entry for each")
		case topics != nil:
			r.topicRefs(f, scope, set, &a)
		case function != nil:
			a.Function = r.audienceFunction(function)
		case persona != nil:
			a.Persona = r.personaRef(persona, set)
		case group != nil:
			a.Group = r.groupRef(group, set)
		case place != nil:
			r.places(f, &a)
		case above != nil:
			a.To, a.Above = r.expression(above, scope, expr.Any), true
			if types := f.get("place_types"); types != nil {
				a.PlaceTypes = r.placeNames(types, "no type is that of no place", "name a type of place, such as district, or remove place_types")
			}
		case everyone != nil:
			if a.Everyone = r.bool(everyone, true); !a.Everyone {
				r.invalid(everyone.Pos, "everyone is true, or it is not written", "name somebody: persona: NAME, or to: and an expression")
			}
		case to != nil && to.Text == "event.recipient" && scope.Item && !isOfAnything(scope):
			r.invalid(to.Pos, "an item has no recipient", "write topics: matched, for those who subscribe to its topics")
		case to != nil && to.Text == "event.recipient" && scope.Event:
			a.EventRecipient = true
		case to != nil && addressLike(to.Text) != "":
			r.invalid(to.Pos, fmt.Sprintf("%s is an address, and to is an expression", to.Text), fmt.Sprintf("write address: '\"%s\"' with kind: %s", to.Text, addressLike(to.Text)))
		case to != nil:
			a.To = r.expression(to, scope, expr.Any)
			r.almostRecipient(to, scope)
		case address != nil && addressLike(address.Text) != "":
			r.invalid(address.Pos, fmt.Sprintf("an address is an expression, and %s is a text", address.Text), fmt.Sprintf("write '\"%s\"', with both quotes", address.Text))
		case address != nil:
			a.Address = r.expression(address, scope, expr.Any)
		case present(f.get("where")) == len(f.values) && !f.node.Partial:
			hint := "such as to: event.recipient"
			if !scope.Event {
				hint = "such as persona: NAME"
			}
			r.report(definition.CodeMissing, item.Pos, "an entry of the audience needs to, address, persona, group, place, place_above, topics, function or everyone", hint)
		}
		if frequency := f.get("frequency"); frequency != nil && topics == nil {
			r.invalid(frequency.Pos, "frequency goes with topics, and there are none", "add topics: and the name of a topic, or remove it")
		}
		if place == nil {
			for _, key := range []string{"below", "place_types"} {
				if n := f.get(key); n != nil && (above == nil || key != "place_types") {
					r.invalid(n.Pos, key+" goes with place, and there is none", "add place: and the name of a place, or remove it")
				}
			}
		}
		switch {
		case kind != nil && address == nil:
			r.invalid(kind.Pos, "kind says what kind of address it is, and there is no address", "")
		case kind != nil:
			a.AddressKind = r.word(kind, "kind", "", addressKinds())
			r.kindAt[a.Address] = kind.Pos
		case address != nil && !f.node.Partial:
			r.report(definition.CodeMissing, item.Pos, "an address needs its kind", "kind is "+alternatives(addressKinds()))
		}
		all = append(all, a)
	}
	return all
}

// audienceFunction reads the name of a function of a binary of one's own. What is in force may name one that this binary lacks: its audience cannot be
// computed then.
func (r *reader) audienceFunction(n *portable.Node) *expr.Program {
	name, ok := r.text(n)
	if !ok {
		return nil
	}
	var known []string
	for _, f := range r.opts.Audiences {
		if f.Name == name {
			return expr.Audience(f, r.name)
		}
		known = append(known, f.Name)
	}
	if !r.stored && r.opts.Audiences != nil {
		hint := suggest.DidYouMean(name, known)
		if hint == "" {
			hint = expr.Unregistered(known)
		}
		r.report(definition.CodeReference, n.Pos, fmt.Sprintf("there is no audience function %q", name), hint)
	}
	return expr.Audience(&expr.Function{Name: name, Call: func([]any, <-chan struct{}) (any, error) {
		return nil, errors.New("there is no such function in this program")
	}}, r.name)
}

// almostRecipient warns about a payload field whose name is close to recipient.
func (r *reader) almostRecipient(to *portable.Node, scope expr.Scope) {
	const recipient = "recipient"
	field, ok := strings.CutPrefix(to.Text, "event.")
	if ok && scope.Event && !r.stored && field != recipient+"s" && suggest.Nearest(field, []string{recipient}) != "" {
		r.warn(definition.CodeLint, to.Pos, to.Text+" is a field of the payload", "did you mean event."+recipient+"?")
	}
}

// mailAddress and telephone are addresses where an expression is meant.
var (
	mailAddress = regexp.MustCompile(`^[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+$`)
	telephone   = regexp.MustCompile(`^\+[0-9][0-9 ()-]{5,20}$`)
)

// addressLike returns the kind of a literal address, or "" when the text is not an address.
func addressLike(text string) string {
	switch {
	case mailAddress.MatchString(text):
		return "email"
	case telephone.MatchString(text):
		return "sms"
	}
	return ""
}

// addressed refuses an address of a kind that no channel of the trigger can use.
func (r *reader) addressed(t *definition.Trigger, channels []string) {
	if r.stored || t.Channel == "" {
		return
	}
	kinds := make([]string, len(channels))
	for i, name := range channels {
		kinds[i], _, _ = strings.Cut(name, ":")
		if !slices.Contains(addressKinds(), kinds[i]) {
			return // it takes any address
		}
	}
	for _, a := range t.Audience {
		if a.AddressKind != "" && !slices.Contains(kinds, a.AddressKind) {
			r.invalid(r.kindAt[a.Address], fmt.Sprintf("none of its channels takes an address of the kind %s", a.AddressKind), "it leaves by "+sentence(channels))
		}
	}
}
