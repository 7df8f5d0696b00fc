-- How long originals are kept, and the order in which bucket, index and library are compared.

-- ==== library ====

-- Days. An organization without a row keeps its originals for ever.
CREATE TABLE retention (
    organization text COLLATE "C" PRIMARY KEY REFERENCES organizations (id),
    days         integer NOT NULL CHECK (days > 0)
);

-- A bucket lists its keys in the order of their bytes. Where the database orders texts so too, the primary
-- key has that order (library_after in sql/library.sql).
DO $$
BEGIN
    IF NOT ('B'::text < 'a'::text AND '-b'::text < 'a'::text) THEN
        CREATE INDEX uploads_by_bytes ON uploads (organization, name COLLATE "C");
    END IF;
END
$$;
