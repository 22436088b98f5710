-- +goose Up
-- +goose StatementBegin
-- Subscriptions that wait until their contact confirms them, one of a contact and a topic. asked is how many times the contact was asked.
CREATE TABLE subscription_request (
  ws           bigint NOT NULL,
  contact_id   bigint NOT NULL,
  topic_id     bigint NOT NULL,
  id           bigint NOT NULL,
  frequency    text NOT NULL,
  source       text NOT NULL,
  asked        bigint NOT NULL DEFAULT 0,
  requested_at bigint NOT NULL,
  next_at      bigint NOT NULL,
  PRIMARY KEY (ws, contact_id, topic_id)
);
CREATE INDEX subscription_request_due ON subscription_request (next_at, id);
-- +goose StatementEnd
