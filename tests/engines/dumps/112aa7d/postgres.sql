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
    version integer NOT NULL
);


--
-- Data for Name: entry; Type: TABLE DATA; Schema: rep_gateway; Owner: -
--

INSERT INTO rep_gateway.entry VALUES ('["write"]', 'nc27a20ac0af4a000', '{"name":"TITLE","at":1795476729674,"value":{"$bytes":"R3LDvMOfZQ=="}}', '971d0fe3-58e6-41bd-a642-4643a8551b91');
INSERT INTO rep_gateway.entry VALUES ('[]', '-master-key', '{"$bytes":"4dfFe0j1DINaCbFWaWagEwxaZbBJxQxBFlZF+I6D3ew="}', '6f2cd203-baaf-443f-a008-389917f677ff');
INSERT INTO rep_gateway.entry VALUES ('["event"]', 'nc31983e802cccce0', '{"name":"COLOR","value":{"$bytes":"cmVk"}}', '3009fb6b-a43c-4147-9ea2-e44730758da9');
INSERT INTO rep_gateway.entry VALUES ('["event"]', 'nc31983e802ccdc80', '{"name":"GONE","value":{"$bytes":"MQ=="}}', '3009fb6b-a43c-4147-9ea2-e44730758da9');
INSERT INTO rep_gateway.entry VALUES ('["event"]', 'nc31983e802ccec20', '{"name":"TITLE","value":{"$bytes":"R3LDvMOfZQ=="}}', '3009fb6b-a43c-4147-9ea2-e44730758da9');
INSERT INTO rep_gateway.entry VALUES ('["member"]', '-72c2c3d2-a06a-466f-824e-a60561e369a7', '{"hash":"sha256-OJ7USdrXLUdorMdVVVXho9DP0YT/KuOs/ZnmjH1D2EQ=","rank":1,"heartbeatAt":1795476730089,"hasLeft":true}', 'ebdc578a-8d1d-44c6-b3ee-fbf1aa54f288');
INSERT INTO rep_gateway.entry VALUES ('["variable"]', '-TITLE', '{"value":{"$bytes":"R3LDvMOfZSAy"},"id":1795476730676,"at":1795476730676}', '4fca04ac-3f90-424a-9ccb-d0476843f534');
INSERT INTO rep_gateway.entry VALUES ('["write"]', 'nc27a20ac0b334000', '{"name":"TITLE","at":1795476730676,"value":{"$bytes":"R3LDvMOfZSAy"}}', '4fca04ac-3f90-424a-9ccb-d0476843f534');
INSERT INTO rep_gateway.entry VALUES ('[]', '-variables', '{"id":1795476730676,"writes":2}', '4fca04ac-3f90-424a-9ccb-d0476843f534');
INSERT INTO rep_gateway.entry VALUES ('[]', '-rollout', '2', 'bbedfbd3-e8fd-4565-ad3e-7d99255e94a2');
INSERT INTO rep_gateway.entry VALUES ('["event"]', 'nc31983e803167840', '{"name":"COLOR","value":{"$bytes":"Ymx1ZQ=="}}', 'aaa1fe56-598d-4717-a709-b86a263f84a0');
INSERT INTO rep_gateway.entry VALUES ('["event"]', 'nc31983e8031687e0', '{"name":"TITLE","value":{"$bytes":"R3LDvMOfZSAy"}}', 'aaa1fe56-598d-4717-a709-b86a263f84a0');
INSERT INTO rep_gateway.entry VALUES ('["event"]', 'nc31983e803169780', '{"name":"GONE"}', 'aaa1fe56-598d-4717-a709-b86a263f84a0');
INSERT INTO rep_gateway.entry VALUES ('["state"]', '-COLOR', '{"name":"COLOR","value":{"$bytes":"Ymx1ZQ=="},"id":1795476731305488}', 'aaa1fe56-598d-4717-a709-b86a263f84a0');
INSERT INTO rep_gateway.entry VALUES ('["state"]', '-GONE', '{"name":"GONE","id":1795476731307488}', 'aaa1fe56-598d-4717-a709-b86a263f84a0');
INSERT INTO rep_gateway.entry VALUES ('["state"]', '-TITLE', '{"name":"TITLE","value":{"$bytes":"R3LDvMOfZSAy"},"id":1795476731306488}', 'aaa1fe56-598d-4717-a709-b86a263f84a0');
INSERT INTO rep_gateway.entry VALUES ('[]', '-head', '{"id":1795476731307488,"compactedUpTo":0,"recent":6}', 'aaa1fe56-598d-4717-a709-b86a263f84a0');
INSERT INTO rep_gateway.entry VALUES ('["member"]', '-b48d2963-d0a3-40a9-a4a8-f32199fa47b7', '{"hash":"sha256-JQteCiKxw500eNExWnutPBgEVRDYpnZP171GR7dPToY=","rank":2,"heartbeatAt":1795476731290,"hasLeft":true}', '3f75525e-ec96-4aaf-8e81-520b567a30b4');


--
-- Data for Name: schema_version; Type: TABLE DATA; Schema: rep_gateway; Owner: -
--

INSERT INTO rep_gateway.schema_version VALUES (1);


--
-- Name: entry entry_pkey; Type: CONSTRAINT; Schema: rep_gateway; Owner: -
--

ALTER TABLE ONLY rep_gateway.entry
    ADD CONSTRAINT entry_pkey PRIMARY KEY (prefix, name);


--
-- PostgreSQL database dump complete
--


