-- Made from ../postgres by go test ./internal/store -run TestMigrationsHaveOneSource -update; not edited by hand.
-- +goose Up
-- +goose StatementBegin
ALTER TABLE contact ADD COLUMN place text NOT NULL DEFAULT '';  -- id of a record of the type place; empty: none
CREATE INDEX contact_place ON contact (place, ws, id) WHERE place <> '';

CREATE TABLE place (           -- the records of the type place that are not deleted, as a tree
  ws     bigint NOT NULL,
  name   text NOT NULL,
  type   text NOT NULL,
  parent text NOT NULL,       -- name of the place above, which may not exist; empty: none
  PRIMARY KEY (ws, name)
) WITHOUT ROWID;
CREATE INDEX place_parent ON place (parent, ws, name) WHERE parent <> '';
-- +goose StatementEnd
