-- Up Migration

-- Failures of the current minute, counted by all instances together: see failed-attempts.ts.
CREATE TABLE failed_attempts (
  -- An HMAC of what was tried and the client's address.
  key text PRIMARY KEY,
  failures integer NOT NULL,
  -- The minute begins with the first failure; afterwards the row is ignored.
  ends_at timestamptz NOT NULL
);
CREATE INDEX failed_attempts_ends_at ON failed_attempts (ends_at);

-- Down Migration

DROP TABLE failed_attempts;
