-- +goose Up
-- +goose StatementBegin
-- The messages of a conversation: session_turn counts them after the first one, says is what a message says, asks the question that it asks.
ALTER TABLE delivery ADD COLUMN session_turn bigint NOT NULL DEFAULT 0;
ALTER TABLE delivery ADD COLUMN says text NOT NULL DEFAULT '' CHECK (says IN ('', 'question', 'invalid', 'closing', 'stopped'));
ALTER TABLE delivery ADD COLUMN asks text NOT NULL DEFAULT '';
DROP INDEX delivery_instance;
CREATE UNIQUE INDEX delivery_instance ON delivery (instance_id, contact_id, channel, topic_id, session_turn);
-- The conversations with people. A session has the id of the delivery with whose first message it began. It is ending when it takes no reply any more and its
-- answers are to be handed on.
CREATE TABLE session (
  ws          bigint NOT NULL,
  delivery_id bigint NOT NULL,
  instance_id bigint NOT NULL,
  contact_id  bigint NOT NULL,
  kind        text NOT NULL,
  status      text NOT NULL CHECK (status IN ('open', 'ending', 'ended')),
  reason      text NOT NULL DEFAULT '',
  question    text NOT NULL,
  asked_at    bigint NOT NULL,
  repeats     bigint NOT NULL DEFAULT 0,
  turns       bigint NOT NULL DEFAULT 0,
  answers     text NOT NULL DEFAULT '{}',
  opened_at   bigint NOT NULL,
  expires_at  bigint NOT NULL,
  ended_at    bigint NOT NULL DEFAULT 0,
  PRIMARY KEY (ws, delivery_id)
);
CREATE UNIQUE INDEX session_open ON session (ws, contact_id, kind) WHERE status = 'open';
CREATE INDEX session_due ON session (expires_at, delivery_id) WHERE status <> 'ended';
CREATE INDEX session_contact ON session (ws, contact_id, kind, delivery_id);
-- +goose StatementEnd
