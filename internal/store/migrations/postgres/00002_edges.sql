-- +goose Up
-- +goose StatementBegin

-- Since when the present step of a delivery may have arrived without an answer: the intent of its first attempt of
-- unknown outcome. 0: every outcome of the step is known.
ALTER TABLE delivery ADD COLUMN doubt_at bigint NOT NULL DEFAULT 0;

-- When the present step was due, while its channel's rate or breaker has moved send_at. 0: send_at says it.
ALTER TABLE delivery ADD COLUMN due_at bigint NOT NULL DEFAULT 0;

CREATE TABLE pace (            -- when a channel with a rate may send next, for all processes
  ws      bigint NOT NULL,
  channel text COLLATE "C" NOT NULL,  -- kind:name
  next_at bigint NOT NULL,      -- the next instant that is free
  tail_at bigint NOT NULL,      -- behind the last of those that wait
  PRIMARY KEY (ws, channel)
) WITH (fillfactor = 50);

CREATE TABLE idempotency (     -- answers to writing requests, stored with what these did
  ws         bigint NOT NULL,
  key        text COLLATE "C" NOT NULL,  -- hex SHA-256 of route and Idempotency-Key
  request    text NOT NULL,              -- hex SHA-256 of the body
  status     bigint NOT NULL,            -- HTTP status
  answer     text NOT NULL,
  created_at bigint NOT NULL,
  PRIMARY KEY (ws, key)
);
CREATE INDEX idempotency_age ON idempotency (created_at);

CREATE TABLE secret (          -- settings of channels, sealed
  ws         bigint NOT NULL,
  name       text COLLATE "C" NOT NULL,
  sealed     text NOT NULL,              -- base64: key id, nonce, AES-256-GCM
  updated_at bigint NOT NULL,
  PRIMARY KEY (ws, name)
);

-- What waits for a person, for the metrics and the console.
CREATE INDEX instance_held ON instance (ws, id) WHERE held = 1;
CREATE INDEX delivery_unknown ON delivery (ws, id) WHERE status = 'unknown';

-- One delivery an instance, person and channel: its key says the same in text, and is as unique by that. The index also
-- finds the deliveries of an instance; like every index over row ids it begins with the id.
DROP INDEX delivery_instance;
CREATE UNIQUE INDEX delivery_instance ON delivery (instance_id, contact_id, channel);

CREATE TABLE spent (           -- what is known for ever of an occasion whose rows were deleted
  ws          bigint NOT NULL,
  hash        text COLLATE "C" NOT NULL,  -- hex SHA-256 of the occasion's key
  instance_id bigint NOT NULL,            -- the instance that stood for it; 0: the key is free
  retries     bigint NOT NULL,            -- the highest n of key:retry:n that was used
  forgotten   bigint NOT NULL,            -- n of key:retry:n that stands for the occasion since the key was freed
  PRIMARY KEY (ws, hash)
);

-- What is known of a contact beside the address by which it was first met.
ALTER TABLE contact ADD COLUMN name text NOT NULL DEFAULT '';
ALTER TABLE contact ADD COLUMN addresses text NOT NULL DEFAULT '';   -- JSON: kind of channel to address
ALTER TABLE contact ADD COLUMN attributes text NOT NULL DEFAULT '';  -- JSON
ALTER TABLE contact ADD COLUMN updated_at bigint NOT NULL DEFAULT 0;
ALTER TABLE contact ADD COLUMN suppressed_at bigint NOT NULL DEFAULT 0;  -- cadence.suppressed decides
ALTER TABLE contact ADD COLUMN suppress_reason text NOT NULL DEFAULT '';
-- +goose StatementEnd
