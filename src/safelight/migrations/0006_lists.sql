-- What came with libraries of a million entries: lists that cost what a page holds. Additive: a server
-- of the version before runs beside it; what it looks for by words takes it longer.

-- ==== history ====

-- A feed is read in an organization's order. The primary key was `seq` alone: a second order that plans
-- fell for, and walked everybody's lines.
CREATE UNIQUE INDEX activity_order ON activity (organization, seq);
ALTER TABLE activity DROP CONSTRAINT activity_pkey;
ALTER TABLE activity ADD CONSTRAINT activity_pkey PRIMARY KEY USING INDEX activity_order;
DROP INDEX activity_feed;

-- Types that are rare are read in an order of their own. Those that every image has (infra/activity.py
-- names them too) are never far, and need not be written twice.
CREATE INDEX activity_rare ON activity (organization, type, seq)
    WHERE type NOT IN ('image_uploaded', 'upload_ingested', 'upload_stored', 'event_received',
                       'classification_workflow_started', 'run_attempt', 'classification_updated');

-- ==== library ====

-- Every word of every entry, in the order in which lists are read: an inverted index that knows the
-- organization and the time, which GIN does not. Kept by a trigger, in the entry's own statement.
LOCK TABLE uploads IN SHARE ROW EXCLUSIVE MODE;
CREATE TABLE upload_words (
    organization text NOT NULL,
    word         text COLLATE "C" NOT NULL,  -- its first hundred characters
    event_time   bigint NOT NULL,
    name         text NOT NULL
);
INSERT INTO upload_words (organization, word, event_time, name)
SELECT organization, left(word, 100), event_time, name
FROM uploads CROSS JOIN LATERAL unnest(tsvector_to_array(search)) AS word;
CREATE INDEX upload_words_newest ON upload_words (organization, word, event_time, name);
DROP INDEX uploads_search;

-- As sql/library.sql has it from now on; a trigger needs it to be there.
CREATE FUNCTION upload_words_follow() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    RETURN NULL;
END
$$;
CREATE TRIGGER upload_words_in AFTER INSERT ON uploads
    FOR EACH ROW EXECUTE FUNCTION upload_words_follow();
CREATE TRIGGER upload_words_out AFTER DELETE ON uploads
    FOR EACH ROW EXECUTE FUNCTION upload_words_follow();
CREATE TRIGGER upload_words_moved AFTER UPDATE ON uploads
    FOR EACH ROW WHEN (OLD.search <> NEW.search OR OLD.event_time <> NEW.event_time)
    EXECUTE FUNCTION upload_words_follow();
