-- One row per accepted upload. The same bytes twice are two rows: checksum is not unique on purpose.

CREATE TABLE images (
    id              text PRIMARY KEY,
    organization    text NOT NULL REFERENCES organizations (id),
    name            text NOT NULL,
    idempotency_key uuid NOT NULL,
    status          text NOT NULL CHECK (status IN ('UPLOADED', 'INGESTED', 'STORED', 'FAILED')),
    temp_path       text NOT NULL,
    checksum        text NOT NULL,
    mime_type       text NOT NULL,
    width           integer NOT NULL,
    height          integer NOT NULL,
    size_bytes      bigint NOT NULL,
    created_at      bigint NOT NULL,
    updated_at      bigint NOT NULL
);
CREATE INDEX images_status ON images (status);
CREATE INDEX images_checksum ON images (checksum);
CREATE INDEX images_created_at ON images (created_at);
CREATE INDEX images_name ON images (organization, name, created_at);
