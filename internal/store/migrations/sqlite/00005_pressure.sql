-- +goose Up
-- +goose StatementBegin

-- Since when the present message of a delivery could have left, while a retry, the breaker or rate of its channel, or a missing
-- channel delays it. 0: send_at says it, or it waits for nothing.
ALTER TABLE delivery ADD COLUMN eligible_at bigint NOT NULL DEFAULT 0;
UPDATE delivery SET eligible_at = due_at WHERE due_at > 0 AND send_at > 0 AND send_at < 221845392000000000 AND reason <> 'workflow_inactive';
UPDATE delivery SET eligible_at = not_before WHERE reason = 'no_channel' AND status = 'scheduled' AND send_at = 0;
CREATE INDEX delivery_delayed ON delivery (eligible_at, send_at, channel, reason) WHERE eligible_at > 0;

-- The instances that are retried later: they have been due since due_at.
CREATE INDEX instance_delayed ON instance (due_at, ready_at) WHERE retry_count > 0 AND ready_at > 0;

-- Keys end by themselves (0: never), say when they were last used, to the minute, and are rotated: the former secret is accepted
-- until old_until.
ALTER TABLE api_key ADD COLUMN expires_at bigint NOT NULL DEFAULT 0;
ALTER TABLE api_key ADD COLUMN used_at bigint NOT NULL DEFAULT 0;
ALTER TABLE api_key ADD COLUMN old_hash text NOT NULL DEFAULT '';
ALTER TABLE api_key ADD COLUMN old_until bigint NOT NULL DEFAULT 0;
CREATE INDEX api_key_old_hash ON api_key (old_hash) WHERE old_hash <> '';

-- Who is signed in to the console: the hash of the random token that their browser has, and the hash of the API key with which
-- they signed in, without which the session is over.
CREATE TABLE console_session (
  ws         bigint NOT NULL,
  hash       text NOT NULL,  -- hex SHA-256
  key_hash   text NOT NULL,
  created_at bigint NOT NULL,
  expires_at bigint NOT NULL,
  PRIMARY KEY (ws, hash)
) WITHOUT ROWID;
CREATE INDEX console_session_hash ON console_session (hash);
CREATE INDEX console_session_expires ON console_session (expires_at);

-- Jobs that retry or cancel many deliveries. The table is made anew, since the CHECK of a column cannot be altered everywhere.
CREATE TABLE run_next (
  ws          bigint NOT NULL,
  id          bigint NOT NULL,
  kind        text NOT NULL CHECK (kind IN ('look', 'cadence', 'children', 'reconcile', 'retry', 'cancel')),
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
  selection   text NOT NULL DEFAULT '',  -- retry, cancel: which deliveries, as JSON
  actor       text NOT NULL DEFAULT '',  -- retry, cancel: who asked for it
  last_id     bigint NOT NULL DEFAULT 0,  -- retry, cancel: the last delivery that there was when it began
  changed     bigint NOT NULL DEFAULT 0,  -- retry, cancel: deliveries that it has changed
  PRIMARY KEY (ws, id)
) WITHOUT ROWID;
INSERT INTO run_next (ws, id, kind, subject, definitions, status, cursor, done, total, error, started_at, updated_at, finished_at, cause, since, repaired)
SELECT ws, id, kind, subject, definitions, status, cursor, done, total, error, started_at, updated_at, finished_at, cause, since, repaired FROM run;
DROP TABLE run;
ALTER TABLE run_next RENAME TO run;
CREATE INDEX run_open ON run (id) WHERE status = 'running';
-- +goose StatementEnd
