-- ==== ingest ====

-- Which of two images is the newer: a number from the database, since clocks differ between machines
-- and are set back. Images from before have none and are older than any that has one.
CREATE SEQUENCE images_ordinal;
ALTER TABLE images ADD COLUMN ordinal bigint;
CREATE INDEX images_newest ON images (organization, name, coalesce(ordinal, 0));
DROP INDEX images_name;
