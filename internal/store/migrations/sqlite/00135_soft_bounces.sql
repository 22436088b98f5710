-- Made from ../postgres by go test ./internal/store -run TestMigrationsHaveOneSource -update; not edited by hand.
-- +goose Up
-- +goose StatementBegin
-- 1: the cause of a bounce may pass, so that its address takes further messages.
ALTER TABLE receipt ADD COLUMN soft bigint NOT NULL DEFAULT 0;
-- +goose StatementEnd
