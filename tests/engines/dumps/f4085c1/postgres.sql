--
-- PostgreSQL database dump
--


-- Dumped from database version 15.18 (Debian 15.18-0+deb12u1)
-- Dumped by pg_dump version 15.18 (Debian 15.18-0+deb12u1)

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

--
-- Name: rep_gateway; Type: SCHEMA; Schema: -; Owner: -
--

CREATE SCHEMA rep_gateway;


--
-- Name: commit_entries(json, json); Type: FUNCTION; Schema: rep_gateway; Owner: -
--

CREATE FUNCTION rep_gateway.commit_entries(checks json, writes json) RETURNS uuid
    LANGUAGE plpgsql
    AS $$
DECLARE
  item record;
  found_version uuid;
  new_version uuid := gen_random_uuid();
BEGIN
  FOR item IN
    SELECT part->>0 AS prefix, part->>1 AS name, (part->>2)::uuid AS version
    FROM json_array_elements(checks) AS part ORDER BY (part->>0) COLLATE "C", (part->>1) COLLATE "C"
  LOOP
    SELECT entry.version INTO found_version FROM rep_gateway.entry
    WHERE entry.prefix = item.prefix AND entry.name = item.name FOR UPDATE;
    IF found_version IS DISTINCT FROM item.version THEN RETURN NULL; END IF;
  END LOOP;
  INSERT INTO rep_gateway.entry
  SELECT part->>0, part->>1, '', new_version FROM json_array_elements(checks) AS part
  WHERE part->>2 IS NULL ORDER BY (part->>0) COLLATE "C", (part->>1) COLLATE "C";
  FOR item IN
    SELECT part->>0 AS prefix, part->>1 AS name, part->>2 AS value
    FROM json_array_elements(writes) WITH ORDINALITY AS list(part, position)
    ORDER BY (part->>0) COLLATE "C", (part->>1) COLLATE "C", position
  LOOP
    IF item.value IS NULL THEN
      DELETE FROM rep_gateway.entry WHERE entry.prefix = item.prefix AND entry.name = item.name;
    ELSE
      INSERT INTO rep_gateway.entry VALUES (item.prefix, item.name, item.value, new_version)
      ON CONFLICT (prefix, name) DO UPDATE SET value = EXCLUDED.value, version = EXCLUDED.version;
    END IF;
    IF item.prefix = '[]' AND length(item.name) < 1000 THEN PERFORM pg_notify('rep_gateway', item.name); END IF;
  END LOOP;
  DELETE FROM rep_gateway.entry USING json_array_elements(checks) AS part
  WHERE entry.prefix = part->>0 AND entry.name = part->>1 AND part->>2 IS NULL AND entry.value = '';
  RETURN new_version;
END
$$;


SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: entry; Type: TABLE; Schema: rep_gateway; Owner: -
--

CREATE TABLE rep_gateway.entry (
    prefix text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    value text NOT NULL,
    version uuid NOT NULL
);


--
-- Name: schema_version; Type: TABLE; Schema: rep_gateway; Owner: -
--

CREATE TABLE rep_gateway.schema_version (
    version integer NOT NULL,
    compatible_since integer NOT NULL
);


--
-- Data for Name: entry; Type: TABLE DATA; Schema: rep_gateway; Owner: -
--

