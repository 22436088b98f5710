//go:build !nofence

package store

// settleFence lets a result through only while its claim still holds the row.
const settleFence = ` AND delivery.version = r.version`
