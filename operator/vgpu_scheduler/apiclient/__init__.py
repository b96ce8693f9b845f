"""The client of the API server: plain HTTP, with kubernetes-asyncio's configuration and authentication."""

import vgpu_scheduler.apiclient.deferred  # noqa: F401  # before the first import of kubernetes-asyncio
from vgpu_scheduler.apiclient.access_reviews import Requests, ReviewedUser, is_allowed
from vgpu_scheduler.apiclient.client import (
    JSON_PATCH,
    MERGE_PATCH,
    METADATA_LIST,
    NO_ANSWER,
    STRATEGIC_PATCH,
    ApiClient,
    ApiError,
    ApiResponse,
    ApiUnreachableError,
    ConfigException,
    Credentials,
    connect,
    context_namespace,
    served_version,
)
from vgpu_scheduler.apiclient.clock import Backoff, Clock, SystemClock, unix_ahead, wait_for_event
from vgpu_scheduler.apiclient.guarding import errors_logged, guarded, guarded_async
from vgpu_scheduler.apiclient.pages import list_pages
from vgpu_scheduler.apiclient.paths import collection_path, node_path, object_path, pod_path
from vgpu_scheduler.apiclient.reflector import Reflector
from vgpu_scheduler.apiclient.tasks import TaskSet, end_tasks, map_concurrently

__all__ = [
    "JSON_PATCH",
    "MERGE_PATCH",
    "METADATA_LIST",
    "NO_ANSWER",
    "STRATEGIC_PATCH",
    "ApiClient",
    "ApiError",
    "ApiResponse",
    "ApiUnreachableError",
    "Backoff",
    "Clock",
    "ConfigException",
    "Credentials",
    "Reflector",
    "Requests",
    "ReviewedUser",
    "SystemClock",
    "TaskSet",
    "collection_path",
    "connect",
    "context_namespace",
    "end_tasks",
    "errors_logged",
    "guarded",
    "guarded_async",
    "is_allowed",
    "list_pages",
    "map_concurrently",
    "node_path",
    "object_path",
    "pod_path",
    "served_version",
    "unix_ahead",
    "wait_for_event",
]
