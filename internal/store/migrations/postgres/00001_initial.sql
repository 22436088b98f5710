-- +goose Up
-- +goose StatementBegin
-- Every column is bigint or text and NOT NULL; 0 and '' mean none. Instants are µs since 1970, UTC.
--
-- PostgreSQL: keys are compared as bytes (COLLATE "C"). Fillfactors below 100 leave room for updates on the same
-- page. The hot tables are vacuumed and analysed after 2 % of changes: finding due work depends on it.

CREATE TABLE node (  -- one row: how many processes have opened the database
  id    bigint NOT NULL PRIMARY KEY CHECK (id = 1),
  taken bigint NOT NULL
);
INSERT INTO node (id, taken) VALUES (1, 0);

CREATE TABLE workspace (
  id          bigint NOT NULL PRIMARY KEY,
  name        text COLLATE "C" NOT NULL UNIQUE,
  secret      text NOT NULL,              -- hex
  definitions bigint NOT NULL DEFAULT 0,  -- number of the set in force
  created_at  bigint NOT NULL
);

CREATE TABLE api_key (
  ws         bigint NOT NULL,
  id         bigint NOT NULL,
  name       text COLLATE "C" NOT NULL,
  hash       text COLLATE "C" NOT NULL,  -- hex SHA-256
  scopes     text NOT NULL,              -- JSON array
  created_at bigint NOT NULL,
  revoked_at bigint NOT NULL DEFAULT 0,
  PRIMARY KEY (ws, id)
);
CREATE UNIQUE INDEX api_key_name ON api_key (ws, name) WHERE revoked_at = 0;
CREATE INDEX api_key_hash ON api_key (hash);

CREATE TABLE definition (
  ws         bigint NOT NULL,
  kind       text COLLATE "C" NOT NULL,
  name       text COLLATE "C" NOT NULL,
  version    bigint NOT NULL,
  text       text NOT NULL,
  hash       text NOT NULL,
  added_in   bigint NOT NULL,  -- numbers of the sets from which and until which it counts
  removed_in bigint NOT NULL DEFAULT 0,
  PRIMARY KEY (ws, kind, name, version)
);

CREATE TABLE contact (
  ws         bigint NOT NULL,
  id         bigint NOT NULL,
  ext_id     text COLLATE "C" NOT NULL,
  address    text NOT NULL,
  locale     text NOT NULL,
  timezone   text NOT NULL,
  created_at bigint NOT NULL,
  PRIMARY KEY (ws, id),
  UNIQUE (ext_id, ws)  -- the name first: see instance
);

CREATE TABLE cadence (  -- narrow: its row is the lock on a person
  ws         bigint NOT NULL,
  contact_id bigint NOT NULL,
  suppressed bigint NOT NULL DEFAULT 0,
  PRIMARY KEY (ws, contact_id)
) WITH (fillfactor = 50);

CREATE TABLE address (  -- by which address a person is recognised
  ws         bigint NOT NULL,
  hash       text COLLATE "C" NOT NULL,
  contact_id bigint NOT NULL,
  PRIMARY KEY (ws, hash)
);

CREATE TABLE event (
  ws             bigint NOT NULL,
  id             bigint NOT NULL,
  ext_id         text NOT NULL,
  kind           text NOT NULL,
  occurred_at    bigint NOT NULL,
  occurred_given bigint NOT NULL,
  received_at    bigint NOT NULL,
  payload        text NOT NULL,  -- JSON
  recipient      text NOT NULL,  -- JSON
  trace          text NOT NULL,  -- JSON
  PRIMARY KEY (ws, id)
);

