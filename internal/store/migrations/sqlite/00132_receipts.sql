-- Made from ../postgres by go test ./internal/store -run TestMigrationsHaveOneSource -update; not edited by hand.
-- +goose Up
-- +goose StatementBegin
-- The step of a delivery whose message its provider has reported on, so that it has it; 0: none.
ALTER TABLE delivery ADD COLUMN reported_step bigint NOT NULL DEFAULT 0;
-- +goose StatementEnd
-- +goose StatementBegin
-- What was reported of messages after their provider had accepted them.
ALTER TABLE receipt RENAME TO receipt_before;
CREATE TABLE receipt (
  ws          bigint NOT NULL,
  delivery_id bigint NOT NULL,
  id          bigint NOT NULL,
  at          bigint NOT NULL,
  status      text NOT NULL CHECK (status IN ('delivered', 'read', 'deferred', 'bounced', 'complained')),
  detail      text NOT NULL,
  attempt     bigint NOT NULL,            -- the attempt whose message it is about; 0: it is not known
  provider_id text NOT NULL,              -- the provider's id of the message; empty: it was not given
  PRIMARY KEY (ws, delivery_id, id)
) WITHOUT ROWID;
INSERT INTO receipt (ws, delivery_id, id, at, status, detail, attempt, provider_id)
SELECT ws, delivery_id, id, at, status, detail, 0, '' FROM receipt_before;
DROP TABLE receipt_before;
-- +goose StatementEnd
-- +goose StatementBegin
-- Addresses that take no messages: nothing is sent to them, whoever they belong to. hash is that of table address.
ALTER TABLE stopped_address RENAME TO stopped_address_before;
CREATE TABLE stopped_address (
  ws     bigint NOT NULL,
  hash   text NOT NULL,
  kind   text NOT NULL,                   -- of channels; empty: all kinds
  reason text NOT NULL CHECK (reason IN ('bounced')),
  detail text NOT NULL,
  at     bigint NOT NULL,
  PRIMARY KEY (ws, hash, kind)
) WITHOUT ROWID;
INSERT INTO stopped_address (ws, hash, kind, reason, detail, at)
SELECT ws, hash, '', reason, detail, at FROM stopped_address_before;
DROP TABLE stopped_address_before;
-- +goose StatementEnd
