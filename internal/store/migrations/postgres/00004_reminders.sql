-- +goose Up
-- +goose StatementBegin

-- The day on which an instance is due and the zone in which that is meant: what moves it when the rules of the zone do.
ALTER TABLE instance ADD COLUMN local_date text NOT NULL DEFAULT '';
ALTER TABLE instance ADD COLUMN timezone text NOT NULL DEFAULT '';

-- The records on which a record depends because triggers read them across it: as of its last look. Links is the same as a
-- text, by which a look knows whether it is still so.
ALTER TABLE record ADD COLUMN links text NOT NULL DEFAULT '';
CREATE TABLE record_link (
  ws       bigint NOT NULL,
  type     text COLLATE "C" NOT NULL,
  ext_id   text COLLATE "C" NOT NULL,
  child_id bigint NOT NULL,
  PRIMARY KEY (ext_id, type, ws, child_id)
);
CREATE INDEX record_link_child ON record_link (child_id);

-- What is made by the calendar has a date and no record. Of a series the ones that wait, and the latest of each status.
CREATE INDEX instance_series ON instance (workflow, trigger, ws, status, due_at) WHERE record_id = 0 AND local_date <> '';

-- The triggers whose records are gone over again and again, and since when what was written has to be: what was written before
-- has been gone over.
CREATE TABLE repair (
  ws       bigint NOT NULL,
  workflow text COLLATE "C" NOT NULL,
  trigger  text COLLATE "C" NOT NULL,
  every    bigint NOT NULL,
  due_at   bigint NOT NULL,
  since    bigint NOT NULL,
  PRIMARY KEY (ws, workflow, trigger)
);
CREATE INDEX repair_due ON repair (due_at);

-- Runs of further kinds: made anew, since what a column may hold cannot be altered everywhere.
CREATE TABLE run_next (
  ws          bigint NOT NULL,
  id          bigint NOT NULL,
  kind        text NOT NULL CHECK (kind IN ('look', 'cadence', 'children', 'reconcile')),
  subject     text NOT NULL,              -- look: the type of record; children: type/id; reconcile: workflow/trigger
  definitions bigint NOT NULL,            -- number of the set that asked for it
  status      text NOT NULL CHECK (status IN ('running', 'done', 'failed', 'cancelled')),
  cursor      bigint NOT NULL DEFAULT 0,  -- the last id that is done
  done        bigint NOT NULL DEFAULT 0,
  total       bigint NOT NULL DEFAULT 0,  -- as counted at the start
  error       text NOT NULL DEFAULT '',
  started_at  bigint NOT NULL,
  updated_at  bigint NOT NULL,
  finished_at bigint NOT NULL DEFAULT 0,
  cause       text NOT NULL DEFAULT '',   -- the workflows whose edit asked for it, with commas: not edited again before it has ended
  since       bigint NOT NULL DEFAULT 0,  -- reconcile: what was written from then on is gone over
  repaired    bigint NOT NULL DEFAULT 0,  -- occasions that were missing
  PRIMARY KEY (ws, id)
);
INSERT INTO run_next (ws, id, kind, subject, definitions, status, cursor, done, total, error, started_at, updated_at, finished_at)
SELECT ws, id, kind, subject, definitions, status, cursor, done, total, error, started_at, updated_at, finished_at FROM run;
DROP TABLE run;
ALTER TABLE run_next RENAME TO run;
CREATE INDEX run_open ON run (id) WHERE status = 'running';

-- What waits for its workflow to be switched on again.
CREATE INDEX delivery_inactive ON delivery (workflow, ws) WHERE reason = 'workflow_inactive' AND send_at > 0;
-- What tells a database from a copy of it: how often it was found to be itself, when last, and where it lies. One row.
CREATE TABLE installation (
  id             bigint NOT NULL PRIMARY KEY CHECK (id = 1),
  epoch          bigint NOT NULL,
  alive_at       bigint NOT NULL,
  place          text NOT NULL,
  restored_at    bigint NOT NULL,
  restored_why   text NOT NULL,
  given_up_until bigint NOT NULL
);

-- The zones by which something was planned, and by which rules: other ones move what is pending.
CREATE TABLE zone (
  name  text COLLATE "C" NOT NULL PRIMARY KEY,
  rules text NOT NULL
);

-- A workflow that a person has stopped. What comes due of it meanwhile is put aside: its instances are held, its deliveries have
-- no instant to be sent at. After it was let go on, these are taken up again in pages, and the row goes with the last one.
CREATE TABLE pause (
  ws         bigint NOT NULL,
  workflow   text COLLATE "C" NOT NULL,
  paused_at  bigint NOT NULL,
  resumed_at bigint NOT NULL DEFAULT 0,  -- 0: it is paused
  actor      text COLLATE "C" NOT NULL,
  why        text COLLATE "C" NOT NULL,
  PRIMARY KEY (ws, workflow)
);
CREATE INDEX pause_over ON pause (resumed_at);
CREATE INDEX instance_paused ON instance (workflow, ws, id) WHERE held = 1 AND reason = 'workflow_paused';
-- The instant is delivery.Aside: the year 9000.
CREATE INDEX delivery_paused ON delivery (workflow, ws, id) WHERE send_at = 221845392000000000;

-- The instance by which a person had this one done again, as key:retry:n; 0: none.
ALTER TABLE instance ADD COLUMN retried_by bigint NOT NULL DEFAULT 0;

-- Since when an instance is held; 0: it is not, or that was not written down.
ALTER TABLE instance ADD COLUMN held_at bigint NOT NULL DEFAULT 0;

-- What instance.input_hash is the hash of: text of definitions. A row for each that a definition ever had, for good.
CREATE TABLE inputs (
  ws   bigint NOT NULL,
  hash text COLLATE "C" NOT NULL,
  json text COLLATE "C" NOT NULL,
  PRIMARY KEY (ws, hash)
);
-- +goose StatementEnd
