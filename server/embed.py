#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""embed.py OPENAPI.yaml OUT.c: the description of the API as JSON within a C array."""

import json
import sys

import yaml

source, target = sys.argv[1:]
with open(source, encoding="utf-8") as file:
    data = json.dumps(yaml.safe_load(file), separators=(",", ":")).encode()
with open(target, "w", encoding="utf-8") as file:
    file.write('/* SPDX-License-Identifier: MIT */\n#include "server/openapi.h"\n\nconst char bl_openapi_json[] = {')
    for i, byte in enumerate(data):
        file.write(("\n    " if i % 24 == 0 else " ") + f"{byte},")
    file.write("\n};\nconst size_t bl_openapi_size = sizeof bl_openapi_json;\n")
