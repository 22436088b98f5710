-- +goose Up
-- +goose StatementBegin
-- The run over many people that began or ended a subscription; 0: none did. What a run has ended counts, for what was published before, as what goes on.
ALTER TABLE subscription ADD COLUMN started_by bigint NOT NULL DEFAULT 0;
-- +goose StatementEnd
-- +goose StatementBegin
ALTER TABLE subscription ADD COLUMN ended_by bigint NOT NULL DEFAULT 0;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE INDEX subscription_started_by ON subscription (started_by, contact_id) WHERE started_by > 0;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE INDEX subscription_ended_by ON subscription (ended_by, contact_id) WHERE ended_by > 0;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE INDEX subscription_moved ON subscription (ws, ended_at) WHERE ended_by > 0;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE INDEX subscription_moved_contact ON subscription (ws, contact_id) WHERE ended_by > 0;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE INDEX subscription_moved_topic ON subscription (topic_id, contact_id) WHERE ended_by > 0;
-- +goose StatementEnd
-- +goose StatementBegin
-- A job may change the subscriptions of many people.
ALTER TABLE job RENAME TO job_before;
CREATE TABLE job (             -- work over many rows, in pages, that goes on after a crash
  ws          bigint NOT NULL,
  id          bigint NOT NULL,
  kind        text NOT NULL CHECK (kind IN ('backfill', 'limits', 'groups', 'related', 'reconcile', 'retry', 'cancel', 'subscribe', 'migrate', 'unsubscribe', 'undo')),
  subject     text NOT NULL,              -- backfill: the type of record; limits: the persona; related: type/id; reconcile: workflow/trigger
  cause       text NOT NULL,              -- the workflows whose edit asked for it, with commas: they are not edited again before its end
  since       bigint NOT NULL,            -- reconcile: records that were written from then on are evaluated
  definitions bigint NOT NULL,            -- number of the set that asked for it
  status      text NOT NULL CHECK (status IN ('running', 'done', 'failed', 'cancelled')),
  version     bigint NOT NULL,            -- counts the changes; a change of an older version is refused
  cursor      bigint NOT NULL,            -- the last id that is done
  done        bigint NOT NULL,
  total       bigint NOT NULL,            -- as counted at the start
  changed     bigint NOT NULL,            -- reconcile: occasions that were missing; groups: contacts; retry, cancel: deliveries that it has changed
  selection   text NOT NULL,              -- retry, cancel: which deliveries, as JSON
  actor       text NOT NULL,              -- retry, cancel: who asked for it
  last_id     bigint NOT NULL,            -- retry, cancel: the last delivery when it began
  error       text NOT NULL,
  started_at  bigint NOT NULL,
  updated_at  bigint NOT NULL,
  finished_at bigint NOT NULL,
  PRIMARY KEY (ws, id)
);
INSERT INTO job (ws, id, kind, subject, cause, since, definitions, status, version, cursor, done, total, changed, selection, actor, last_id, error, started_at, updated_at, finished_at)
SELECT ws, id, kind, subject, cause, since, definitions, status, version, cursor, done, total, changed, selection, actor, last_id, error, started_at, updated_at, finished_at FROM job_before;
DROP TABLE job_before;
CREATE INDEX job_open ON job (id) WHERE status = 'running';
-- +goose StatementEnd
