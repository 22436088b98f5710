-- Made from ../postgres by go test ./internal/store -run TestMigrationsHaveOneSource -update; not edited by hand.
-- +goose Up
-- +goose StatementBegin
-- The due deliveries of one workspace, for its turn among others.
CREATE INDEX delivery_turn ON delivery (priority, ws, send_at, id) WHERE send_at > 0 AND hold <> 'paused';
-- +goose StatementEnd
