-- What came with strangers: invitations, quotas, pictures that are judged twice, and failures that are
-- seen. Additive: a server of the version before runs beside it.

-- ==== accounts ====

-- A role that waits for its taker. One per organization and username, whether or not there is such a
-- user yet; whoever comes with the link becomes that user, or has to be it already.
CREATE TABLE invitations (
    organization text NOT NULL REFERENCES organizations (id),
    username     text NOT NULL CHECK (username ~ '^[a-z0-9._-]{1,64}$'),
    role         text NOT NULL CHECK (role IN ('viewer', 'member', 'approver', 'admin')),
    digest       bytea NOT NULL UNIQUE,
    made_by      text NOT NULL,                                 -- for people to read
    maker_user   text REFERENCES users (id) ON DELETE CASCADE,  -- void once this user is no admin there
    maker_token  text REFERENCES tokens (id),                   -- void once this token is revoked
    created_at   bigint NOT NULL,
    expires_at   bigint NOT NULL,
    PRIMARY KEY (organization, username)
);
CREATE INDEX invitations_username ON invitations (username);

-- Opened with a sign-in link: for a day, its user may choose a password without the present one.
ALTER TABLE sessions ADD COLUMN by_link boolean NOT NULL DEFAULT false;

-- When a user goes who has not come yet: with the last link. None: has come, or stays anyway.
ALTER TABLE users ADD COLUMN ends_at bigint;
CREATE INDEX users_ends_at ON users (ends_at) WHERE ends_at IS NOT NULL;

-- Browsers that have signed somebody in before, and whom. Other people's failures do not count there.
CREATE TABLE sign_in_devices (
    digest  bytea NOT NULL,
    user_id text NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    seen_at bigint NOT NULL,
    PRIMARY KEY (digest, user_id)
);
CREATE INDEX sign_in_devices_user ON sign_in_devices (user_id);
CREATE INDEX sign_in_devices_seen ON sign_in_devices (seen_at);

-- ==== ingest ====

-- An organization's images, newest first.
CREATE INDEX images_listed ON images (organization, created_at, id);

-- ==== submissions ====

-- How a picture looks on black, where what shows through makes it another one than on white. Rows from
-- before have the looks on white alone.
ALTER TABLE submissions ADD COLUMN dark_dhash bigint, ADD COLUMN dark_phash bigint;
ALTER TABLE blocklist ADD COLUMN dark_dhash bigint, ADD COLUMN dark_phash bigint;

-- Narrow, since looking for near copies reads all of an organization's.
CREATE INDEX submissions_public ON submissions (organization, checksum)
    INCLUDE (id, dhash, phash, dark_dhash, dark_phash) WHERE state = 'PUBLISHED';
DROP INDEX submissions_published;

-- ==== objects ====

-- What SNS asks to be confirmed: a person opens the address once, if the topic is theirs. We never do.
CREATE TABLE event_subscriptions (
    topic       text PRIMARY KEY,
    kind        text NOT NULL,
    url         text NOT NULL,
    received_at bigint NOT NULL
);

-- Letters of notices that could not be read show what was sent, and why not.
UPDATE jobs SET payload = payload || jsonb_build_object('reason', reason, 'body', left(raw::text, 2000))
FROM rejected_notices AS notice
WHERE kind = 'objects.rejected' AND notice.id = (payload ->> 'noticeId')::bigint;

-- ==== classification ====

ALTER TABLE classification_runs
    ADD COLUMN labels       jsonb,                       -- [{label, score}, …], the five best
    ADD COLUMN child_deaths integer NOT NULL DEFAULT 0;  -- of the processes that decoded the image

-- ==== generations ====

-- A tag has no white space around it any more: one that had is now what it looks like, and can be
-- found and dropped as before.
INSERT INTO tags (organization, tag, target_type, target_id)
SELECT organization, trimmed, target_type, target_id
FROM tags,
     btrim(tag, E' \u00A0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200A\u2028\u2029\u202F\u205F\u3000') AS trimmed
WHERE trimmed NOT IN (tag, '')
ON CONFLICT DO NOTHING;
DELETE FROM tags
WHERE tag <> btrim(tag, E' \u00A0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200A\u2028\u2029\u202F\u205F\u3000');

-- ==== quotas ====

-- The most of each meter: the instance's, as the settings of the server that started last have it
-- (organization ''), and an organization's own, which stands over that. 0: as much as it likes.
CREATE TABLE quota_limits (
    organization text COLLATE "C" NOT NULL,
    meter        text COLLATE "C" NOT NULL,
    most         bigint NOT NULL CHECK (most >= 0),
    PRIMARY KEY (organization, meter)
);

-- What was used: of bytes, now; of the others, in the minute or day that began at `since`.
CREATE TABLE quota_usage (
    organization text COLLATE "C" NOT NULL,
    meter        text COLLATE "C" NOT NULL,
    since        bigint NOT NULL,
    used         bigint NOT NULL,
    PRIMARY KEY (organization, meter)
) WITH (fillfactor = 50);

-- Bytes that came or went otherwise than by an upload, until somebody adds them up: whoever deletes
-- waits for no upload, and no upload for them.
CREATE TABLE quota_changes (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    organization text COLLATE "C" NOT NULL,
    bytes        bigint NOT NULL
);
CREATE INDEX quota_changes_organization ON quota_changes (organization);

-- What is there already: objects, uploads on their way to become one, artifacts.
INSERT INTO quota_changes (organization, bytes)
SELECT organization, sum(size) FROM (
    SELECT organization, size FROM objects WHERE present AND organization IS NOT NULL
    UNION ALL
    SELECT organization, size_bytes FROM images WHERE status IN ('UPLOADED', 'INGESTED')
    UNION ALL
    SELECT organization, size_bytes FROM artifacts
) AS kept GROUP BY organization;
