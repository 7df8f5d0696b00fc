-- What came with a page that shows the workers. Additive: a server of the version before runs beside it.

-- ==== queue ====

-- Where a worker is, and of which version; empty: it does not say.
ALTER TABLE job_workers ADD COLUMN node text NOT NULL DEFAULT '', ADD COLUMN version text NOT NULL DEFAULT '';
