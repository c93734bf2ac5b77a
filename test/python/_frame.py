# SPDX-License-Identifier: Apache-2.0
"""The frame of test/stock, with the package."""
import importlib.util
import os

_spec = importlib.util.spec_from_file_location("stock_frame", os.path.join(os.path.dirname(__file__), "../stock/_frame.py"))
_stock = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_stock)
globals().update({k: v for k, v in vars(_stock).items() if not k.startswith("__")})


def raises(kind, *words):
    """A context in which an error of this kind is raised, whose text holds all words. The error comes back as .error."""
    return _Raises(kind, words)


class _Raises:
    def __init__(self, kind, words):
        self.kind, self.words, self.error = kind, words, None

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        assert kind is not None, f"no error, {self.kind.__name__} is wanted"
        if not issubclass(kind, self.kind):
            return False
        self.error = error
        missing = [w for w in self.words if w not in str(error)]
        assert not missing, f"{error!s} does not say {missing}"
        return True
