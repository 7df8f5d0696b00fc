-- What came with growth: history and events of objects by stretches of their numbers, each a table of its
-- own (sql/stretches.sql). What is there becomes the first stretch as it is: nothing is copied, and its
-- indexes stay. Additive: a server of the version before runs beside it and sees the same tables.

-- ==== stretches ====

-- `begun_at` is when the first number of it was handed out; `looked_at` when somebody last looked for what
-- is still needed of it, after it had been left.
CREATE TABLE stretches (
    parent    text COLLATE "C" NOT NULL,
    number    bigint NOT NULL,
    begun_at  bigint,
    looked_at bigint,
    PRIMARY KEY (parent, number)
);

-- ==== history ====

ALTER TABLE activity RENAME TO activity_first;
ALTER INDEX activity_pkey RENAME TO activity_first_pkey;
ALTER INDEX activity_subject RENAME TO activity_first_subject;
ALTER INDEX activity_also RENAME TO activity_first_also;
ALTER INDEX activity_rare RENAME TO activity_first_rare;
CREATE TABLE activity (LIKE activity_first, PRIMARY KEY (organization, seq)) PARTITION BY RANGE (seq);
CREATE INDEX activity_subject ON activity (organization, subject, seq);
CREATE INDEX activity_also ON activity (organization, also, seq) WHERE also IS NOT NULL;
CREATE INDEX activity_rare ON activity (organization, type, seq)
    WHERE type NOT IN ('image_uploaded', 'upload_ingested', 'upload_stored', 'event_received',
                       'classification_workflow_started', 'run_attempt', 'classification_updated');

-- ==== objects ====

-- The numbers of a table's identity end with it, and these go on.
ALTER TABLE object_events RENAME TO object_events_first;
ALTER INDEX object_events_pkey RENAME TO object_events_first_pkey;
ALTER SEQUENCE object_events_id_seq RENAME TO object_events_first_id_seq;
CREATE SEQUENCE object_events_id_seq;
SELECT setval('object_events_id_seq', last_value, is_called) FROM object_events_first_id_seq;
ALTER TABLE object_events_first ALTER COLUMN id DROP IDENTITY;
CREATE TABLE object_events (LIKE object_events_first, PRIMARY KEY (id)) PARTITION BY RANGE (id);
ALTER TABLE object_events ALTER COLUMN id SET DEFAULT nextval('object_events_id_seq');
ALTER SEQUENCE object_events_id_seq OWNED BY object_events.id;

-- What is there, up to the end of the stretch that its newest number is in.
DO $$
DECLARE
    size  constant bigint := 1000000000;  -- as stretch_size() has it
    parts record;
BEGIN
    FOR parts IN
        SELECT 'activity' AS parent, last_value / size AS number FROM activity_seq
        UNION ALL SELECT 'object_events', last_value / size FROM object_events_id_seq
    LOOP
        EXECUTE format('ALTER TABLE %1$I RENAME TO %2$I', parts.parent || '_first',
                       parts.parent || '_s' || parts.number);
        EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (MINVALUE) TO (%s)',
                       parts.parent, parts.parent || '_s' || parts.number, (parts.number + 1) * size);
        INSERT INTO stretches (parent, number, begun_at)
        VALUES (parts.parent, parts.number, (extract(epoch FROM now()) * 1000)::bigint);
    END LOOP;
END
$$;
