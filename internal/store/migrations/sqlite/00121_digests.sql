-- Made from ../postgres by go test ./internal/store -run TestMigrationsHaveOneSource -update; not edited by hand.
-- +goose Up
-- +goose StatementBegin
-- The topic of a message that is about one of a person's topics alone (digest.bundle: subscription); 0: it is about all of them, or about none.
ALTER TABLE delivery ADD COLUMN topic_id bigint NOT NULL DEFAULT 0;
DROP INDEX delivery_instance;
CREATE UNIQUE INDEX delivery_instance ON delivery (instance_id, contact_id, channel, topic_id);

CREATE TABLE digest (          -- what the message of a digest holds, fixed when it was to leave for the first time
  ws          bigint NOT NULL,
  delivery_id bigint NOT NULL,
  contact_id  bigint NOT NULL,
  open        bigint NOT NULL,            -- 1: its outcome is not known; 0: it is
  contents    text NOT NULL,  -- JSON: sections of items, and what is covered by it
  PRIMARY KEY (ws, delivery_id)
) WITHOUT ROWID;
CREATE INDEX digest_open ON digest (ws, contact_id) WHERE open = 1;

CREATE TABLE covered_ahead (   -- a match that a contact is covered for beyond the covered_through of the subscription: an earlier one waits
  ws         bigint NOT NULL,
  contact_id bigint NOT NULL,
  topic_id   bigint NOT NULL,
  seq        bigint NOT NULL,
  PRIMARY KEY (ws, contact_id, topic_id, seq)
) WITHOUT ROWID;

CREATE TABLE digest_run (      -- a run of a digest: the instance of its trigger for one window
  ws          bigint NOT NULL,
  instance_id bigint NOT NULL,
  workflow    text NOT NULL,
  trigger     text NOT NULL,
  start_at    bigint NOT NULL,            -- of its window, which ends before end_at
  end_at      bigint NOT NULL,
  begun_at    bigint NOT NULL,
  expanded_at bigint NOT NULL DEFAULT 0,  -- since when all its deliveries exist; 0: they do not
  over_at     bigint NOT NULL DEFAULT 0,  -- since when each of them has ended or was sent; 0: some wait
  over_cursor bigint NOT NULL DEFAULT 0,  -- the deliveries of contacts up to this one are over
  PRIMARY KEY (ws, instance_id)
) WITHOUT ROWID;
CREATE INDEX digest_run_trigger ON digest_run (workflow, trigger, ws, start_at);
CREATE INDEX digest_run_open ON digest_run (expanded_at) WHERE expanded_at > 0 AND over_at = 0;
-- +goose StatementEnd
