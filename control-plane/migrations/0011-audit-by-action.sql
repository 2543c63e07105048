-- Up Migration

-- For pages of one action: without it, a page of a rare one reads the whole log, from the newest line on.
CREATE INDEX audit_action ON audit (action, at);

-- Down Migration

DROP INDEX audit_action;
