-- Questions that a person decides. Times are epoch milliseconds.

CREATE TABLE approvals (
    id           text PRIMARY KEY,
    organization text NOT NULL REFERENCES organizations (id),
    status       text NOT NULL CHECK (status IN ('pending', 'approved', 'rejected')),
    title        text NOT NULL,
    description  text NOT NULL,
    subject_type text,                 -- what it is about, if it is about something of ours
    subject_id   text,
    requested_by text NOT NULL,
    created_at   bigint NOT NULL,
    expires_at   bigint NOT NULL,
    decided_by   text,                 -- nobody: its time ran out
    decided_at   bigint,
    reason       text,
    CHECK ((status = 'pending') = (decided_at IS NULL)),
    CHECK ((subject_type IS NULL) = (subject_id IS NULL))
);
CREATE INDEX approvals_newest ON approvals (organization, created_at DESC, id DESC);
CREATE INDEX approvals_by_status ON approvals (organization, status, created_at DESC, id DESC);
CREATE INDEX approvals_expiry ON approvals (expires_at) WHERE status = 'pending';
