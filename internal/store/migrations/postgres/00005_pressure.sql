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
ALTER TABLE api_key ADD COLUMN old_hash text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE api_key ADD COLUMN old_until bigint NOT NULL DEFAULT 0;
CREATE INDEX api_key_old_hash ON api_key (old_hash) WHERE old_hash <> '';

-- Who is signed in to the console: the hash of the random token that their browser has, and the hash of the API key with which
-- they signed in, without which the session is over.
CREATE TABLE console_session (
  ws         bigint NOT NULL,
  hash       text COLLATE "C" NOT NULL,  -- hex SHA-256
  key_hash   text COLLATE "C" NOT NULL,
  created_at bigint NOT NULL,
  expires_at bigint NOT NULL,
  PRIMARY KEY (ws, hash)
);
CREATE INDEX console_session_hash ON console_session (hash);
CREATE INDEX console_session_expires ON console_session (expires_at);
-- +goose StatementEnd
