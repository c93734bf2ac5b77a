# SPDX-License-Identifier: Apache-2.0
"""What the tests with stock loaders share: the frame of test/pack, and programs that run in a process of their own, as
training does."""
import importlib.util
import json
import os
import subprocess
import sys

_spec = importlib.util.spec_from_file_location("pack_frame", os.path.join(os.path.dirname(__file__), "../pack/_frame.py"))
_pack = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_pack)
globals().update({k: v for k, v in vars(_pack).items() if not k.startswith("__")})


def python(text, *args, code=0, **env):
    """Runs a program; its last line of output is JSON, and comes back as value."""
    p = subprocess.run([sys.executable, "-W", "ignore", "-c", text, *map(str, args)], stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE, text=True, env=dict(os.environ, **env), timeout=280)
    if p.returncode != code:
        raise AssertionError(f"exit {p.returncode}, should be {code}\n{p.stdout[-1500:]}\n{p.stderr[-3000:]}")
    return json.loads(p.stdout.splitlines()[-1]) if code == 0 else p.stderr
