-- Up Migration
-- How many of the skipped offsets held a message that the log deleted before it was read.
ALTER TABLE sluice.offsets ADD COLUMN lost bigint NOT NULL DEFAULT 0;

-- Messages that were dead-lettered and then stored by a replay, by their original position: each is stored once.
CREATE TABLE sluice.replayed (
  position bigint PRIMARY KEY,
  replayed_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Down Migration
DROP TABLE sluice.replayed;
ALTER TABLE sluice.offsets DROP COLUMN lost;
