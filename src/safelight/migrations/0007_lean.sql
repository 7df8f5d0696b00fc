-- What came with less to do for every image. A server of the version before runs beside it.

-- PostgreSQL reads the text of a table's CHECKs anew in every statement that writes to it: a tenth of what
-- an image cost here. Four tables that each image is written to go without. Of jobs every statement names the
-- states it writes. Those of images, entries and runs may come from Python, which has them of its machines;
-- nothing here refuses another one any more. The databases that tests are given still do (tests/sound.py).

-- ==== queue ====

ALTER TABLE jobs
    DROP CONSTRAINT jobs_status_check,
    DROP CONSTRAINT jobs_check,
    DROP CONSTRAINT jobs_check1,
    DROP CONSTRAINT jobs_check2;

-- ==== ingest ====

-- Organizations are never removed, so the reference could only tell of one that never was, and every upload
-- locked its organization's row for that.
ALTER TABLE images
    DROP CONSTRAINT images_status_check,
    DROP CONSTRAINT images_organization_fkey;

-- Nothing asks for images by checksum, or by time alone; by state it is those that are not stored.
DROP INDEX images_checksum;
DROP INDEX images_created_at;
DROP INDEX images_status;
CREATE INDEX images_unstored ON images (organization, status, created_at, id) WHERE status <> 'STORED';

-- ==== classification ====

ALTER TABLE classification_runs DROP CONSTRAINT classification_runs_status_check;

-- ==== library ====

ALTER TABLE uploads DROP CONSTRAINT uploads_classification_status_check;

-- The words of new entries follow by statement, since those that arrive together are written together.
-- Here as in sql/library.sql, where it is kept: a trigger needs it to be there, and so do entries that are
-- written before that file is read.
CREATE FUNCTION upload_words_added() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO upload_words (organization, word, event_time, name)
    SELECT organization, left(word, 100), event_time, name
    FROM fresh CROSS JOIN LATERAL unnest(tsvector_to_array(search)) AS word;
    RETURN NULL;
END
$$;
DROP TRIGGER upload_words_in ON uploads;
CREATE TRIGGER upload_words_in AFTER INSERT ON uploads
    REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT EXECUTE FUNCTION upload_words_added();
