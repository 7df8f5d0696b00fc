-- Small pictures of artifacts, for pages that show many. Additive: a server of the version before runs beside it,
-- and what it deletes takes them along.

-- ==== generations ====

-- Made when somebody first asks, and gone with its artifact.
CREATE TABLE artifact_thumbnails (
    artifact_id  text PRIMARY KEY REFERENCES artifacts (id) ON DELETE CASCADE,
    data         bytea NOT NULL
);
ALTER TABLE artifact_thumbnails ALTER COLUMN data SET STORAGE EXTERNAL;
