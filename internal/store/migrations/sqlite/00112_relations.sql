-- Made from ../postgres by go test ./internal/store -run TestMigrationsHaveOneSource -update; not edited by hand.
-- +goose Up
-- +goose StatementBegin
ALTER TABLE record ADD COLUMN owner text NOT NULL DEFAULT '';    -- contact/ID, group/NAME or place/NAME; '': it has none
ALTER TABLE record ADD COLUMN parents text NOT NULL DEFAULT '';  -- JSON: [name, type, id] of each, in their order; '': it has none

CREATE TABLE record_parent (   -- the children of a record, which need not exist; written with the child
  ws       bigint NOT NULL,
  type     text NOT NULL,
  ext_id   text NOT NULL,
  child_id bigint NOT NULL,
  name     text NOT NULL,     -- by which the child names it
  PRIMARY KEY (ext_id, type, ws, child_id, name)
) WITHOUT ROWID;
CREATE INDEX record_parent_child ON record_parent (child_id);
-- +goose StatementEnd
