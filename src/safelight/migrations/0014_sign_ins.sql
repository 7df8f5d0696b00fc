-- What came with lists of who is signed in where, and of when tokens were used. Additive: a server of the
-- version before runs beside it.

-- ==== accounts ====

-- As they were at sign-in. Null where that server, or one before it, opened the session.
ALTER TABLE sessions ADD COLUMN address text, ADD COLUMN agent text;

-- By the hour, and beside the tokens: any change of theirs has every server ask for all credentials again.
CREATE TABLE token_uses (
    token_id text PRIMARY KEY,
    used_at  bigint NOT NULL
);
