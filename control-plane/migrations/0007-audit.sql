-- Who changed what, when and from where. No reference to users or things, because lines stay after these are deleted.

CREATE TABLE audit (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at timestamptz NOT NULL DEFAULT now(),
  actor uuid,
  address text,
  request text,
  action text NOT NULL,
  objects text[] NOT NULL,
  relations text[] NOT NULL
);

CREATE INDEX audit_at ON audit (at);
CREATE INDEX audit_actor ON audit (actor, at);
CREATE INDEX audit_objects ON audit USING gin (objects);
