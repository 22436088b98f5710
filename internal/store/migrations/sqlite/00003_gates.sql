-- +goose Up
-- +goose StatementBegin

CREATE TABLE record (          -- a document of the caller's whose state triggers look at
  ws          bigint NOT NULL,
  id          bigint NOT NULL,
  type        text NOT NULL,
  ext_id      text NOT NULL,
  props       text NOT NULL,              -- JSON
  closed      bigint NOT NULL DEFAULT 0,
  deleted     bigint NOT NULL DEFAULT 0,  -- the row stays: what was counted of it holds when it is made again
  rev         bigint NOT NULL,            -- counts the writes, from 1
  modified_by text NOT NULL,
  changed_at  bigint NOT NULL DEFAULT 0,  -- the first write that no look has seen yet; 0: all were seen
  look_at     bigint NOT NULL DEFAULT 0,  -- when a trigger has to look at it next; 0: not before it changes
  looked_at   bigint NOT NULL DEFAULT 0,  -- when it was looked at last
  state       text NOT NULL DEFAULT '',   -- JSON: what each trigger remembers of it
  failures    bigint NOT NULL DEFAULT 0,  -- looks in a row that could not be finished
  created_at  bigint NOT NULL,
  updated_at  bigint NOT NULL,
  PRIMARY KEY (ws, id),
  UNIQUE (ext_id, type, ws)
);
CREATE INDEX record_look ON record (look_at, id) WHERE look_at > 0;
CREATE INDEX record_type ON record (type, ws, id);

CREATE TABLE throttle (        -- gate 1: when a context fired last
  ws          bigint NOT NULL,
  workflow    text NOT NULL,
  context     text NOT NULL,  -- trigger and the values of cooldown.per, as in the key
  trigger     text NOT NULL,
  record_id   bigint NOT NULL,
  instance_id bigint NOT NULL,  -- the latest
  fired_at    bigint NOT NULL,  -- nominal; 0: it was reset
  issues      text NOT NULL DEFAULT '',  -- that fired then, with commas: they say how long the cooldown is
  void_at     bigint NOT NULL DEFAULT 0,  -- from then on the cooldown does not count: nobody was told; 0: it counts
  PRIMARY KEY (context, workflow, ws)
) WITHOUT ROWID;

CREATE INDEX throttle_workflow ON throttle (workflow, ws, context);
CREATE INDEX throttle_record ON throttle (record_id, context);

CREATE TABLE run (             -- work over many rows that goes on after a crash
  ws          bigint NOT NULL,
  id          bigint NOT NULL,
  kind        text NOT NULL CHECK (kind IN ('look', 'cadence', 'children')),
  subject     text NOT NULL,              -- look: the type of record
  definitions bigint NOT NULL,            -- number of the set that asked for it
  status      text NOT NULL CHECK (status IN ('running', 'done', 'failed', 'cancelled')),
  cursor      bigint NOT NULL DEFAULT 0,  -- the last id that is done
  done        bigint NOT NULL DEFAULT 0,
  total       bigint NOT NULL DEFAULT 0,  -- as counted at the start
  error       text NOT NULL DEFAULT '',
  started_at  bigint NOT NULL,
  updated_at  bigint NOT NULL,
  finished_at bigint NOT NULL DEFAULT 0,
  PRIMARY KEY (ws, id)
) WITHOUT ROWID;
CREATE INDEX run_open ON run (id) WHERE status = 'running';

-- A delivery has one slot. A reminder takes a new one; the place of the message before it is kept here.
CREATE TABLE past_slot (
  ws          bigint NOT NULL,
  contact_id  bigint NOT NULL,
  slot        bigint NOT NULL,
  type        text NOT NULL,
  channel     text NOT NULL,
  delivery_id bigint NOT NULL,
  PRIMARY KEY (ws, contact_id, slot, delivery_id)
) WITHOUT ROWID;

-- The record that an instance is about; which of its episodes; the context that gate 1 knows it by; how far a large
-- audience is expanded.
ALTER TABLE instance ADD COLUMN record_id bigint NOT NULL DEFAULT 0;
ALTER TABLE instance ADD COLUMN episode bigint NOT NULL DEFAULT 0;
ALTER TABLE instance ADD COLUMN context text NOT NULL DEFAULT '';
ALTER TABLE instance ADD COLUMN expand_cursor bigint NOT NULL DEFAULT 0;
CREATE INDEX instance_record ON instance (record_id, id) WHERE record_id > 0;

ALTER TABLE delivery ADD COLUMN fallback_of bigint NOT NULL DEFAULT 0;

ALTER TABLE decision ADD COLUMN record_id bigint NOT NULL DEFAULT 0;
ALTER TABLE decision ADD COLUMN context text NOT NULL DEFAULT '';
CREATE INDEX decision_record ON decision (record_id, id) WHERE record_id > 0;

ALTER TABLE contact ADD COLUMN persona text NOT NULL DEFAULT '';
ALTER TABLE contact ADD COLUMN cadence text NOT NULL DEFAULT '';  -- JSON: the person's own limits
CREATE INDEX contact_persona ON contact (persona, ws, id) WHERE persona <> '';

-- Since when what waits for the limits of a person is to be planned anew, because these have changed. 0: it is not.
ALTER TABLE cadence ADD COLUMN replan_at bigint NOT NULL DEFAULT 0;
CREATE INDEX cadence_replan ON cadence (replan_at, contact_id) WHERE replan_at > 0;

-- The delivery with which this one leaves, or is to leave, as one message; its own id: it takes others along.
ALTER TABLE delivery ADD COLUMN folded_into bigint NOT NULL DEFAULT 0;
CREATE INDEX delivery_folded ON delivery (ws, folded_into) WHERE folded_into > 0;

-- Alerts of which a message ended without having been sent: whether anybody is told of them is still to be looked at.
CREATE TABLE unheard (
  ws          bigint NOT NULL,
  id          bigint NOT NULL,
  instance_id bigint NOT NULL,
  at          bigint NOT NULL,
  PRIMARY KEY (ws, id)
) WITHOUT ROWID;
CREATE INDEX instance_context ON instance (context, workflow, ws, created_at) WHERE context <> '';

-- 1: the address was one of the contact's own when the delivery was made, so it has to be one when it is sent. 0: the event
-- named another one.
ALTER TABLE delivery ADD COLUMN own_address bigint NOT NULL DEFAULT 0;

-- Of a contact that was made for an address: the contact that has claimed this address since, and all that was made for it.
ALTER TABLE cadence ADD COLUMN merged_into bigint NOT NULL DEFAULT 0;
CREATE INDEX cadence_merged ON cadence (ws, merged_into) WHERE merged_into > 0;
UPDATE cadence SET merged_into = a.contact_id
FROM contact AS p CROSS JOIN address AS a
WHERE p.ws = cadence.ws AND p.id = cadence.contact_id AND p.ext_id LIKE 'addr:%'
  AND a.ws = p.ws AND a.hash = substr(p.ext_id, 6) AND a.contact_id <> p.id;
-- +goose StatementEnd
