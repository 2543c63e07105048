-- Up Migration

-- For lists in the order of ids. Without these indexes, a list of an owner of many rows reads the table in that order, with others' rows, until a page
-- is full; if few rows match, to its end.
CREATE INDEX things_owner_id ON things (owner, id);
CREATE INDEX channels_owner_id ON channels (owner, id);

-- Down Migration

DROP INDEX channels_owner_id;
DROP INDEX things_owner_id;
