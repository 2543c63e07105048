-- Up Migration

-- Changes of policies of existing entities, to be delivered to an OpenFGA server in the order of their commits.
CREATE TABLE policy_changes (
  number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  added jsonb NOT NULL,
  -- Policies, and objects or subjects whose policies are all removed.
  removed jsonb NOT NULL,
  since timestamptz NOT NULL DEFAULT now()
);

-- Instances of an older version still write it.
ALTER TABLE policy_outbox ALTER COLUMN kind DROP NOT NULL;

-- Down Migration

ALTER TABLE policy_outbox ALTER COLUMN kind SET DEFAULT 'thing';
DROP TABLE policy_changes;
