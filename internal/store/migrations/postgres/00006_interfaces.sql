-- +goose Up
-- +goose StatementBegin

-- The time of day that a message's own timing gave it, such as "09:00 Europe/Berlin", or "09:00" in the person's zone: a wait for
-- a new day, week or month ends then. Empty: it has none.
ALTER TABLE delivery ADD COLUMN own_at text COLLATE "C" NOT NULL DEFAULT '';

-- By what people find a contact: name and id in small letters; an id that was made for an address is not looked for.
ALTER TABLE contact ADD COLUMN find_name text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE contact ADD COLUMN find_id text COLLATE "C" NOT NULL DEFAULT '';
UPDATE contact SET find_name = lower(name), find_id = CASE WHEN ext_id LIKE 'addr:%' THEN '' ELSE lower(ext_id) END;
CREATE INDEX contact_find_name ON contact (find_name, ws, id) WHERE find_name <> '';
CREATE INDEX contact_find_id ON contact (find_id, ws, id) WHERE find_id <> '';

-- What went to an address that is none of the contact's own.
CREATE INDEX delivery_address ON delivery (address, ws) WHERE own_address = 0 AND address <> '';

-- When a set of definitions came into force, and by whom. Sets of earlier releases have no row.
CREATE TABLE definition_set (
  ws     bigint NOT NULL,
  number bigint NOT NULL,
  at     bigint NOT NULL,  -- unix µs, UTC
  actor  text NOT NULL,
  action text NOT NULL,    -- apply, delete, rollback
  PRIMARY KEY (ws, number)
);

-- Of the row of one zone of an occasion that is due by the zone of each person (decision 17): the instance of the occasion. 0: the
-- row is an occasion of its own. Row ids are unique across workspaces.
ALTER TABLE instance ADD COLUMN head_id bigint NOT NULL DEFAULT 0;
UPDATE instance SET head_id = COALESCE((SELECT h.id FROM instance AS h WHERE h.ws = instance.ws AND h.id <> instance.id AND h.key = replace(instance.key, ':z:' || instance.timezone, '')), 0)
WHERE timezone <> '' AND key LIKE '%:z:' || timezone;
CREATE INDEX instance_zones ON instance (head_id, id) WHERE head_id > 0;
-- +goose StatementEnd
