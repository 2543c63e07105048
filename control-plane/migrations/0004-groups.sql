-- Up Migration

-- Its members among the users are policies (`member` on the group), wherever they come from; its things are rows.
CREATE TABLE groups (
  id uuid PRIMARY KEY,
  ordinal bigint GENERATED ALWAYS AS IDENTITY,
  owner uuid NOT NULL REFERENCES users,
  name text NOT NULL,
  name_folded text NOT NULL,
  description text,
  metadata jsonb,
  version integer NOT NULL DEFAULT 1,
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX groups_owner ON groups (owner, ordinal);

CREATE TABLE group_things (
  group_id uuid NOT NULL REFERENCES groups ON DELETE CASCADE,
  thing uuid NOT NULL REFERENCES things ON DELETE CASCADE,
  PRIMARY KEY (group_id, thing)
);
CREATE INDEX group_things_thing ON group_things (thing);

-- Down Migration

DROP TABLE group_things;
DROP TABLE groups;
