-- Made from ../postgres by go test ./internal/store -run TestMigrationsHaveOneSource -update; not edited by hand.
-- +goose Up
-- +goose StatementBegin
-- Every column is bigint or text and NOT NULL; 0 and '' mean none. Instants are µs since 1970, UTC. Row ids are unique across
-- workspaces.
--
-- An index over row ids begins with the id: with ws in front SQLite prefers to read the whole workspace by its primary key. A unique
-- key of names begins with the name: while its statistics know of few rows, PostgreSQL takes the primary key, which begins with
-- ws, for as good, and would read the whole workspace for each name of a batch.
--
-- SQLite: rows are stored in their primary key (WITHOUT ROWID), those of record are not.

-- The installation ---------------------------------------------------------------------------------------------------

CREATE TABLE node (            -- one row: how many processes have opened the database
  id    bigint NOT NULL PRIMARY KEY CHECK (id = 1),
  taken bigint NOT NULL
) WITHOUT ROWID;
INSERT INTO node (id, taken) VALUES (1, 0);

CREATE TABLE installation (    -- one row: what distinguishes a database from a copy of it
  id             bigint NOT NULL PRIMARY KEY CHECK (id = 1),
  epoch          bigint NOT NULL,         -- how often a process has recognised the database as the one it knew
  alive_at       bigint NOT NULL,         -- when a process worked on it last
  place          text NOT NULL,           -- where it lies
  restored_at    bigint NOT NULL,
  restored_why   text NOT NULL,
  given_up_until bigint NOT NULL          -- work that was due before is not done from this copy
) WITHOUT ROWID;

CREATE TABLE zone (            -- the time zones that were used for planning, and their rules then
  name  text NOT NULL PRIMARY KEY,
  rules text NOT NULL                     -- hash; other rules move what is pending
) WITHOUT ROWID;

CREATE TABLE workspace (
  id          bigint NOT NULL PRIMARY KEY,
  name        text NOT NULL UNIQUE,
  secret      text NOT NULL,              -- hex
  definitions bigint NOT NULL DEFAULT 0,  -- number of the set in force
  created_at  bigint NOT NULL
) WITHOUT ROWID;

-- Access -------------------------------------------------------------------------------------------------------------

CREATE TABLE api_key (
  ws         bigint NOT NULL,
  id         bigint NOT NULL,
  name       text NOT NULL,
  hash       text NOT NULL,   -- hex SHA-256
  scopes     text NOT NULL,               -- JSON array
  created_at bigint NOT NULL,
  revoked_at bigint NOT NULL DEFAULT 0,
  expires_at bigint NOT NULL DEFAULT 0,   -- 0: never
  used_at    bigint NOT NULL DEFAULT 0,   -- the last use, to the minute
  old_hash   text NOT NULL DEFAULT '',  -- of the secret before a rotation,
  old_until  bigint NOT NULL DEFAULT 0,             -- which is accepted until then
  PRIMARY KEY (ws, id)
) WITHOUT ROWID;
CREATE UNIQUE INDEX api_key_name ON api_key (ws, name) WHERE revoked_at = 0;
CREATE INDEX api_key_hash ON api_key (hash);
CREATE INDEX api_key_old_hash ON api_key (old_hash) WHERE old_hash <> '';

CREATE TABLE console_session ( -- who is signed in to the console
  ws         bigint NOT NULL,
  hash       text NOT NULL,   -- hex SHA-256 of the random token in the browser
  key_hash   text NOT NULL,   -- of the API key; the session ends with the key
  created_at bigint NOT NULL,
  expires_at bigint NOT NULL,
  PRIMARY KEY (ws, hash)
) WITHOUT ROWID;
CREATE INDEX console_session_hash ON console_session (hash);
CREATE INDEX console_session_expires ON console_session (expires_at);

CREATE TABLE secret (          -- settings of channels, encrypted
  ws         bigint NOT NULL,
  name       text NOT NULL,
  sealed     text NOT NULL,               -- base64: key id, nonce, AES-256-GCM
  updated_at bigint NOT NULL,
  PRIMARY KEY (ws, name)
) WITHOUT ROWID;

CREATE TABLE idempotency (     -- answers to requests that wrote, stored in the transactions of these requests
  ws         bigint NOT NULL,
  key        text NOT NULL,   -- hex SHA-256 of route and Idempotency-Key
  request    text NOT NULL,               -- hex SHA-256 of the body
  status     bigint NOT NULL,             -- HTTP status
  answer     text NOT NULL,
  created_at bigint NOT NULL,
  PRIMARY KEY (ws, key)
) WITHOUT ROWID;
CREATE INDEX idempotency_age ON idempotency (created_at);

