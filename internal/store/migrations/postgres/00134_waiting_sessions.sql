-- +goose Up
-- +goose StatementBegin
-- A session waits until its first message may have arrived, if that could not be sent, or if another session is open. address_hash is that of the address to which its
-- messages go, as in table address: who replies from there means this session.
ALTER TABLE session RENAME TO session_before;
CREATE TABLE session (
  ws           bigint NOT NULL,
  delivery_id  bigint NOT NULL,
  instance_id  bigint NOT NULL,
  contact_id   bigint NOT NULL,
  kind         text NOT NULL,
  address_hash text NOT NULL,
  status       text NOT NULL CHECK (status IN ('waiting', 'open', 'ending', 'ended')),
  reason       text NOT NULL DEFAULT '',
  question     text NOT NULL,
  asked_at     bigint NOT NULL,
  repeats      bigint NOT NULL DEFAULT 0,
  turns        bigint NOT NULL DEFAULT 0,
  answers      text NOT NULL DEFAULT '{}',
  opened_at    bigint NOT NULL,
  expires_at   bigint NOT NULL,
  ended_at     bigint NOT NULL DEFAULT 0,
  PRIMARY KEY (ws, delivery_id)
);
INSERT INTO session (ws, delivery_id, instance_id, contact_id, kind, address_hash, status, reason, question, asked_at, repeats, turns, answers, opened_at, expires_at, ended_at)
SELECT ws, delivery_id, instance_id, contact_id, kind, '', status, reason, question, asked_at, repeats, turns, answers, opened_at, expires_at, ended_at FROM session_before;
DROP TABLE session_before;
CREATE UNIQUE INDEX session_open ON session (ws, contact_id, kind) WHERE status = 'open';
CREATE INDEX session_due ON session (expires_at, delivery_id) WHERE status <> 'ended';
CREATE INDEX session_contact ON session (ws, contact_id, kind, delivery_id);
CREATE INDEX session_status ON session (ws, status, delivery_id);
CREATE INDEX session_address ON session (address_hash, ws);
-- +goose StatementEnd
