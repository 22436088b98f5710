package definition

import (
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/expr"
)

// Bounds of the data of a message.
const (
	// MaxDataRows bounds the rows that a text gets: more than people read in a message.
	MaxDataRows = 1000
	// DefaultDataTimeout and MaxDataTimeout bound the request for a document, which delays the message.
	DefaultDataTimeout = 10 * time.Second
	MaxDataTimeout     = time.Minute
)

// Names of the columns of a row for a group of records.
const (
	DataGroup = "group"
	DataSum   = "sum"
	DataCount = "count"
)

// Data is a datasource that a message reads when it is rendered: records of the workspace, or a document. Texts read it as data.NAME
// (docs/reference/definitions.md, data).
type Data struct {
	Name string

	Records string          // their type; empty: it is a document
	Where   *expr.Condition // nil: all of them
	GroupBy *expr.Program   // nil: none
	Sum     *expr.Program   // of numbers; nil: none
	Count   bool
	Order   DataOrder
	Limit   int // 0: all, if these are not more than MaxDataRows

	URL     string
	Timeout time.Duration

	Relations  []Relation // through which it reads other records
	PerContact bool       // it reads the contact, so the result differs for each
}

// DataOrder is the order of rows. The zero value is the order of the groups, or of the records' ids.
type DataOrder struct {
	Column  string        // for rows of groups
	By      *expr.Program // for rows that are records
	Reverse bool
}

// Single reports whether the data is one row instead of a list.
func (d *Data) Single() bool { return d.Records != "" && d.GroupBy == nil && (d.Sum != nil || d.Count) }

// Columns returns the columns of rows of groups; nil when a row is a record.
func (d *Data) Columns() []string {
	var all []string
	if d.GroupBy != nil {
		all = append(all, DataGroup)
	}
	if d.Sum != nil {
		all = append(all, DataSum)
	}
	if d.Count {
		all = append(all, DataCount)
	}
	return all
}

// Follow records which relations the expressions follow, and whether they read the contact.
func (d *Data) Follow(set *Set) {
	for _, path := range d.paths() {
		d.PerContact = d.PerContact || path[0] == "contact"
	}
	d.Relations = set.Join(d.Relations, set.RecordType(d.Records), d.paths())
}

// paths returns all paths that the expressions read.
func (d *Data) paths() []expr.Path {
	paths := slices.Clone(d.Where.Paths())
	for _, p := range []*expr.Program{d.GroupBy, d.Sum, d.Order.By} {
		if p != nil {
			paths = append(paths, p.Paths()...)
		}
	}
	return paths
}
