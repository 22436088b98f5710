-- Made from ../postgres by go test ./internal/store -run TestMigrationsHaveOneSource -update; not edited by hand.
-- +goose Up
-- +goose StatementBegin
-- What the messages of conversations said, by the delivery and the step of each.
CREATE TABLE session_message (
  ws          bigint NOT NULL,
  delivery_id bigint NOT NULL,
  step        bigint NOT NULL,
  at          bigint NOT NULL,
  text        text NOT NULL,
  PRIMARY KEY (ws, delivery_id, step)
) WITHOUT ROWID;
-- What people wrote while a session with them was open: delivery_id is that of the session.
CREATE TABLE session_reply (
  ws          bigint NOT NULL,
  delivery_id bigint NOT NULL,
  id          bigint NOT NULL,
  at          bigint NOT NULL,            -- when it came
  text        text NOT NULL,
  keyword     text NOT NULL,              -- stop; empty: none
  question    text NOT NULL,              -- that stood then
  reason      text NOT NULL,              -- why it answers nothing; empty: it answers
  PRIMARY KEY (ws, delivery_id, id)
) WITHOUT ROWID;
CREATE INDEX session_status ON session (ws, status, delivery_id);
-- +goose StatementEnd
