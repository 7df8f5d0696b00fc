"""The same flow as it is commonly built: FastAPI, Celery and Redis before PostgreSQL.

Small, and fair: an upload is on disk and recorded before its answer, Redis keeps every task on disk
before it says so, a task is acknowledged late, the label is committed and told live. The model, its
decoder and the pictures are Safelight's own, so that what is compared is what stands around them.
"""
