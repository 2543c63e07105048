-- A database of the first release, as pg_dump wrote it: a user with two things, of which one is connected to a channel. Its master key is the tests' own,
-- and the user's password is `correct horse battery`.

CREATE SCHEMA control_plane;
CREATE TABLE control_plane.channels (
    id uuid NOT NULL,
    ordinal bigint NOT NULL,
    owner uuid NOT NULL,
    name text NOT NULL,
    metadata jsonb,
    created_at timestamp with time zone DEFAULT now() NOT NULL
);
ALTER TABLE control_plane.channels ALTER COLUMN ordinal ADD GENERATED ALWAYS AS IDENTITY ( SEQUENCE NAME control_plane.channels_ordinal_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE control_plane.connections (
    thing uuid NOT NULL,
    channel uuid NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE control_plane.installation (
    only_row boolean DEFAULT true NOT NULL,
    key_check bytea NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT installation_only_row_check CHECK (only_row)
);
CREATE TABLE control_plane.migrations (
    id integer NOT NULL,
    name character varying(255) NOT NULL,
    run_on timestamp without time zone NOT NULL
);
CREATE SEQUENCE control_plane.migrations_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE control_plane.migrations_id_seq OWNED BY control_plane.migrations.id;
CREATE TABLE control_plane.things (
    id uuid NOT NULL,
    ordinal bigint NOT NULL,
    owner uuid NOT NULL,
    name text NOT NULL,
    metadata jsonb,
    key_ciphertext bytea NOT NULL,
    key_lookup bytea NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL
);
ALTER TABLE control_plane.things ALTER COLUMN ordinal ADD GENERATED ALWAYS AS IDENTITY ( SEQUENCE NAME control_plane.things_ordinal_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE control_plane.tuples (
    object text NOT NULL,
    relation text NOT NULL,
    subject text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT tuples_relation_check CHECK ((relation = ANY (ARRAY['member'::text, 'read'::text, 'write'::text, 'delete'::text, 'create'::text])))
);
CREATE TABLE control_plane.users (
    id uuid NOT NULL,
    email text NOT NULL,
    password_hash text NOT NULL,
    token_version integer DEFAULT 1 NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL
);
ALTER TABLE ONLY control_plane.migrations ALTER COLUMN id SET DEFAULT nextval('control_plane.migrations_id_seq'::regclass);
INSERT INTO control_plane.channels OVERRIDING SYSTEM VALUE VALUES ('42d72aa3-bc1b-440c-b89a-21a8212c8296', 1, 'fd0ccb10-9d30-408b-bf15-1f702257f758', 'site', NULL, '2026-01-01 00:00:00+00');
INSERT INTO control_plane.connections VALUES ('b5387d4e-b1ac-4736-82de-607246bdfd48', '42d72aa3-bc1b-440c-b89a-21a8212c8296', '2026-01-01 00:00:00+00');
INSERT INTO control_plane.installation VALUES (true, '\xf8837c0640aee5f081c3a45ae3a82eba5d34cd5fadbdcd8634bfa9b0ee44fb92', '2026-01-01 00:00:00+00');
INSERT INTO control_plane.migrations VALUES (1, '0001-users-things-channels', '2026-01-01 00:00:00+00');
INSERT INTO control_plane.things OVERRIDING SYSTEM VALUE VALUES ('b5387d4e-b1ac-4736-82de-607246bdfd48', 1, 'fd0ccb10-9d30-408b-bf15-1f702257f758', 'sensor', NULL, '\x23c2dfb6aed62f2cd9a29dc8953f3039ba9f4fd67467d2b19218fcd2a46c05786c3023f7355add3db79b364bdd9621ee6fb51dad27d5fca7d8552266329a0639ae33eb89', '\xc0e61eb15502eef18ac6bd2b04a5dfa8900bdb371782fe9f0af273ca4cf8197d', '2026-01-01 00:00:00+00');
INSERT INTO control_plane.things OVERRIDING SYSTEM VALUE VALUES ('ed70fa8b-5128-4edf-a5a6-523379e8f564', 2, 'fd0ccb10-9d30-408b-bf15-1f702257f758', 'Élan', '{"floor": 3}', '\x23c2dfb6c51ebb9691c4c9570b46bace97076da12f30da09e03bb48f721bcd26d1311801d9c54268f2706ae5e59a9a3fbf35194dfef001a01a1f9891fb58209d25906d1c', '\x604d03ab050721bb3429d131dfed90158b258b6427255445825a12250131a672', '2026-01-01 00:00:00+00');
INSERT INTO control_plane.tuples VALUES ('users', 'create', '*', '2026-01-01 00:00:00+00');
INSERT INTO control_plane.tuples VALUES ('authorities', 'member', 'dad57eae-a338-4591-8015-2ca029fdddef', '2026-01-01 00:00:00+00');
INSERT INTO control_plane.tuples VALUES ('users', 'member', 'dad57eae-a338-4591-8015-2ca029fdddef', '2026-01-01 00:00:00+00');
INSERT INTO control_plane.tuples VALUES ('users', 'member', 'fd0ccb10-9d30-408b-bf15-1f702257f758', '2026-01-01 00:00:00+00');
INSERT INTO control_plane.tuples VALUES ('b5387d4e-b1ac-4736-82de-607246bdfd48', 'delete', 'fd0ccb10-9d30-408b-bf15-1f702257f758', '2026-01-01 00:00:00+00');
INSERT INTO control_plane.tuples VALUES ('b5387d4e-b1ac-4736-82de-607246bdfd48', 'read', 'fd0ccb10-9d30-408b-bf15-1f702257f758', '2026-01-01 00:00:00+00');
INSERT INTO control_plane.tuples VALUES ('b5387d4e-b1ac-4736-82de-607246bdfd48', 'write', 'fd0ccb10-9d30-408b-bf15-1f702257f758', '2026-01-01 00:00:00+00');
INSERT INTO control_plane.tuples VALUES ('ed70fa8b-5128-4edf-a5a6-523379e8f564', 'delete', 'fd0ccb10-9d30-408b-bf15-1f702257f758', '2026-01-01 00:00:00+00');
INSERT INTO control_plane.tuples VALUES ('ed70fa8b-5128-4edf-a5a6-523379e8f564', 'read', 'fd0ccb10-9d30-408b-bf15-1f702257f758', '2026-01-01 00:00:00+00');
INSERT INTO control_plane.tuples VALUES ('ed70fa8b-5128-4edf-a5a6-523379e8f564', 'write', 'fd0ccb10-9d30-408b-bf15-1f702257f758', '2026-01-01 00:00:00+00');
INSERT INTO control_plane.users VALUES ('dad57eae-a338-4591-8015-2ca029fdddef', 'chief@sluice.example', '$argon2id$v=19$m=19456,t=2,p=1$sA8BzqO9/qerhqOdQcDKXw$8AXhAc3L8o7h5fuc7mjC46I0639asydBSjgWe3OqkMg', 1, '2026-01-01 00:00:00+00');
INSERT INTO control_plane.users VALUES ('fd0ccb10-9d30-408b-bf15-1f702257f758', 'owner@sluice.example', '$argon2id$v=19$m=19456,t=2,p=1$RvDkfkEBJglXPTJarhbW1w$YVgAWdmX+LeR5GXCbmc1/zxTM2MK5cuF5UDJeGCCDuE', 1, '2026-01-01 00:00:00+00');
SELECT pg_catalog.setval('control_plane.channels_ordinal_seq', 1, true);
SELECT pg_catalog.setval('control_plane.migrations_id_seq', 1, true);
SELECT pg_catalog.setval('control_plane.things_ordinal_seq', 2, true);
ALTER TABLE ONLY control_plane.channels ADD CONSTRAINT channels_pkey PRIMARY KEY (id);
ALTER TABLE ONLY control_plane.connections ADD CONSTRAINT connections_pkey PRIMARY KEY (thing, channel);
ALTER TABLE ONLY control_plane.installation ADD CONSTRAINT installation_pkey PRIMARY KEY (only_row);
ALTER TABLE ONLY control_plane.migrations ADD CONSTRAINT migrations_pkey PRIMARY KEY (id);
ALTER TABLE ONLY control_plane.things ADD CONSTRAINT things_key_lookup_unique UNIQUE (key_lookup);
ALTER TABLE ONLY control_plane.things ADD CONSTRAINT things_pkey PRIMARY KEY (id);
ALTER TABLE ONLY control_plane.tuples ADD CONSTRAINT tuples_pkey PRIMARY KEY (object, relation, subject);
ALTER TABLE ONLY control_plane.users ADD CONSTRAINT users_email_unique UNIQUE (email);
ALTER TABLE ONLY control_plane.users ADD CONSTRAINT users_pkey PRIMARY KEY (id);
CREATE INDEX channels_owner ON control_plane.channels USING btree (owner, ordinal);
CREATE INDEX connections_channel ON control_plane.connections USING btree (channel, thing);
CREATE INDEX things_owner ON control_plane.things USING btree (owner, ordinal);
CREATE INDEX things_owner_name ON control_plane.things USING btree (owner, name, ordinal);
CREATE INDEX tuples_subject ON control_plane.tuples USING btree (subject, relation);
ALTER TABLE ONLY control_plane.channels ADD CONSTRAINT channels_owner_fkey FOREIGN KEY (owner) REFERENCES control_plane.users(id);
ALTER TABLE ONLY control_plane.connections ADD CONSTRAINT connections_channel_fkey FOREIGN KEY (channel) REFERENCES control_plane.channels(id) ON DELETE CASCADE;
ALTER TABLE ONLY control_plane.connections ADD CONSTRAINT connections_thing_fkey FOREIGN KEY (thing) REFERENCES control_plane.things(id) ON DELETE CASCADE;
ALTER TABLE ONLY control_plane.things ADD CONSTRAINT things_owner_fkey FOREIGN KEY (owner) REFERENCES control_plane.users(id);
