-- Made from ../postgres by go test ./internal/store -run TestMigrationsHaveOneSource -update; not edited by hand.
-- +goose Up
-- +goose StatementBegin
-- When a person cancelled the occasion: none of its deliveries is sent any more, also those whose rows are not ended yet; 0: it is not cancelled.
ALTER TABLE instance ADD COLUMN cancelled_at bigint NOT NULL DEFAULT 0;
-- When retention began to delete the instance: its rows are deleted in pages, and it counts as deleted already; 0: it is kept.
ALTER TABLE instance ADD COLUMN deleted_at bigint NOT NULL DEFAULT 0;
-- Claims and lists ask whether an instance is marked. Nearly none is.
CREATE INDEX instance_cancelled ON instance (id) WHERE cancelled_at > 0;
CREATE INDEX instance_deleted ON instance (id) WHERE deleted_at > 0;
-- +goose StatementEnd
