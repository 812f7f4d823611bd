"""Stacks of this process's tasks and threads as text: what Java's clients call jstack."""

from __future__ import annotations

import asyncio
import sys
import threading
import traceback

SIZE_MAX = 256 * 1024
"""Characters; what does not fit is left out."""
DEPTH_MAX = 50


def describe_stacks() -> str:
    """Return the stacks of all tasks of the running loop, and of all threads."""
    parts: list[str] = []
    for task in sorted(asyncio.all_tasks(), key=lambda task: task.get_name()):
        lines = [
            f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"
            for frame in task.get_stack(limit=DEPTH_MAX)
        ]
        parts.append("\n".join([f"task {task.get_name()}", *(f"    {line}" for line in lines)]))
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident, frame in sys._current_frames().items():
        stack = "".join(traceback.format_stack(frame, limit=DEPTH_MAX))
        parts.append(f"thread {names.get(ident, ident)}\n{stack}")
    return "\n\n".join(parts)[:SIZE_MAX]
