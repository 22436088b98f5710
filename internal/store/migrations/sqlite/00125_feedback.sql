-- Made from ../postgres by go test ./internal/store -run TestMigrationsHaveOneSource -update; not edited by hand.
-- +goose Up
-- +goose StatementBegin
-- Addresses that take no messages: nothing is sent to them, whoever they belong to. hash is that of table address.
CREATE TABLE stopped_address (
  ws     bigint NOT NULL,
  hash   text NOT NULL,
  reason text NOT NULL CHECK (reason IN ('bounced')),
  detail text NOT NULL,
  at     bigint NOT NULL,
  PRIMARY KEY (ws, hash)
) WITHOUT ROWID;
-- What was reported of messages after their provider had accepted them.
CREATE TABLE receipt (
  ws          bigint NOT NULL,
  delivery_id bigint NOT NULL,
  id          bigint NOT NULL,
  at          bigint NOT NULL,
  status      text NOT NULL CHECK (status IN ('delivered', 'deferred', 'bounced', 'complained')),
  detail      text NOT NULL,
  PRIMARY KEY (ws, delivery_id, id)
) WITHOUT ROWID;
-- +goose StatementEnd
