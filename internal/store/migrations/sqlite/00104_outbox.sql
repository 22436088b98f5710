-- Made from ../postgres by go test ./internal/store -run TestMigrationsHaveOneSource -update; not edited by hand.
-- +goose Up
-- +goose StatementBegin
CREATE TABLE outbox_event (    -- a fact for other systems, written in the transaction in which it happened
  ws          bigint NOT NULL,
  id          bigint NOT NULL,            -- those of one delivery or instance ascend in the order in which they happened
  type        text NOT NULL,  -- such as response.completed
  message_id  text NOT NULL,  -- receivers drop a second message with the same one
  workflow    text NOT NULL,
  delivery_id bigint NOT NULL,            -- 0: it is about an instance
  instance_id bigint NOT NULL,
  body        text NOT NULL,              -- CloudEvent, JSON
  created_at  bigint NOT NULL,
  PRIMARY KEY (ws, id)
) WITHOUT ROWID;
CREATE INDEX outbox_event_instance ON outbox_event (instance_id);

CREATE TABLE dispatch (        -- an outbox event at one sink
  ws         bigint NOT NULL,
  event_id   bigint NOT NULL,
  sink       text NOT NULL,
  group_id   bigint NOT NULL,             -- its delivery or instance: at one sink, those of a group leave in their order
  status     text NOT NULL CHECK (status IN ('pending', 'dispatched', 'dead')),
  attempts   bigint NOT NULL DEFAULT 0,   -- since it was made or redriven
  attempt_no bigint NOT NULL DEFAULT 0,   -- ever
  next_at    bigint NOT NULL,             -- no try begins before; 0: none follows
  reason     text NOT NULL DEFAULT '',
  ended_at   bigint NOT NULL DEFAULT 0,
  PRIMARY KEY (ws, event_id, sink),
  CHECK ((next_at > 0) = (status = 'pending'))
) WITHOUT ROWID;
CREATE INDEX dispatch_due ON dispatch (sink, ws, next_at, event_id) WHERE status = 'pending';
CREATE INDEX dispatch_group ON dispatch (group_id, sink, event_id) WHERE status = 'pending';
CREATE INDEX dispatch_dead ON dispatch (sink, ws, event_id) WHERE status = 'dead';

CREATE TABLE dispatch_attempt (  -- tries of an outbox event at one sink
  ws       bigint NOT NULL,
  event_id bigint NOT NULL,
  sink     text NOT NULL,
  number   bigint NOT NULL,
  began_at bigint NOT NULL,
  ended_at bigint NOT NULL,
  outcome  text NOT NULL,
  reason   text NOT NULL,
  error    text NOT NULL,
  PRIMARY KEY (ws, event_id, sink, number)
) WITHOUT ROWID;

CREATE TABLE sink (            -- a sink that was ever routed an event
  ws            bigint NOT NULL,
  name          text NOT NULL,
  state         text NOT NULL CHECK (state IN ('active', 'paused', 'disabled')),
  failing_since bigint NOT NULL DEFAULT 0,
  failed_at     bigint NOT NULL DEFAULT 0,
  rest_until    bigint NOT NULL DEFAULT 0,  -- no try begins before: its last one failed
  reason        text NOT NULL DEFAULT '',
  PRIMARY KEY (ws, name)
) WITHOUT ROWID;
CREATE INDEX sink_active ON sink (ws, name) WHERE state = 'active';
-- +goose StatementEnd
