"""How fast is it, beside what people would use instead? Read `pairs.py`, then `train_step.py`; docs/speed.md explains.

The libraries that it is compared with: pip install -e '.[benchmarks]'.
"""

import os

# Both are read once, with torch: threads that wait sleep as in train.py, and the profiler keeps to itself.
os.environ.setdefault("GOMP_SPINCOUNT", "0")
os.environ.setdefault("KINETO_LOG_LEVEL", "99")
