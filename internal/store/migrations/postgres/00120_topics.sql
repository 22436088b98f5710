-- +goose Up
-- +goose StatementBegin
CREATE TABLE topic (           -- what people subscribe to
  ws         bigint NOT NULL,
  id         bigint NOT NULL,
  name       text COLLATE "C" NOT NULL,
  source     text COLLATE "C" NOT NULL CHECK (source IN ('definition', 'data')), -- a definition in force, or made by a program
  hash       text COLLATE "C" NOT NULL,   -- of its rules and the frequencies on offer: programs find a topic by them
  document   text COLLATE "C" NOT NULL,   -- the whole topic, as a definition writes it
  version    bigint NOT NULL,             -- counts the changes, from 1
  created_at bigint NOT NULL,
  updated_at bigint NOT NULL,
  removed_at bigint NOT NULL DEFAULT 0,   -- since when no item belongs to it; 0: items do
  PRIMARY KEY (ws, id),
  UNIQUE (name, ws)
);
CREATE INDEX topic_hash ON topic (hash, ws) WHERE source = 'data';

CREATE TABLE topic_term (      -- under which terms a topic is filed: an item that one of its rules fits has one of these
  ws       bigint NOT NULL,
  term     text COLLATE "C" NOT NULL,
  topic_id bigint NOT NULL,
  PRIMARY KEY (term, ws, topic_id)
);
CREATE INDEX topic_term_topic ON topic_term (ws, topic_id);

CREATE TABLE subscription (    -- that a contact follows a topic, and how often the contact wants to hear of it; a row that has ended stays as it is
  ws         bigint NOT NULL,
  id         bigint NOT NULL,
  contact_id bigint NOT NULL,
  topic_id   bigint NOT NULL,
  frequency  text COLLATE "C" NOT NULL,
  source     text COLLATE "C" NOT NULL,   -- how it began, such as api
  since      bigint NOT NULL,             -- when the contact began to follow the topic: that of the row before, where the frequency changed
  started_at bigint NOT NULL,
  ended_at   bigint NOT NULL DEFAULT 0,   -- 0: it goes on
  end_reason text COLLATE "C" NOT NULL DEFAULT '',
  covered_through bigint NOT NULL,        -- up to which match the contact is covered: matches after it may be new to them
  PRIMARY KEY (ws, id)
);
CREATE UNIQUE INDEX subscription_of ON subscription (ws, contact_id, topic_id) WHERE ended_at = 0;
CREATE INDEX subscription_frequency ON subscription (ws, frequency, contact_id) WHERE ended_at = 0;
CREATE INDEX subscription_topic ON subscription (topic_id, contact_id) WHERE ended_at = 0;
CREATE INDEX subscription_topic_frequency ON subscription (topic_id, frequency, contact_id) WHERE ended_at = 0;
CREATE INDEX subscription_contact ON subscription (contact_id, id);

CREATE TABLE item (            -- what is published; its fields are the payload of the event of the same id
  ws         bigint NOT NULL,
  id         bigint NOT NULL,
  ext_id     text COLLATE "C" NOT NULL,
  edition    text COLLATE "C" NOT NULL,   -- its version as the caller names it
  hash       text COLLATE "C" NOT NULL,   -- of its fields
  match_at   bigint NOT NULL,             -- since when its topics are to be found; 0: they were found
  PRIMARY KEY (ws, id),
  UNIQUE (ext_id, edition, ws)
);
CREATE INDEX item_match ON item (match_at, id) WHERE match_at > 0;

CREATE TABLE matcher (         -- the lock under which a workspace finds the topics of its items, one transaction after the other
  ws       bigint NOT NULL PRIMARY KEY,
  last_seq bigint NOT NULL                -- the last number that a match has
);

CREATE TABLE topic_match (     -- that an item belongs to a topic; numbered in the order of the commits, never computed again
  ws       bigint NOT NULL,
  topic_id bigint NOT NULL,
  seq      bigint NOT NULL,
  item_id  bigint NOT NULL,
  received_at bigint NOT NULL,            -- of the item
  PRIMARY KEY (ws, topic_id, seq)
);
CREATE INDEX topic_match_item ON topic_match (ws, item_id);
-- +goose StatementEnd
