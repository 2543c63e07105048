-- Up Migration

-- Certificates are read from their own table, which also has renewed ones. Only the mapping stores their issuer.
ALTER TABLE mappings ADD issuing_ca text, ADD ca_chain text[];
UPDATE mappings SET issuing_ca = certificates->>'ca_cert', ca_chain = (
  SELECT ARRAY(SELECT json_array_elements_text(record->'CAChain'))
  FROM (SELECT value AS record FROM json_each(certificates->'certificates') LIMIT 1) AS first
  WHERE json_typeof(record->'CAChain') = 'array'
) WHERE certificates IS NOT NULL;
ALTER TABLE mappings DROP certificates;

-- Down Migration

ALTER TABLE mappings DROP issuing_ca, DROP ca_chain, ADD certificates json;
