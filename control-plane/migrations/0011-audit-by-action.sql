-- Up Migration

-- For pages of one action: without it a rare one has the whole log read, from the newest line on.
CREATE INDEX audit_action ON audit (action, at);

-- Down Migration

DROP INDEX audit_action;
