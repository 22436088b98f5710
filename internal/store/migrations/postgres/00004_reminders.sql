-- +goose Up
-- +goose StatementBegin

-- The day on which an instance is due and the zone in which that is meant: what moves it when the rules of the zone do.
ALTER TABLE instance ADD COLUMN local_date text NOT NULL DEFAULT '';
ALTER TABLE instance ADD COLUMN timezone text NOT NULL DEFAULT '';

-- The records on which a record depends because triggers read them across it: as of its last look. Links is the same as a
-- text, by which a look knows whether it is still so.
ALTER TABLE record ADD COLUMN links text NOT NULL DEFAULT '';
CREATE TABLE record_link (
  ws       bigint NOT NULL,
  type     text COLLATE "C" NOT NULL,
  ext_id   text COLLATE "C" NOT NULL,
  child_id bigint NOT NULL,
  PRIMARY KEY (ext_id, type, ws, child_id)
);
CREATE INDEX record_link_child ON record_link (child_id);

-- What is made by the calendar has a date and no record. Of a series the ones that wait, and the latest of each status.
CREATE INDEX instance_series ON instance (workflow, trigger, ws, status, due_at) WHERE record_id = 0 AND local_date <> '';
-- The workflows whose edit asked for a run, with commas: these are not edited again before it has ended.
ALTER TABLE run ADD COLUMN cause text NOT NULL DEFAULT '';
-- +goose StatementEnd
