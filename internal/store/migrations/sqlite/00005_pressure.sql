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
-- +goose StatementEnd
