"""What its processes are told by whoever starts them."""

import os
from pathlib import Path

DATABASE = os.environ.get("COMMON_DATABASE", "")
REDIS = os.environ.get("COMMON_REDIS", "")
FILES = Path(os.environ.get("COMMON_FILES", "."))
CHANNEL = "live"
SCHEMA = """
CREATE TABLE IF NOT EXISTS tokens (token text PRIMARY KEY, organization text NOT NULL);
CREATE TABLE IF NOT EXISTS images (
    id uuid PRIMARY KEY, organization text NOT NULL, name text NOT NULL, path text NOT NULL,
    checksum text NOT NULL, size_bytes bigint NOT NULL, status text NOT NULL DEFAULT 'pending',
    label text, score double precision, created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX IF NOT EXISTS images_newest ON images (organization, created_at DESC);
CREATE INDEX IF NOT EXISTS images_status ON images (organization, status);
"""
