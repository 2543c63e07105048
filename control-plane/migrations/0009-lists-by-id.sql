-- Up Migration

-- For lists in the order of ids. Without them who owns much of a table has it read in that order, others' rows too, until a page is full:
-- to its end where little matches.
CREATE INDEX things_owner_id ON things (owner, id);
CREATE INDEX channels_owner_id ON channels (owner, id);

-- Down Migration

DROP INDEX channels_owner_id;
DROP INDEX things_owner_id;