CREATE TABLE audit (           -- what a person or an API key has changed
  ws     bigint NOT NULL,
  id     bigint NOT NULL,
  at     bigint NOT NULL,
  actor  text NOT NULL,
  action text NOT NULL,
  target text NOT NULL,
  detail text NOT NULL,                   -- JSON
  PRIMARY KEY (ws, id)
) WITHOUT ROWID;

-- Definitions --------------------------------------------------------------------------------------------------------

CREATE TABLE definition (
  ws         bigint NOT NULL,
  kind       text NOT NULL,
  name       text NOT NULL,
  version    bigint NOT NULL,
  text       text NOT NULL,
  hash       text NOT NULL,
  added_in   bigint NOT NULL,             -- number of the first set that has this version
  removed_in bigint NOT NULL DEFAULT 0,   -- number of the first set that lacks it; 0: it is in force
  PRIMARY KEY (ws, kind, name, version)
) WITHOUT ROWID;

CREATE TABLE definition_set (  -- when a set came into force, and by whom
  ws     bigint NOT NULL,
  number bigint NOT NULL,
  at     bigint NOT NULL,
  actor  text NOT NULL,
  action text NOT NULL,                   -- apply, delete, rollback
  PRIMARY KEY (ws, number)
) WITHOUT ROWID;

CREATE TABLE pause (           -- a workflow that an operator has paused; its row goes when everything of it goes on
  ws         bigint NOT NULL,
  workflow   text NOT NULL,
  paused_at  bigint NOT NULL,
  resumed_at bigint NOT NULL DEFAULT 0,   -- 0: it is paused
  actor      text NOT NULL,
  why        text NOT NULL,
  PRIMARY KEY (ws, workflow)
) WITHOUT ROWID;
CREATE INDEX pause_over ON pause (resumed_at);

CREATE TABLE inputs (          -- the texts behind instance.input_hash; kept for ever
  ws   bigint NOT NULL,
  hash text NOT NULL,
  json text NOT NULL,
  PRIMARY KEY (ws, hash)
) WITHOUT ROWID;

-- People -------------------------------------------------------------------------------------------------------------

CREATE TABLE contact (
  ws              bigint NOT NULL,
  id              bigint NOT NULL,
  ext_id          text NOT NULL,
  address         text NOT NULL,          -- by which the contact was first met
  locale          text NOT NULL,
  timezone        text NOT NULL,
  created_at      bigint NOT NULL,
  name            text NOT NULL DEFAULT '',
  addresses       text NOT NULL DEFAULT '',            -- JSON: kind of channel to address
  attributes      text NOT NULL DEFAULT '',            -- JSON
  updated_at      bigint NOT NULL DEFAULT 0,
  suppressed_at   bigint NOT NULL DEFAULT 0,           -- cadence.suppressed decides
  suppress_reason text NOT NULL DEFAULT '',
  persona         text NOT NULL DEFAULT '',
  cadence         text NOT NULL DEFAULT '',            -- JSON: the contact's own limits
  find_name       text NOT NULL DEFAULT '',  -- name and ext_id in small letters, for people who search;
  find_id         text NOT NULL DEFAULT '',  -- '' for an id that was made from an address
  PRIMARY KEY (ws, id),
  UNIQUE (ext_id, ws)
) WITHOUT ROWID;
CREATE INDEX contact_persona ON contact (persona, ws, id) WHERE persona <> '';
CREATE INDEX contact_find_name ON contact (find_name, ws, id) WHERE find_name <> '';
CREATE INDEX contact_find_id ON contact (find_id, ws, id) WHERE find_id <> '';

CREATE TABLE cadence (         -- narrow: its row is the lock on a contact
  ws          bigint NOT NULL,
  contact_id  bigint NOT NULL,
  suppressed  bigint NOT NULL DEFAULT 0,
  reschedule_at   bigint NOT NULL DEFAULT 0,  -- since when waiting deliveries need new slots, because limits have changed; 0: they need none
  merged_into bigint NOT NULL DEFAULT 0,  -- the contact that has claimed the address for which this one was made
  PRIMARY KEY (ws, contact_id)
) WITHOUT ROWID;
CREATE INDEX cadence_reschedule ON cadence (reschedule_at, contact_id) WHERE reschedule_at > 0;
CREATE INDEX cadence_merged ON cadence (ws, merged_into) WHERE merged_into > 0;

