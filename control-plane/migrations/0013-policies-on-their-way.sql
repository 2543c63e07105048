-- Up Migration

-- Every change of policies passes the outbox: a row of an entity that is made has its id, and another one an id of its own.
ALTER TABLE policy_outbox RENAME COLUMN entity TO id;
ALTER TABLE policy_outbox RENAME COLUMN policies TO added;
-- When the transaction began, as in its lines of the audit log.
ALTER TABLE policy_outbox RENAME COLUMN since TO made_at;
ALTER TABLE policy_outbox
  DROP COLUMN kind,
  -- Policies, and objects or subjects of which all are removed.
  ADD COLUMN removed jsonb NOT NULL DEFAULT '[]',
  -- When another process takes the row over; until then it belongs to the one that renews it.
  ADD COLUMN due_at timestamptz NOT NULL DEFAULT now();
UPDATE policy_outbox SET removed = added, added = '[]' WHERE is_undone;
ALTER TABLE policy_outbox DROP COLUMN is_undone;
