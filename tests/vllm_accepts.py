"""Have vLLM's own parser read command lines: ``python vllm_accepts.py FILE``, in its environment.

Each line of FILE that is no comment is one. The first that isn't accepted ends it with an error.
"""

import shlex
import sys
from pathlib import Path

from vllm.entrypoints.launchers.cli_args import make_arg_parser, validate_parsed_serve_args
from vllm.utils.argparse_utils import FlexibleArgumentParser

count = 0
for line in Path(sys.argv[1]).read_text("utf-8").splitlines():
    if not line or line.startswith("#"):
        continue
    program, verb, *arguments = shlex.split(line)
    assert (program, verb) == ("vllm", "serve"), line
    parser = make_arg_parser(FlexibleArgumentParser(prog="vllm serve"))
    found = parser.parse_args(arguments)
    found.model = found.model_tag
    validate_parsed_serve_args(found)
    assert found.served_model_name == ["coevo-0123456789ab"], found
    count += 1
print(f"accepted: {count}")
