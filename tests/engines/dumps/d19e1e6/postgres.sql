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

INSERT INTO rep_gateway.entry VALUES ('["write"]', 'nc27a20ac0cde9000', '{"name":"TITLE","at":1795476737513,"value":{"$bytes":"R3LDvMOfZQ=="}}', '24bf63f9-c53c-487f-b261-6868eccf466e');
INSERT INTO rep_gateway.entry VALUES ('[]', '-master-key', '{"$bytes":"cSDIkYqqKmXkyJNPHkggZpQe24JyVKjYYxmq/yxRxcE="}', '3cd6c958-0fe7-4522-a471-905eff848844');
INSERT INTO rep_gateway.entry VALUES ('["event"]', 'nc31983e804b20924', '{"name":"COLOR","value":{"$bytes":"cmVk"}}', '20682aae-f83b-4e97-8d8a-b5844d95b6e8');
INSERT INTO rep_gateway.entry VALUES ('["event"]', 'nc31983e804b218c4', '{"name":"GONE","value":{"$bytes":"MQ=="}}', '20682aae-f83b-4e97-8d8a-b5844d95b6e8');
INSERT INTO rep_gateway.entry VALUES ('["event"]', 'nc31983e804b22864', '{"name":"TITLE","value":{"$bytes":"R3LDvMOfZQ=="}}', '20682aae-f83b-4e97-8d8a-b5844d95b6e8');
INSERT INTO rep_gateway.entry VALUES ('["member"]', '-19ad0627-244f-4ef5-934f-1ef8d5b42324', '{"hash":"sha256-2VGJ+6iqscM25kk7RDC0tf800QrMQQVdlStOydyUvnc=","names":[481589998,3888318712],"keyFingerprint":"ce09274ec10a","newestWrite":1795476737513,"rank":1,"heartbeatAt":1795476738041,"hasLeft":true}', 'a88a4a74-2900-44e5-abbc-8a1996ea047c');
INSERT INTO rep_gateway.entry VALUES ('["variable"]', '-TITLE', '{"value":{"$bytes":"R3LDvMOfZSAy"},"id":1795476738562,"at":1795476738562}', '3e011e41-02bc-4ed0-af2d-d01a44b31cf8');
INSERT INTO rep_gateway.entry VALUES ('["write"]', 'nc27a20ac0d202000', '{"name":"TITLE","at":1795476738562,"value":{"$bytes":"R3LDvMOfZSAy"}}', '3e011e41-02bc-4ed0-af2d-d01a44b31cf8');
INSERT INTO rep_gateway.entry VALUES ('[]', '-variables', '{"id":1795476738562,"writes":2}', '3e011e41-02bc-4ed0-af2d-d01a44b31cf8');
INSERT INTO rep_gateway.entry VALUES ('[]', '-activations', '[{"hash":"sha256-2VGJ+6iqscM25kk7RDC0tf800QrMQQVdlStOydyUvnc=","rank":1,"since":1795476738039,"isRollback":false,"place":"19ad0627-244f-4ef5-934f-1ef8d5b42324","isReload":false,"until":1795476739044},{"hash":"sha256-fOHw51+wJBM3CfoH95IoSde+Lp3MjTWGYQ28JGWRKJw=","rank":2,"since":1795476739044,"isRollback":false,"place":"2745e0ed-3c0f-4488-ba7a-18c19e99927f","isReload":false}]', '555bf922-3a5a-40e2-9f3b-eed7cbb2553d');
INSERT INTO rep_gateway.entry VALUES ('[]', '-rollout', '2', '555bf922-3a5a-40e2-9f3b-eed7cbb2553d');
INSERT INTO rep_gateway.entry VALUES ('["event"]', 'nc31983e804f00c24', '{"name":"COLOR","value":{"$bytes":"Ymx1ZQ=="}}', 'eabb449c-af32-4aba-bf1e-dfd67b6d7d78');
INSERT INTO rep_gateway.entry VALUES ('["event"]', 'nc31983e804f01bc4', '{"name":"TITLE","value":{"$bytes":"R3LDvMOfZSAy"}}', 'eabb449c-af32-4aba-bf1e-dfd67b6d7d78');
INSERT INTO rep_gateway.entry VALUES ('["event"]', 'nc31983e804f02b64', '{"name":"GONE"}', 'eabb449c-af32-4aba-bf1e-dfd67b6d7d78');
INSERT INTO rep_gateway.entry VALUES ('["state"]', '-COLOR', '{"name":"COLOR","value":{"$bytes":"Ymx1ZQ=="},"id":1795476739064585}', 'eabb449c-af32-4aba-bf1e-dfd67b6d7d78');
INSERT INTO rep_gateway.entry VALUES ('["state"]', '-GONE', '{"name":"GONE","id":1795476739066585}', 'eabb449c-af32-4aba-bf1e-dfd67b6d7d78');
INSERT INTO rep_gateway.entry VALUES ('["state"]', '-TITLE', '{"name":"TITLE","value":{"$bytes":"R3LDvMOfZSAy"},"id":1795476739065585}', 'eabb449c-af32-4aba-bf1e-dfd67b6d7d78');
INSERT INTO rep_gateway.entry VALUES ('[]', '-head', '{"id":1795476739066585,"compactedUpTo":0,"recent":6}', 'eabb449c-af32-4aba-bf1e-dfd67b6d7d78');
INSERT INTO rep_gateway.entry VALUES ('["member"]', '-2745e0ed-3c0f-4488-ba7a-18c19e99927f', '{"hash":"sha256-fOHw51+wJBM3CfoH95IoSde+Lp3MjTWGYQ28JGWRKJw=","names":[3888318712],"keyFingerprint":"ce09274ec10a","newestWrite":1795476738562,"rank":2,"heartbeatAt":1795476739046,"hasLeft":true}', 'a274f968-359b-406b-a0e8-cef422e0b51c');


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