CREATE TABLE address (         -- the addresses by which contacts are recognised
  ws         bigint NOT NULL,
  hash       text NOT NULL,
  contact_id bigint NOT NULL,
  PRIMARY KEY (ws, hash)
) WITHOUT ROWID;

-- Events and records -------------------------------------------------------------------------------------------------

CREATE TABLE event (
  ws             bigint NOT NULL,
  id             bigint NOT NULL,
  ext_id         text NOT NULL,
  kind           text NOT NULL,
  occurred_at    bigint NOT NULL,
  occurred_given bigint NOT NULL,         -- 1: the caller gave occurred_at
  received_at    bigint NOT NULL,
  payload        text NOT NULL,           -- JSON
  recipient      text NOT NULL,           -- JSON
  trace          text NOT NULL,           -- JSON
  PRIMARY KEY (ws, id)
) WITHOUT ROWID;

CREATE TABLE record (
  ws          bigint NOT NULL,
  id          bigint NOT NULL,
  type        text NOT NULL,
  ext_id      text NOT NULL,
  props       text NOT NULL,              -- JSON
  closed      bigint NOT NULL DEFAULT 0,
  deleted     bigint NOT NULL DEFAULT 0,  -- the row stays: its counts hold when the record is made again
  rev         bigint NOT NULL,            -- counts the writes, from 1
  modified_by text NOT NULL,
  changed_at  bigint NOT NULL DEFAULT 0,  -- the first write since the last evaluation; 0: none
  evaluate_at     bigint NOT NULL DEFAULT 0,  -- when its triggers are evaluated next; 0: not before it changes
  evaluated_at   bigint NOT NULL DEFAULT 0,  -- when they were evaluated last
  state       text NOT NULL DEFAULT '',   -- JSON: what each trigger keeps of the record
  failures    bigint NOT NULL DEFAULT 0,  -- evaluations in a row that failed
  created_at  bigint NOT NULL,
  updated_at  bigint NOT NULL,
  links       text NOT NULL DEFAULT '',   -- its rows of record_link as text, so that an evaluation knows whether they change
  PRIMARY KEY (ws, id),
  UNIQUE (ext_id, type, ws)
); -- SQLite: with row ids, since its rows are wide
CREATE INDEX record_evaluate ON record (evaluate_at, id) WHERE evaluate_at > 0;
CREATE INDEX record_type ON record (type, ws, id);

CREATE TABLE record_link (     -- the records that the triggers of another record read, as of its last evaluation
  ws       bigint NOT NULL,
  type     text NOT NULL,
  ext_id   text NOT NULL,
  child_id bigint NOT NULL,               -- the record whose triggers read it
  PRIMARY KEY (ext_id, type, ws, child_id)
) WITHOUT ROWID;
CREATE INDEX record_link_child ON record_link (child_id);

CREATE TABLE throttle (        -- when a context of a trigger fired last
  ws          bigint NOT NULL,
  workflow    text NOT NULL,
  context     text NOT NULL,  -- trigger and the values of cooldown.per, as in the key
  trigger     text NOT NULL,
  record_id   bigint NOT NULL,
  instance_id bigint NOT NULL,            -- of the last firing
  fired_at    bigint NOT NULL,            -- nominal; 0: it was reset
  issues      text NOT NULL DEFAULT '',   -- that were true then, with commas: they determine the length of the cooldown
  void_at     bigint NOT NULL DEFAULT 0,  -- from then on the cooldown does not count, since nobody was notified; 0: it counts
  PRIMARY KEY (context, workflow, ws)
) WITHOUT ROWID;
CREATE INDEX throttle_workflow ON throttle (workflow, ws, context);
CREATE INDEX throttle_record ON throttle (record_id, context);

CREATE TABLE repair (          -- triggers with reconcile: their records are evaluated again and again
  ws       bigint NOT NULL,
  workflow text NOT NULL,
  trigger  text NOT NULL,
  every    bigint NOT NULL,               -- µs
  due_at   bigint NOT NULL,
  since    bigint NOT NULL,               -- records that were written before have been evaluated
  PRIMARY KEY (ws, workflow, trigger)
) WITHOUT ROWID;
CREATE INDEX repair_due ON repair (due_at);

