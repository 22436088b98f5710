package rowreader

import "github.com/carillonhq/carillon/internal/subject"

// Events is what an event may hold. Columns that nothing maps go into the payload.
func Events() Shape {
	return Shape{
		Noun:   "an event",
		Fields: []string{"id", "kind", "occurred_at", "recipient.address", "recipient.locale", "recipient.customer_ref"},
		Types:  map[string]Type{"occurred_at": Instant},
		Groups: []string{"payload"}, Rest: "payload",
	}
}

// Contacts is what a contact may hold. Columns that nothing maps go into the attributes.
func Contacts() Shape {
	shape := Shape{
		Noun: "a contact", Fields: []string{"id", "name", "locale", "timezone", "persona", "place", "cadence.cooldown", "cadence.quiet_hours"},
		Groups: []string{"attributes"}, Rest: "attributes", Short: map[string]string{}, Types: map[string]Type{},
	}
	for _, limit := range []string{"max_per_day", "max_per_week", "max_per_month", "max_per_slot"} {
		shape.Fields = append(shape.Fields, "cadence."+limit)
		shape.Types["cadence."+limit] = Number
	}
	for _, kind := range subject.AddressKinds() {
		shape.Fields = append(shape.Fields, "addresses."+kind)
		shape.Short[kind] = "addresses." + kind
	}
	return shape
}

// Subscriptions is what a subscription may hold.
func Subscriptions() Shape {
	return Shape{Noun: "a subscription", Fields: []string{"contact", "address", "locale", "topic", "frequency", "confirmed"}, Types: map[string]Type{"confirmed": Bool}}
}

// Topics is what a topic may hold: its name, and its rules and titles as they are.
func Topics() Shape {
	return Shape{Noun: "a topic", Fields: []string{"topic"}}
}

// Records is what a record may hold. Columns that nothing maps go into its fields.
func Records() Shape {
	return Shape{
		Noun: "a record", Fields: []string{"id", "type", "closed", "owner"}, Types: map[string]Type{"closed": Bool},
		Groups: []string{"props", "parents"}, Rest: "props",
	}
}
