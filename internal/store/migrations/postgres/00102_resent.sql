-- +goose Up
-- +goose StatementBegin
-- 1: a person sent it again, as another delivery, under a key of its own; it is not sent again a second time. Until now only stop_reason said so.
ALTER TABLE delivery ADD COLUMN resent bigint NOT NULL DEFAULT 0;
UPDATE delivery SET resent = 1 WHERE stop_reason = 'resent_by_operator';
-- +goose StatementEnd