-- Occasions ----------------------------------------------------------------------------------------------------------

CREATE TABLE instance (
  ws               bigint NOT NULL,
  id               bigint NOT NULL,
  key              text NOT NULL,
  workflow         text NOT NULL,
  workflow_version bigint NOT NULL,
  definitions      bigint NOT NULL,
  type             text NOT NULL,
  trigger          text NOT NULL,
  source           text NOT NULL CHECK (source IN ('event', 'condition', 'plan', 'schedule', 'manual')),
  event_id         bigint NOT NULL,
  status           text NOT NULL CHECK (status IN ('pending', 'completed', 'deactivated', 'failed', 'cancelled', 'skipped')),
  hold             text NOT NULL DEFAULT '' CHECK (hold IN ('', 'paused', 'input_conflict', 'retries_used_up', 'worker_crashed')),
  delay            text NOT NULL DEFAULT '' CHECK (delay IN ('', 'failure', 'hold', 'pause', 'retry')),  -- why it is not late, see instance.Delay
  due_at           bigint NOT NULL,
  next_retry_at    bigint NOT NULL DEFAULT 0,
  ready_at         bigint NOT NULL DEFAULT 0,  -- the later of both while a worker may claim it, else 0
  lease_until      bigint NOT NULL DEFAULT 0,
  version          bigint NOT NULL DEFAULT 0,
  attempts         bigint NOT NULL DEFAULT 0,
  retry_count      bigint NOT NULL DEFAULT 0,
  crashes          bigint NOT NULL DEFAULT 0,
  reason           text NOT NULL DEFAULT '',
  input_hash       text NOT NULL,
  trace            text NOT NULL DEFAULT '',   -- JSON
  forgotten        bigint NOT NULL DEFAULT 0,  -- n of key:retry:n that represents the occasion since the key was freed
  created_at       bigint NOT NULL,
  completed_at     bigint NOT NULL DEFAULT 0,
  record_id        bigint NOT NULL DEFAULT 0,
  episode          bigint NOT NULL DEFAULT 0,  -- of the record
  context          text NOT NULL DEFAULT '',   -- of throttle
  expand_cursor    bigint NOT NULL DEFAULT 0,  -- the last contact of a large audience that has its deliveries
  local_date       text NOT NULL DEFAULT '',   -- the day on which it is due,
  timezone         text NOT NULL DEFAULT '',   -- and the zone of that day: both move due_at when the rules of the zone change
  retry_of         bigint NOT NULL DEFAULT 0,  -- the instance that an operator repeated with this one
  retried_by       bigint NOT NULL DEFAULT 0,  -- the instance with which an operator repeated this one
  held_at          bigint NOT NULL DEFAULT 0,
  head_id          bigint NOT NULL DEFAULT 0,  -- of the row of one zone: the instance of the occasion
  PRIMARY KEY (ws, id),
  UNIQUE (key, ws),
  CHECK (delay = '' OR status = 'pending'),
  CHECK (ready_at = 0 OR (status = 'pending' AND hold = ''))
) WITHOUT ROWID;
CREATE INDEX instance_due ON instance (ready_at, id) WHERE ready_at > 0;
CREATE INDEX instance_delayed ON instance (due_at, ready_at) WHERE retry_count > 0 AND ready_at > 0;
CREATE INDEX instance_held ON instance (ws, id) WHERE hold <> '';
CREATE INDEX instance_paused ON instance (workflow, ws, id) WHERE hold = 'paused';
CREATE INDEX instance_event ON instance (event_id);
CREATE INDEX instance_record ON instance (record_id, id) WHERE record_id > 0;
CREATE INDEX instance_context ON instance (context, workflow, ws, created_at) WHERE context <> '';
CREATE INDEX instance_zones ON instance (head_id, id) WHERE head_id > 0;
-- Occasions of a schedule: those that wait, and the latest of each status.
CREATE INDEX instance_series ON instance (workflow, trigger, ws, status, due_at) WHERE source = 'schedule' AND head_id = 0 AND retry_of = 0;

CREATE TABLE undelivered (         -- alerts of which a message ended unsent, until it is clear whether anybody is notified
  ws          bigint NOT NULL,
  id          bigint NOT NULL,
  instance_id bigint NOT NULL,
  at          bigint NOT NULL,
  PRIMARY KEY (ws, id)
) WITHOUT ROWID;

