-- Who may come in. Times are epoch milliseconds, written by the application's clock.

CREATE TABLE instance (
    key   text PRIMARY KEY,
    value text NOT NULL
);

CREATE TABLE organizations (
    id         text PRIMARY KEY CHECK (id ~ '^[a-z0-9-]{1,64}$'),
    created_at bigint NOT NULL
);

CREATE TABLE users (
    id            text PRIMARY KEY,
    username      text NOT NULL UNIQUE CHECK (username ~ '^[a-z0-9._-]{1,64}$'),
    password_hash text,               -- none until the owner of a sign-in link chooses one
    operator      boolean NOT NULL DEFAULT false,
    created_at    bigint NOT NULL,
    revoked_at    bigint
);

CREATE TABLE memberships (
    organization text NOT NULL REFERENCES organizations (id),
    user_id      text NOT NULL REFERENCES users (id),
    role         text NOT NULL CHECK (role IN ('viewer', 'member', 'approver', 'admin')),
    created_at   bigint NOT NULL,
    PRIMARY KEY (organization, user_id)
);
CREATE INDEX memberships_user ON memberships (user_id);

-- Only digests are kept: a stolen table opens nothing.
CREATE TABLE tokens (
    id           text PRIMARY KEY,
    digest       bytea NOT NULL UNIQUE,
    organization text NOT NULL REFERENCES organizations (id),
    role         text NOT NULL CHECK (role IN ('viewer', 'member', 'approver', 'admin')),
    operator     boolean NOT NULL DEFAULT false,
    name         text NOT NULL,
    created_by   text NOT NULL,                  -- for people to read
    maker_user   text REFERENCES users (id),     -- never grants more than this user holds now
    maker_token  text REFERENCES tokens (id),    -- is revoked together with this token
    created_at   bigint NOT NULL,
    expires_at   bigint,
    revoked_at   bigint,
    CHECK (NOT operator OR role = 'admin')
);
CREATE INDEX tokens_organization ON tokens (organization, created_at, id);
CREATE INDEX tokens_maker_user ON tokens (maker_user) WHERE maker_user IS NOT NULL;
CREATE INDEX tokens_maker_token ON tokens (maker_token) WHERE maker_token IS NOT NULL;

CREATE TABLE sessions (
    digest     bytea PRIMARY KEY,
    user_id    text NOT NULL REFERENCES users (id),
    created_at bigint NOT NULL,
    seen_at    bigint NOT NULL,
    expires_at bigint NOT NULL
);
CREATE INDEX sessions_user ON sessions (user_id);
CREATE INDEX sessions_expiry ON sessions (expires_at);

CREATE TABLE sign_in_links (
    digest     bytea PRIMARY KEY,
    user_id    text NOT NULL REFERENCES users (id),
    created_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    used_at    bigint
);
CREATE INDEX sign_in_links_user ON sign_in_links (user_id);

-- An attempt is written before the password is checked and taken back when it was right, so that
-- attempts made at the same moment count too.
CREATE TABLE sign_in_failures (
    attempt text NOT NULL,
    subject text NOT NULL,            -- user:NAME or address:ADDRESS
    at      bigint NOT NULL,
    PRIMARY KEY (attempt, subject)
);
CREATE INDEX sign_in_failures_subject ON sign_in_failures (subject, at);
CREATE INDEX sign_in_failures_at ON sign_in_failures (at);