INSERT INTO rep_gateway.entry VALUES ('["cause"]', 'nc27a21ff68c33000', '{"command":"set","writes":1}', '58000e15-3416-4c0b-a9ef-a277832ca17c');
INSERT INTO rep_gateway.entry VALUES ('["write"]', 'nc27a21ff68c33000', '{"name":"TITLE","at":1795832581171,"value":{"$bytes":"R3LDvMOfZQ=="},"last":1795832581171,"replaced":0}', '58000e15-3416-4c0b-a9ef-a277832ca17c');
INSERT INTO rep_gateway.entry VALUES ('[]', '-master-key', '{"$bytes":"PuaW3G5BQIvwI2StdDovqaOukhLlNa87fKmPLf4JDu0="}', '3ea1d123-5ef6-4f7b-83c9-cc8071f87060');
INSERT INTO rep_gateway.entry VALUES ('["event"]', 'nc31985336c5a0a78', '{"name":"COLOR","value":{"$bytes":"cmVk"}}', '41e93318-d5c9-42cc-84f4-3e1584a81caa');
INSERT INTO rep_gateway.entry VALUES ('["event"]', 'nc31985336c5a1a18', '{"name":"GONE","value":{"$bytes":"MQ=="}}', '41e93318-d5c9-42cc-84f4-3e1584a81caa');
INSERT INTO rep_gateway.entry VALUES ('["event"]', 'nc31985336c5a29b8', '{"name":"TITLE","value":{"$bytes":"R3LDvMOfZQ=="}}', '41e93318-d5c9-42cc-84f4-3e1584a81caa');
INSERT INTO rep_gateway.entry VALUES ('["member"]', '-7afb7e1a-63ca-4d6b-bbbb-da999c4824ee', '{"hash":"sha256-2VGJ+6iqscM25kk7RDC0tf800QrMQQVdlStOydyUvnc=","names":[481589998,3888318712],"keyFingerprint":"628dda2db44d","newestWrite":1795832581171,"rank":1,"heartbeatAt":1795832581357,"hasLeft":true}', '8b07d37c-ee21-4697-9528-cb5bc8fb4e2a');
INSERT INTO rep_gateway.entry VALUES ('["cause"]', 'nc27a21ff68d59000', '{"command":"set","writes":1}', '7f066b45-2f2f-41b8-a74a-d0c9fd38a4fe');
INSERT INTO rep_gateway.entry VALUES ('["variable"]', '-TITLE', '{"value":{"$bytes":"R3LDvMOfZSAy"},"id":1795832581465,"at":1795832581465}', '7f066b45-2f2f-41b8-a74a-d0c9fd38a4fe');
INSERT INTO rep_gateway.entry VALUES ('["write"]', 'nc27a21ff68d59000', '{"name":"TITLE","at":1795832581465,"value":{"$bytes":"R3LDvMOfZSAy"},"last":1795832581465,"replaced":1795832581171,"previous":{"$bytes":"R3LDvMOfZQ=="}}', '7f066b45-2f2f-41b8-a74a-d0c9fd38a4fe');
INSERT INTO rep_gateway.entry VALUES ('[]', '-variables', '{"id":1795832581465,"writes":2}', '7f066b45-2f2f-41b8-a74a-d0c9fd38a4fe');
INSERT INTO rep_gateway.entry VALUES ('[]', '-activations', '[{"hash":"sha256-2VGJ+6iqscM25kk7RDC0tf800QrMQQVdlStOydyUvnc=","rank":1,"since":1795832581356,"isRollback":false,"place":"7afb7e1a-63ca-4d6b-bbbb-da999c4824ee","isReload":false,"until":1795832581652},{"hash":"sha256-fOHw51+wJBM3CfoH95IoSde+Lp3MjTWGYQ28JGWRKJw=","rank":2,"since":1795832581652,"isRollback":false,"place":"e93befb8-f67a-4b4b-a77e-230c65e382c3","isReload":false}]', '5f8c3937-2bf6-4fbd-a3f3-848b6b1dd5cc');
INSERT INTO rep_gateway.entry VALUES ('[]', '-rollout', '2', '5f8c3937-2bf6-4fbd-a3f3-848b6b1dd5cc');
INSERT INTO rep_gateway.entry VALUES ('["event"]', 'nc31985336c6c3ab8', '{"name":"COLOR","value":{"$bytes":"Ymx1ZQ=="}}', '030a0db4-3e6e-4e48-8b22-ce793ec6aacf');
INSERT INTO rep_gateway.entry VALUES ('["event"]', 'nc31985336c6c4a58', '{"name":"TITLE","value":{"$bytes":"R3LDvMOfZSAy"}}', '030a0db4-3e6e-4e48-8b22-ce793ec6aacf');
INSERT INTO rep_gateway.entry VALUES ('["event"]', 'nc31985336c6c59f8', '{"name":"GONE"}', '030a0db4-3e6e-4e48-8b22-ce793ec6aacf');
INSERT INTO rep_gateway.entry VALUES ('["state"]', '-COLOR', '{"name":"COLOR","value":{"$bytes":"Ymx1ZQ=="},"id":1795832581656238}', '030a0db4-3e6e-4e48-8b22-ce793ec6aacf');
INSERT INTO rep_gateway.entry VALUES ('["state"]', '-GONE', '{"name":"GONE","id":1795832581658238}', '030a0db4-3e6e-4e48-8b22-ce793ec6aacf');
INSERT INTO rep_gateway.entry VALUES ('["state"]', '-TITLE', '{"name":"TITLE","value":{"$bytes":"R3LDvMOfZSAy"},"id":1795832581657238}', '030a0db4-3e6e-4e48-8b22-ce793ec6aacf');
INSERT INTO rep_gateway.entry VALUES ('[]', '-head', '{"id":1795832581658238,"compactedUpTo":0,"recent":6}', '030a0db4-3e6e-4e48-8b22-ce793ec6aacf');
INSERT INTO rep_gateway.entry VALUES ('["member"]', '-e93befb8-f67a-4b4b-a77e-230c65e382c3', '{"hash":"sha256-fOHw51+wJBM3CfoH95IoSde+Lp3MjTWGYQ28JGWRKJw=","names":[3888318712],"keyFingerprint":"628dda2db44d","newestWrite":1795832581465,"rank":2,"heartbeatAt":1795832581652,"hasLeft":true}', '39165c42-7402-4627-b349-591724a9922c');


--
-- Data for Name: schema_version; Type: TABLE DATA; Schema: rep_gateway; Owner: -
--

INSERT INTO rep_gateway.schema_version VALUES (1, 1);


--
-- Name: entry entry_pkey; Type: CONSTRAINT; Schema: rep_gateway; Owner: -
--

ALTER TABLE ONLY rep_gateway.entry
    ADD CONSTRAINT entry_pkey PRIMARY KEY (prefix, name);


--
-- PostgreSQL database dump complete
--


