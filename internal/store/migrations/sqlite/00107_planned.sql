-- Made from ../postgres by go test ./internal/store -run TestMigrationsHaveOneSource -update; not edited by hand.
-- +goose Up
-- +goose StatementBegin
ALTER TABLE delivery ADD COLUMN record_id bigint NOT NULL DEFAULT 0;  -- of its instance
UPDATE delivery SET record_id = (SELECT i.record_id FROM instance AS i WHERE i.ws = delivery.ws AND i.id = delivery.instance_id)
WHERE EXISTS (SELECT 1 FROM instance AS i WHERE i.ws = delivery.ws AND i.id = delivery.instance_id AND i.record_id > 0);
-- What a record has planned is found without reading what has ended: its pending occasions, and the deliveries that wait or will be reminded.
CREATE INDEX delivery_record ON delivery (record_id, instance_id) WHERE record_id > 0 AND (send_at > 0 OR status = 'scheduled');
CREATE INDEX instance_waiting ON instance (record_id, id) WHERE record_id > 0 AND status = 'pending';
DROP INDEX instance_course;
-- +goose StatementEnd
