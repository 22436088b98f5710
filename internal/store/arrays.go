package store

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// arrayCodec encodes the columns of a rowset in PostgreSQL's binary form. The driver's own codec converts each element to an
// interface, which took a fifth of the time of an event (measured).
type arrayCodec struct{ pgtype.Codec }

// PlanEncode implements pgtype.Codec.
func (c arrayCodec) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if format == pgtype.BinaryFormatCode {
		switch value.(type) {
		case []int64:
			return arrayPlan{pgtype.Int8OID}
		case []string:
			return arrayPlan{pgtype.TextOID}
		}
	}
	return c.Codec.PlanEncode(m, oid, format, value)
}

// useArrays makes a new connection encode arrays with arrayCodec.
func useArrays(conn *pgx.Conn) {
	for _, oid := range []uint32{pgtype.Int8ArrayOID, pgtype.TextArrayOID} {
		if known, ok := conn.TypeMap().TypeForOID(oid); ok {
			conn.TypeMap().RegisterType(&pgtype.Type{Name: known.Name, OID: oid, Codec: arrayCodec{known.Codec}})
		}
	}
}

// arrayPlan encodes arrays of one element type.
type arrayPlan struct{ element uint32 }

// Encode implements pgtype.EncodePlan. The form is: the number of dimensions, whether there are nulls, the element type; the
// length and lower bound of the only dimension; the length and bytes of each element.
func (p arrayPlan) Encode(value any, b []byte) ([]byte, error) {
	put := binary.BigEndian.AppendUint32
	header := func(n, bytes int) {
		b = slices.Grow(b, 20+bytes)
		for _, v := range []uint32{1, 0, p.element, uint32(n), 1} { //nolint:gosec // a batch is far smaller
			b = put(b, v)
		}
	}
	switch list := value.(type) {
	case []int64:
		header(len(list), 12*len(list))
		for _, v := range list {
			b = binary.BigEndian.AppendUint64(put(b, 8), uint64(v)) //nolint:gosec // the same bits
		}
	case []string:
		bytes := 0
		for _, v := range list {
			bytes += 4 + len(v)
		}
		header(len(list), bytes)
		for _, v := range list {
			b = append(put(b, uint32(len(v))), v...) //nolint:gosec // a text is far smaller
		}
	default:
		return nil, fmt.Errorf("an array of %T", value)
	}
	return b, nil
}
