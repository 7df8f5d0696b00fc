-- What came with machines that do not come back. Additive: a server of the version before runs beside it.

-- ==== ingest ====

-- Nodes that told that they are there: an ingest directory each, and the processes beside it. All times are
-- the database's; a sign of life has one column for each thing that a process can do there.
CREATE TABLE nodes (
    id         text COLLATE "C" PRIMARY KEY,
    host       text NOT NULL,
    directory  text NOT NULL,
    version    text NOT NULL,
    first_seen timestamptz NOT NULL DEFAULT now(),
    answered   timestamptz,                        -- the last sign of a process that answers HTTP
    worked     timestamptz,                        -- and of one that runs jobs
    told       boolean NOT NULL DEFAULT false      -- somebody has logged that it is missing
);
