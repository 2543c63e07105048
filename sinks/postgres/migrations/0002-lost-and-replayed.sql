-- Up Migration
-- Messages that the log deleted unread: of the skipped offsets, those that held one.
ALTER TABLE sluice.offsets ADD COLUMN lost bigint NOT NULL DEFAULT 0;

-- Messages that were dead-lettered, replayed and then stored, by the position they had at first: each is stored once.
CREATE TABLE sluice.replayed (
  position bigint PRIMARY KEY,
  replayed_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Down Migration
DROP TABLE sluice.replayed;
ALTER TABLE sluice.offsets DROP COLUMN lost;