CREATE TABLE spent (           -- what is kept for ever of an occasion whose rows were deleted
  ws          bigint NOT NULL,
  hash        text NOT NULL,  -- hex SHA-256 of the occasion's key
  instance_id bigint NOT NULL,            -- that represented it; 0: the key is free
  retries     bigint NOT NULL,            -- the highest n of key:retry:n that was used
  forgotten   bigint NOT NULL,            -- as instance.forgotten
  PRIMARY KEY (ws, hash)
) WITHOUT ROWID;

CREATE TABLE decision (        -- occasions that made no instance
  ws               bigint NOT NULL,
  id               bigint NOT NULL,
  at               bigint NOT NULL,
  event_id         bigint NOT NULL,
  instance_id      bigint NOT NULL,       -- that has the key already
  workflow         text NOT NULL,
  workflow_version bigint NOT NULL,
  trigger          text NOT NULL,
  reason           text NOT NULL,
  trace            text NOT NULL,         -- JSON
  record_id        bigint NOT NULL DEFAULT 0,
  context          text NOT NULL DEFAULT '',
  PRIMARY KEY (ws, id)
) WITHOUT ROWID;
CREATE INDEX decision_event ON decision (event_id);
CREATE INDEX decision_record ON decision (record_id, id) WHERE record_id > 0;

-- Messages -----------------------------------------------------------------------------------------------------------

CREATE TABLE delivery (
  ws                  bigint NOT NULL,
  id                  bigint NOT NULL,
  key                 text NOT NULL,
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
  hold                text NOT NULL DEFAULT '' CHECK (hold IN ('', 'paused', 'inactive', 'no_channel', 'channel_down', 'rate')),  -- see delivery.Hold
  slot                bigint NOT NULL,            -- 0: no limit counts it
  deferred_by         text NOT NULL DEFAULT '',
  lease_until         bigint NOT NULL DEFAULT 0,
  version             bigint NOT NULL DEFAULT 0,
  step                bigint NOT NULL DEFAULT 0,
  attempt_no          bigint NOT NULL DEFAULT 0,
  intent_at           bigint NOT NULL DEFAULT 0,  -- of the open attempt
  lost_intent         bigint NOT NULL DEFAULT 0,  -- intent_at before the last claim
  retry_count         bigint NOT NULL DEFAULT 0,
  reminders_remaining bigint NOT NULL DEFAULT 0,
  last_sent_at        bigint NOT NULL DEFAULT 0,
  expires_at          bigint NOT NULL DEFAULT 0,
  reason              text NOT NULL DEFAULT '',
  stop_reason         text NOT NULL DEFAULT '',
  trace               text NOT NULL DEFAULT '',   -- JSON
  created_at          bigint NOT NULL,
  completed_at        bigint NOT NULL DEFAULT 0,
  unknown_since            bigint NOT NULL DEFAULT 0,  -- the intent of the step's first attempt of unknown outcome; 0: every outcome is known
  due_at              bigint NOT NULL DEFAULT 0,  -- when the step was due, while rate or breaker of the channel has moved send_at; 0: send_at
  fallback_of         bigint NOT NULL DEFAULT 0,  -- the delivery whose channel failed
  fold                text NOT NULL DEFAULT '' CHECK (fold IN ('', 'head', 'member', 'folded')),  -- see delivery.Fold
  folded_into         bigint NOT NULL DEFAULT 0,  -- the fold head; its own id: it is one
  own_address         bigint NOT NULL DEFAULT 0,  -- 1: address was the contact's own when it was made, and has to be when it is sent
  eligible_at         bigint NOT NULL DEFAULT 0,  -- when the message could have left, while a retry, rate, breaker or missing channel delays it
  own_at              text NOT NULL DEFAULT '',  -- "09:00 Europe/Berlin", or "09:00" in the contact's zone: when a wait for a new day ends
  PRIMARY KEY (ws, id),
  -- The states that may have something to send, one by one: a new state must be added here to be sent at all.
  CHECK (send_at = 0 OR status IN ('scheduled', 'sent', 'opened')),
  -- Without its channel a delivery waits for its expiry. Every other hold is of a planned message.
  CHECK (hold = '' OR (status IN ('scheduled', 'sent', 'opened') AND (send_at = 0) = (hold = 'no_channel'))),
  CHECK ((fold = '') = (folded_into = 0) AND (fold = 'head') = (folded_into = id)),
  -- What is folded has not ended before its head has: it may be sent by itself after all.
  CHECK (fold <> 'folded' OR status = 'skipped'),
  CHECK (expires_at = 0 OR (send_at = 0 AND status IN ('scheduled', 'sent', 'opened', 'unknown')))
) WITHOUT ROWID;
-- Parked deliveries are in no index of due rows, so that a pause does not slow the claims down.
CREATE INDEX delivery_due ON delivery (send_at, id) WHERE send_at > 0 AND hold <> 'paused';
CREATE INDEX delivery_delayed ON delivery (eligible_at, send_at, channel, reason) WHERE eligible_at > 0;
CREATE INDEX delivery_expiry ON delivery (expires_at, id) WHERE expires_at > 0;
CREATE INDEX delivery_person ON delivery (ws, contact_id, slot, type, channel);
CREATE INDEX delivery_unknown ON delivery (ws, id) WHERE status = 'unknown';
CREATE INDEX delivery_folded ON delivery (ws, folded_into) WHERE folded_into > 0;
CREATE INDEX delivery_inactive ON delivery (workflow, ws) WHERE hold = 'inactive';
CREATE INDEX delivery_paused ON delivery (workflow, ws, id) WHERE hold = 'paused';
CREATE INDEX delivery_address ON delivery (address, ws) WHERE own_address = 0 AND address <> '';
-- One delivery an instance, contact and channel: the key says the same in text. It also finds the deliveries of an instance.
CREATE UNIQUE INDEX delivery_instance ON delivery (instance_id, contact_id, channel);

