-- +goose Up
-- +goose StatementBegin
CREATE TABLE contact_group (   -- a group whose members are all in group_member; one without a row is being computed
  ws   bigint NOT NULL,
  name text COLLATE "C" NOT NULL,
  PRIMARY KEY (ws, name)
);

CREATE TABLE group_member (    -- who belongs to a group
  ws         bigint NOT NULL,
  name       text COLLATE "C" NOT NULL,
  contact_id bigint NOT NULL,
  PRIMARY KEY (ws, name, contact_id)
);
CREATE INDEX group_member_contact ON group_member (ws, contact_id);

-- A job may be one that computes groups.
ALTER TABLE job RENAME TO job_before;
CREATE TABLE job (             -- work over many rows, in pages, that goes on after a crash
  ws          bigint NOT NULL,
  id          bigint NOT NULL,
  kind        text NOT NULL CHECK (kind IN ('backfill', 'limits', 'groups', 'related', 'reconcile', 'retry', 'cancel')),
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
