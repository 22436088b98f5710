-- +goose Up
-- +goose StatementBegin
-- Subscriptions that have ended, for their retention and for that of topics.
CREATE INDEX subscription_ended ON subscription (ws, ended_at, id) WHERE ended_at > 0;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE INDEX subscription_topic_ended ON subscription (topic_id) WHERE ended_at > 0;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE INDEX subscription_request_topic ON subscription_request (topic_id);
-- +goose StatementEnd
-- +goose StatementBegin
-- People who have an address of their own, and no id of a caller's.
CREATE INDEX contact_address ON contact (ws, id) WHERE address <> '';
-- +goose StatementEnd
-- +goose StatementBegin
-- Slots of deliveries that are gone.
CREATE INDEX past_slot_old ON past_slot (ws, slot);
-- +goose StatementEnd
-- +goose StatementBegin
-- Runs that are not over, for the metrics.
CREATE INDEX digest_run_begun ON digest_run (begun_at) WHERE over_at = 0;
-- +goose StatementEnd