CREATE TABLE past_slot (       -- the slots of earlier steps: a delivery has one slot, a reminder takes a new one
  ws          bigint NOT NULL,
  contact_id  bigint NOT NULL,
  slot        bigint NOT NULL,
  type        text NOT NULL,
  channel     text NOT NULL,
  delivery_id bigint NOT NULL,
  PRIMARY KEY (ws, contact_id, slot, delivery_id)
) WITHOUT ROWID;

CREATE TABLE attempt (
  ws              bigint NOT NULL,
  delivery_id     bigint NOT NULL,
  number          bigint NOT NULL,        -- 0: nothing was tried, the reason says why
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
) WITHOUT ROWID;

CREATE TABLE content (         -- messages that a channel of the provider inbox keeps
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
) WITHOUT ROWID;
CREATE INDEX content_id ON content (ws, id);

CREATE TABLE pace (            -- when a channel with a rate may send next, for all processes
  ws      bigint NOT NULL,
  channel text NOT NULL,      -- kind:name
  next_at bigint NOT NULL,                -- the next instant that is free
  tail_at bigint NOT NULL,                -- the instant after the last message that waits
  PRIMARY KEY (ws, channel)
) WITHOUT ROWID;

-- Jobs ---------------------------------------------------------------------------------------------------------------

CREATE TABLE job (             -- work over many rows, in pages, that goes on after a crash
  ws          bigint NOT NULL,
  id          bigint NOT NULL,
  kind        text NOT NULL CHECK (kind IN ('backfill', 'limits', 'related', 'reconcile', 'retry', 'cancel')),
  subject     text NOT NULL,              -- backfill: the type of record; limits: the persona; related: type/id; reconcile: workflow/trigger
  cause       text NOT NULL,              -- the workflows whose edit asked for it, with commas: they are not edited again before its end
  since       bigint NOT NULL,            -- reconcile: records that were written from then on are evaluated
  definitions bigint NOT NULL,            -- number of the set that asked for it
  status      text NOT NULL CHECK (status IN ('running', 'done', 'failed', 'cancelled')),
  version     bigint NOT NULL,            -- counts the changes; a change of an older version is refused
  cursor      bigint NOT NULL,            -- the last id that is done
  done        bigint NOT NULL,
  total       bigint NOT NULL,            -- as counted at the start
  changed     bigint NOT NULL,            -- reconcile: occasions that were missing; retry, cancel: deliveries that it has changed
  selection   text NOT NULL,              -- retry, cancel: which deliveries, as JSON
  actor       text NOT NULL,              -- retry, cancel: who asked for it
  last_id     bigint NOT NULL,            -- retry, cancel: the last delivery when it began
  error       text NOT NULL,
  started_at  bigint NOT NULL,
  updated_at  bigint NOT NULL,
  finished_at bigint NOT NULL,
  PRIMARY KEY (ws, id)
) WITHOUT ROWID;
CREATE INDEX job_open ON job (id) WHERE status = 'running';
-- +goose StatementEnd
