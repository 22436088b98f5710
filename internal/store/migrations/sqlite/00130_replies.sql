-- Made from ../postgres by go test ./internal/store -run TestMigrationsHaveOneSource -update; not edited by hand.
-- +goose Up
-- +goose StatementBegin
-- Addresses whose people want no messages on a kind of channel, whoever they belong to. hash is that of table address.
CREATE TABLE opt_out (
  ws   bigint NOT NULL,
  hash text NOT NULL,
  kind text NOT NULL,
  at   bigint NOT NULL,
  PRIMARY KEY (ws, hash, kind)
) WITHOUT ROWID;
-- The replies that were taken in: hash is that of the channel and of the provider's id of the message. One that comes again changes nothing.
CREATE TABLE reply (
  ws   bigint NOT NULL,
  hash text NOT NULL,
  at   bigint NOT NULL,
  PRIMARY KEY (ws, hash)
) WITHOUT ROWID;
-- +goose StatementEnd
