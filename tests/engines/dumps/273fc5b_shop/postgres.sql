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

INSERT INTO rep_gateway.entry VALUES ('["shop/cause"]', 'nc27a220356345000', '{"command":"set","writes":1}', 'dd0bb906-78ff-4272-87dc-d61199844d41');
INSERT INTO rep_gateway.entry VALUES ('["shop/write"]', 'nc27a220356345000', '{"name":"TITLE","at":1795836699461,"value":{"$bytes":"R3LDvMOfZQ=="},"last":1795836699461,"replaced":0}', 'dd0bb906-78ff-4272-87dc-d61199844d41');
INSERT INTO rep_gateway.entry VALUES ('[]', '-shop/master-key', '{"$bytes":"G5QZSyxhakAuTkb+tMsdkg1oee6FhxljT1BvS6DyYRg="}', '8cb9ce6c-d5e0-4c63-a381-277e8803e950');
INSERT INTO rep_gateway.entry VALUES ('["shop/event"]', 'nc3198537423e6b48', '{"name":"COLOR","value":{"$bytes":"cmVk"}}', '4bd639bc-7ea9-476e-8225-f6383242fb9a');
INSERT INTO rep_gateway.entry VALUES ('["shop/event"]', 'nc3198537423e7ae8', '{"name":"GONE","value":{"$bytes":"MQ=="}}', '4bd639bc-7ea9-476e-8225-f6383242fb9a');
INSERT INTO rep_gateway.entry VALUES ('["shop/event"]', 'nc3198537423e8a88', '{"name":"TITLE","value":{"$bytes":"R3LDvMOfZQ=="}}', '4bd639bc-7ea9-476e-8225-f6383242fb9a');
INSERT INTO rep_gateway.entry VALUES ('["shop/member"]', '-7795046f-f38e-43c5-8775-25131872251a', '{"hash":"sha256-2VGJ+6iqscM25kk7RDC0tf800QrMQQVdlStOydyUvnc=","names":[481589998,3888318712],"keyFingerprint":"0272c46c7e09","newestWrite":1795836699461,"rank":1,"heartbeatAt":1795836699710,"hasLeft":true}', '303084bd-944d-46e5-9ee7-58925cc4e123');
INSERT INTO rep_gateway.entry VALUES ('["shop/cause"]', 'nc27a2203564cd000', '{"command":"set","writes":1}', '8429ec16-6503-4a92-b95c-5e9ba346f9f6');
INSERT INTO rep_gateway.entry VALUES ('["shop/variable"]', '-TITLE', '{"value":{"$bytes":"R3LDvMOfZSAy"},"id":1795836699853,"at":1795836699853}', '8429ec16-6503-4a92-b95c-5e9ba346f9f6');
INSERT INTO rep_gateway.entry VALUES ('["shop/write"]', 'nc27a2203564cd000', '{"name":"TITLE","at":1795836699853,"value":{"$bytes":"R3LDvMOfZSAy"},"last":1795836699853,"replaced":1795836699461,"previous":{"$bytes":"R3LDvMOfZQ=="}}', '8429ec16-6503-4a92-b95c-5e9ba346f9f6');
INSERT INTO rep_gateway.entry VALUES ('[]', '-shop/variables', '{"id":1795836699853,"writes":2}', '8429ec16-6503-4a92-b95c-5e9ba346f9f6');
INSERT INTO rep_gateway.entry VALUES ('["app"]', '-shop', '{"at":1795836700079}', 'be9501f3-4bfd-4c6f-aad6-2f44d3045257');
INSERT INTO rep_gateway.entry VALUES ('[]', '-shop/activations', '[{"hash":"sha256-2VGJ+6iqscM25kk7RDC0tf800QrMQQVdlStOydyUvnc=","rank":1,"since":1795836699709,"isRollback":false,"place":"7795046f-f38e-43c5-8775-25131872251a","isReload":false,"until":1795836700084},{"hash":"sha256-fOHw51+wJBM3CfoH95IoSde+Lp3MjTWGYQ28JGWRKJw=","rank":2,"since":1795836700084,"isRollback":false,"place":"17b3fdeb-076b-4f79-8505-e23a536249f6","isReload":false}]', 'c474d648-640d-4171-9e1a-c6ee90d8ec4e');
INSERT INTO rep_gateway.entry VALUES ('[]', '-shop/rollout', '2', 'c474d648-640d-4171-9e1a-c6ee90d8ec4e');
INSERT INTO rep_gateway.entry VALUES ('["shop/event"]', 'nc319853742554ea8', '{"name":"COLOR","value":{"$bytes":"Ymx1ZQ=="}}', 'de22e370-4ff0-45d8-9da5-7cad1c2d6c46');
INSERT INTO rep_gateway.entry VALUES ('["shop/event"]', 'nc319853742555e48', '{"name":"TITLE","value":{"$bytes":"R3LDvMOfZSAy"}}', 'de22e370-4ff0-45d8-9da5-7cad1c2d6c46');
INSERT INTO rep_gateway.entry VALUES ('["shop/event"]', 'nc319853742556de8', '{"name":"GONE"}', 'de22e370-4ff0-45d8-9da5-7cad1c2d6c46');
INSERT INTO rep_gateway.entry VALUES ('["shop/state"]', '-COLOR', '{"name":"COLOR","value":{"$bytes":"Ymx1ZQ=="},"id":1795836700087210}', 'de22e370-4ff0-45d8-9da5-7cad1c2d6c46');
INSERT INTO rep_gateway.entry VALUES ('["shop/state"]', '-GONE', '{"name":"GONE","id":1795836700089210}', 'de22e370-4ff0-45d8-9da5-7cad1c2d6c46');
INSERT INTO rep_gateway.entry VALUES ('["shop/state"]', '-TITLE', '{"name":"TITLE","value":{"$bytes":"R3LDvMOfZSAy"},"id":1795836700088210}', 'de22e370-4ff0-45d8-9da5-7cad1c2d6c46');
INSERT INTO rep_gateway.entry VALUES ('[]', '-shop/head', '{"id":1795836700089210,"compactedUpTo":0,"recent":6}', 'de22e370-4ff0-45d8-9da5-7cad1c2d6c46');
INSERT INTO rep_gateway.entry VALUES ('["shop/member"]', '-17b3fdeb-076b-4f79-8505-e23a536249f6', '{"hash":"sha256-fOHw51+wJBM3CfoH95IoSde+Lp3MjTWGYQ28JGWRKJw=","names":[3888318712],"keyFingerprint":"0272c46c7e09","newestWrite":1795836699853,"rank":2,"heartbeatAt":1795836700084,"hasLeft":true}', '3816f0a5-946d-488a-8c9a-322d2b3efeea');


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