CREATE TABLE instance (
  ws               bigint NOT NULL,
  id               bigint NOT NULL,
  key              text COLLATE "C" NOT NULL,
  workflow         text NOT NULL,
  workflow_version bigint NOT NULL,
  definitions      bigint NOT NULL,
  type             text NOT NULL,
  trigger          text NOT NULL,
  event_id         bigint NOT NULL,
  status           text NOT NULL CHECK (status IN ('pending', 'completed', 'deactivated', 'failed', 'cancelled', 'skipped')),
  held             bigint NOT NULL DEFAULT 0 CHECK (held IN (0, 1)),
  due_at           bigint NOT NULL,
  next_retry_at    bigint NOT NULL DEFAULT 0,
  ready_at         bigint NOT NULL DEFAULT 0,  -- the later of both while a worker may take it, else 0
  lease_until      bigint NOT NULL DEFAULT 0,
  version          bigint NOT NULL DEFAULT 0,
  attempts         bigint NOT NULL DEFAULT 0,
  retry_count      bigint NOT NULL DEFAULT 0,
  crashes          bigint NOT NULL DEFAULT 0,
  reason           text NOT NULL DEFAULT '',
  input_hash       text NOT NULL,
  trace            text NOT NULL DEFAULT '',   -- JSON
  forgotten        bigint NOT NULL DEFAULT 0,  -- n of key:retry:n that stands for the occasion since the key was freed
  created_at       bigint NOT NULL,
  completed_at     bigint NOT NULL DEFAULT 0,
  PRIMARY KEY (ws, id),
  -- The name first. While its statistics know of few rows PostgreSQL thinks the primary key, which begins with ws, as good
  -- for finding a key, and would read the whole workspace for each key of a batch.
  UNIQUE (key, ws),
  CHECK (ready_at = 0 OR (status = 'pending' AND held = 0))
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
CREATE INDEX instance_due ON instance (ready_at, id) WHERE ready_at > 0;
-- Row ids are unique across workspaces. An index over them begins with the id: with ws in front SQLite prefers to read the
-- whole workspace by its primary key.
CREATE INDEX instance_event ON instance (event_id);

CREATE TABLE delivery (
  ws                  bigint NOT NULL,
  id                  bigint NOT NULL,
  key                 text COLLATE "C" NOT NULL,
  instance_id         bigint NOT NULL,
  event_id            bigint NOT NULL,
  contact_id          bigint NOT NULL,
  workflow            text NOT NULL,
  workflow_version    bigint NOT NULL,
  definitions         bigint NOT NULL,
  type                text NOT NULL,
  trigger             text NOT NULL,
  channel             text NOT NULL,              -- kind:name
  address             text NOT NULL,
  locale              text NOT NULL,
  customer_ref        text NOT NULL,
  status              text NOT NULL CHECK (status IN ('scheduled', 'sent', 'opened', 'responded', 'expired', 'skipped',
                                                      'failed', 'superseded', 'cancelled', 'unknown')),
  not_before          bigint NOT NULL,
  send_at             bigint NOT NULL,            -- 0: nothing more is planned
  slot                bigint NOT NULL,            -- 0: holds no place in any limit
  deferred_by         text NOT NULL DEFAULT '',
  lease_until         bigint NOT NULL DEFAULT 0,
  version             bigint NOT NULL DEFAULT 0,
  step                bigint NOT NULL DEFAULT 0,
  attempt_no          bigint NOT NULL DEFAULT 0,
  intent_at           bigint NOT NULL DEFAULT 0,  -- of the open attempt
  lost_intent         bigint NOT NULL DEFAULT 0,  -- what intent_at was before the latest claim
  retry_count         bigint NOT NULL DEFAULT 0,
  reminders_remaining bigint NOT NULL DEFAULT 0,
  last_sent_at        bigint NOT NULL DEFAULT 0,
  expires_at          bigint NOT NULL DEFAULT 0,
  reason              text NOT NULL DEFAULT '',
  stop_reason         text NOT NULL DEFAULT '',
  trace               text NOT NULL DEFAULT '',   -- JSON
  created_at          bigint NOT NULL,
  completed_at        bigint NOT NULL DEFAULT 0,
  PRIMARY KEY (ws, id),
  -- The states that may have something to send, one by one: a new state must be added here to be sent at all.
  CHECK (send_at = 0 OR status IN ('scheduled', 'sent', 'opened')),
  CHECK (expires_at = 0 OR (send_at = 0 AND status IN ('scheduled', 'sent', 'opened', 'unknown')))
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
CREATE INDEX delivery_due ON delivery (send_at, id) WHERE send_at > 0;
CREATE INDEX delivery_expiry ON delivery (expires_at, id) WHERE expires_at > 0;
CREATE INDEX delivery_person ON delivery (ws, contact_id, slot, type, channel);
CREATE INDEX delivery_instance ON delivery (instance_id);

CREATE TABLE attempt (
  ws              bigint NOT NULL,
  delivery_id     bigint NOT NULL,
  number          bigint NOT NULL,  -- 0: nothing was tried, the entry says why
  step            bigint NOT NULL,
  channel         text NOT NULL,
  idempotency_key text NOT NULL,
  intent_at       bigint NOT NULL,
  settled_at      bigint NOT NULL,
  outcome         text NOT NULL CHECK (outcome IN ('delivered', 'failed', 'unknown', 'none')),
  reason          text NOT NULL,
  provider_id     text NOT NULL,
  error           text NOT NULL,
  PRIMARY KEY (ws, delivery_id, number, step, settled_at)
);

CREATE TABLE content (
  ws          bigint NOT NULL,
  delivery_id bigint NOT NULL,
  step        bigint NOT NULL,
  id          bigint NOT NULL,
  at          bigint NOT NULL,
  channel     text NOT NULL,
  address     text NOT NULL,
  locale      text NOT NULL,
  subject     text NOT NULL,
  text        text NOT NULL,
  html        text NOT NULL,
  PRIMARY KEY (ws, delivery_id, step)
);
CREATE INDEX content_id ON content (ws, id);

CREATE TABLE decision (              -- what left no instance behind
  ws               bigint NOT NULL,
  id               bigint NOT NULL,
  at               bigint NOT NULL,
  event_id         bigint NOT NULL,
  instance_id      bigint NOT NULL,  -- the one that it met
  workflow         text NOT NULL,
  workflow_version bigint NOT NULL,
  trigger          text NOT NULL,
  reason           text NOT NULL,
  trace            text NOT NULL,    -- JSON
  PRIMARY KEY (ws, id)
);
CREATE INDEX decision_event ON decision (event_id);

CREATE TABLE audit (
  ws     bigint NOT NULL,
  id     bigint NOT NULL,
  at     bigint NOT NULL,
  actor  text NOT NULL,
  action text NOT NULL,
  target text NOT NULL,
  detail text NOT NULL,  -- JSON
  PRIMARY KEY (ws, id)
);
-- +goose StatementEnd
