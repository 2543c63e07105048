-- Up Migration
-- For people: the rows of one publisher, by the index of publishers, which no statement uses without its expression. PostgreSQL puts the bodies in
-- place of the calls, so that conditions, orders and limits around them use the index too.

CREATE FUNCTION sluice.of_publisher(of_channel text, of_thing text) RETURNS SETOF public.messages
  LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT * FROM public.messages
    WHERE hashtextextended(publisher, hashtextextended(channel, 0)) = hashtextextended(of_thing, hashtextextended(of_channel, 0))
      AND channel = of_channel AND publisher = of_thing
  $$;

-- The same as a condition, for the tables of formats: WHERE sluice.of_publisher(channel, publisher, '<channel>', '<thing>').
CREATE FUNCTION sluice.of_publisher(channel text, publisher text, of_channel text, of_thing text) RETURNS boolean
  LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT hashtextextended(publisher, hashtextextended(channel, 0)) = hashtextextended(of_thing, hashtextextended(of_channel, 0))
      AND channel = of_channel AND publisher = of_thing
  $$;

-- Down Migration
DROP FUNCTION sluice.of_publisher(text, text, text, text);
DROP FUNCTION sluice.of_publisher(text, text);
