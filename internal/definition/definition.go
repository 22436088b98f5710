// Package definition is the typed model of definitions: workflows with their triggers, channels, personas, surveys and types of records,
// as a set of one workspace. Package loader reads it from YAML.
//
// It is not the engine: it knows what a definition says, not what follows from it.
//
// Invariants:
//   - A Set never changes once it has been loaded, and may be read by many at once.
//   - A trigger has one source: an event, a condition, a plan or a schedule. Only that source has the keys that go with it.
package definition
